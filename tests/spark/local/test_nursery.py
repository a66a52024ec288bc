"""The parent of Spark's Python processes: what is forked is like a Python of its own, and ends when it should."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from eventide.spark.local.nursery import Nursery

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is a nursery only on Linux")

TELL = """
import json, os, sys
told = {"arguments": sys.argv[1:], "mine": os.environ.get("MINE"), "folder": os.getcwd(), "read": sys.stdin.read()}
told |= {"is_main": __name__ == "__main__", "has_loaded": "pyarrow" in sys.modules}
told |= {"name": open("/proc/self/comm").read()}
print(json.dumps(told))
print("a word of warning", file=sys.stderr)
sys.exit(7)
"""
SLEEP = """
import os, time
print(os.getpid(), flush=True)
time.sleep(600)
"""
DRIVER = """
import pathlib, time
from eventide.spark.local.nursery import Nursery
nursery = Nursery(pathlib.Path({folder!r}))
print(nursery._process.pid, flush=True)
time.sleep(600)
"""
FAIL = "import no_such_module"


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    made = Nursery(tmp_path_factory.mktemp("n"))
    yield made
    made.close()


@pytest.fixture
def ask(nursery: Nursery, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Run a program as Spark would, by its module's name."""

    def start(program: str, *arguments: str, nursery: Nursery = nursery, **environment: str) -> subprocess.Popen[str]:
        (tmp_path / "program.py").write_text(program)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        variables = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "0", **environment}
        command = [str(nursery.python), "-m", "program", *arguments]
        return subprocess.Popen(command, text=True, cwd=tmp_path, env=variables, **pipes)

    return start


def ends(process: int) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not psutil.pid_exists(process):
            return True
        time.sleep(0.02)
    return False


def test_a_fork_has_the_arguments_environment_folder_streams_and_status_of_a_process(
    ask: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    started = ask(TELL, "tests.of.tasks", MINE="yes")
    out, errors = started.communicate("some words")
    told = json.loads(out)
    assert told.pop("name").strip() == "ev tasks"
    assert told == {
        "arguments": ["tests.of.tasks"],
        "mine": "yes",
        "folder": str(tmp_path),
        "read": "some words",
        "is_main": True,
        "has_loaded": True,
    }
    assert errors == "a word of warning\n"
    assert started.returncode == 7


def test_an_error_is_reported_as_usual(ask: Callable[..., subprocess.Popen[str]]) -> None:
    started = ask(FAIL)
    _, errors = started.communicate()
    assert "No module named 'no_such_module'" in errors
    assert started.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_ends_with_what_stands_for_it(ask: Callable[..., subprocess.Popen[str]], number: int) -> None:
    started = ask(SLEEP)
    child = int(started.stdout.readline())  # type: ignore[union-attr]
    assert child != started.pid
    started.send_signal(number)
    assert ends(child)
    started.communicate()


def test_what_stands_for_a_process_ends_with_it(ask: Callable[..., subprocess.Popen[str]]) -> None:
    started = ask(SLEEP)
    os.kill(int(started.stdout.readline()), signal.SIGKILL)  # type: ignore[union-attr]
    started.communicate(timeout=500)
    assert started.returncode == 128 + signal.SIGKILL


def test_a_python_with_other_hashes_is_a_plain_one(ask: Callable[..., subprocess.Popen[str]]) -> None:
    out, _ = ask(TELL, PYTHONHASHSEED="5").communicate()
    assert json.loads(out)["has_loaded"] is False


def test_python_with_other_options_than_a_module_is_a_plain_one(nursery: Nursery) -> None:
    told = subprocess.run(
        [nursery.python, "-c", "import sys; print(sys.executable, 'pyarrow' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == [sys.executable, "False"]


def test_without_the_nursery_its_children_end_and_the_next_is_a_plain_python(
    ask: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    other = Nursery(tmp_path)
    started = ask(SLEEP, nursery=other)
    child = int(started.stdout.readline())  # type: ignore[union-attr]
    psutil.Process(child).parent().kill()  # type: ignore[union-attr]
    assert ends(child)
    started.communicate()
    out, _ = ask(TELL, nursery=other).communicate()
    assert json.loads(out)["has_loaded"] is False
    other.close()


def test_the_nursery_ends_when_its_driver_is_killed(tmp_path: Path) -> None:
    program = DRIVER.format(folder=str(tmp_path))
    driver = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    process = int(driver.stdout.readline())  # type: ignore[union-attr]
    assert psutil.pid_exists(process)
    driver.kill()
    assert ends(process)
    driver.communicate()
