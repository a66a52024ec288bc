"""The parent of Spark's workers: what is loaded ahead is a help, and never in the way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import psutil
import pytest

from eventide.spark.local.daemon import OF_TASKS, preload

# as Spark runs it, with a module in the list that its release does not have, and one that does not load
WITH_A_GAP = """
import sys
from eventide.spark.local import daemon
daemon.OF_TASKS = ("pyspark.sql.gone_since", "broken_module", *daemon.OF_TASKS)
sys.argv = ["daemon", "pyspark.worker"]
daemon.main()
"""


def read_int(stream: IO[bytes]) -> int:
    return int.from_bytes(stream.read(4), "big")


@pytest.mark.skipif(sys.platform == "win32", reason="Spark has no such parent there")
def test_workers_start_though_a_module_that_is_loaded_ahead_has_gone(tmp_path: Path) -> None:
    (tmp_path / "broken_module.py").write_text("raise RuntimeError('not today')")
    sources = str(Path(__file__).parents[3] / "src")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), sources]),
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(tmp_path),
    }
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", WITH_A_GAP], env=environment, **pipes) as daemon:
        door = daemon.stdout.read(read_int(daemon.stdout)).decode()  # type: ignore[union-attr]
        with socket.socket(socket.AF_UNIX) as asking, asking.makefile("rb") as answer:
            asking.connect(door)
            worker = psutil.Process(read_int(answer))
            assert worker.parent() == psutil.Process(daemon.pid)
        daemon.stdin.close()  # type: ignore[union-attr]
        said = daemon.stderr.read().decode()  # type: ignore[union-attr]
    assert "pyspark.sql.gone_since is not loaded ahead: ModuleNotFoundError" in said
    assert "broken_module is not loaded ahead: RuntimeError: not today" in said


def test_what_comes_after_a_module_that_has_gone_is_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    sys.modules.pop("this", None)
    preload(["no_such_module", "this"])
    assert sys.modules.pop("this") and "no_such_module is not loaded ahead" in capsys.readouterr().err


def test_modules_of_ours_that_are_loaded_ahead_are_there() -> None:
    """Without this a name that has become another would cost time, and nobody would notice."""
    ours = [module for module in OF_TASKS if module.startswith("eventide.")]
    assert ours and [module for module in ours if find_spec(module) is None] == []
