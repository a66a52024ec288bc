"""What is said of a cluster that cannot run tasks, without one; `tests/cluster` has a real one."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, cast

import pytest

import eventide
from eventide.errors import EnvironmentError
from eventide.spark.cluster import Question, _answering, _zip_package, cannot_run
from eventide.spark.session import _refused


class Context:
    master = "spark://host:7077"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ('java.io.IOException: Cannot run program "/opt/py/bin/python": error=2', "cannot run /opt/py/bin/python"),
        ("x\n[PYTHON_VERSION_MISMATCH] Python in worker: 3.12, driver: 3.11\ny", "worker: 3.12, driver: 3.11"),
        ("Py4JJavaError: something\nCaused by: java.io.FileNotFoundException: /x", "tasks: java.io.FileNotFound"),
        ("", "spark://host:7077 runs no tasks: unknown cause"),
    ],
)
def test_why_no_task_runs(told: str, said: str) -> None:
    error = cannot_run(told, cast(Any, Context()))
    assert isinstance(error, EnvironmentError) and said in error.message and error.help


def test_a_cluster_that_cannot_be_reached_is_one_sentence(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    log.write_text("ERROR x: Application has been killed. Reason: All masters are unresponsive! Giving up.\n")
    error = _refused("spark://host:7077", log, RuntimeError("Cannot call methods on a stopped SparkContext.\nmore"))
    assert error is not None
    assert error.message == "Spark cannot be started on spark://host:7077: All masters are unresponsive! Giving up."
    java = "An error occurred while calling x.\n: java.lang.IllegalStateException: Cannot call a stopped one.\nmore"
    unlogged = _refused("yarn", tmp_path / "none", RuntimeError(java))
    assert unlogged is not None and unlogged.message == "Spark cannot be started on yarn: Cannot call a stopped one."
    assert _refused("yarn", tmp_path / "none", KeyboardInterrupt()) is None
    assert _refused("yarn", tmp_path / "none", EnvironmentError("no Java")) is None


def test_an_executor_answers_with_its_version_and_what_it_lacks(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    ask = _answering(Question(("json", "no_such_module"), (tmp_path, missing)), 0.0)
    ((_, version, problems),) = ask(iter([0]))
    assert version == eventide.__version__ and set(problems) == {"no_such_module", str(missing)}


def test_the_package_that_is_sent_is_whole(tmp_path: Path) -> None:
    _zip_package(tmp_path / "e.zip")
    names = set(zipfile.ZipFile(tmp_path / "e.zip").namelist())
    assert {"eventide/__init__.py", "eventide/spark/shard.py", "eventide/py.typed"} <= names
    assert not any(name.endswith(".pyc") for name in names)
