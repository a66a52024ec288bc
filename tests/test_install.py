"""The wheel in an empty environment does what a clone does; without Java it says so in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import eventide

ROOT = Path(__file__).parent.parent
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT], check=True)
    (made,) = folder.glob("eventide-*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that has the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "-c", ROOT / "constraints.txt", wheel], check=True)
    return folder / "bin"


def run(installed: Path, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """An `eventide` command, in a folder and an environment that know nothing of the source tree."""
    dropped = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")
    clean = {name: value for name, value in os.environ.items() if name not in dropped}
    command = [installed / "eventide", *arguments]
    return subprocess.run(command, cwd=folder, env=clean | environment, capture_output=True, text=True, check=False)


def test_the_wheel_says_that_it_is_typed_and_has_what_is_not_python(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"eventide/py.typed", "eventide/spark/local/LocalFiles.java"} <= names


def test_the_version_is_told_and_duckdb_is_not_needed(installed: Path, tmp_path: Path) -> None:
    told = run(installed, tmp_path, "--version")
    assert told.stdout == f"eventide {eventide.__version__}\n"
    listed = subprocess.run([installed / "python", "-m", "pip", "list"], capture_output=True, text=True, check=True)
    assert "pyspark" in listed.stdout and "duckdb" not in listed.stdout


def test_without_java_there_is_one_clear_sentence(installed: Path, tmp_path: Path) -> None:
    told = run(installed, tmp_path, "demo", "--seconds", "2", JAVA_HOME=str(tmp_path / "nowhere"))
    assert told.returncode == 1
    assert told.stderr.startswith("external error: Spark needs Java, and none was found\n  help: install Java 17")
    assert "Traceback" not in told.stderr


def test_a_java_that_is_too_old_gets_one_clear_sentence(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.9"\n')
    told = run(installed, tmp_path, "demo", "--seconds", "2", JAVA_HOME=str(tmp_path))
    assert told.returncode == 1
    assert told.stderr.startswith('external error: Spark needs Java 17 or newer, found JAVA_VERSION="11.0.9"\n  help: ')
    assert "Traceback" not in told.stderr


def test_an_app_runs_and_so_does_the_demo(installed: Path, tmp_path: Path) -> None:
    assert "app.toml written" in run(installed, tmp_path, "init").stdout
    ran = run(installed, tmp_path, "run", "app.toml", "--once", "--checkpoint", "state")
    assert ran.returncode == 0, ran.stderr
    assert "per_digit" in ran.stdout
    demo = run(installed, tmp_path, "demo", "--seconds", "4", "--rate", "500")
    assert demo.returncode == 0, demo.stderr
    assert "rows in" in demo.stdout


def test_warm_builds_what_later_starts_use(installed: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    first = run(installed, tmp_path, "warm", XDG_CACHE_HOME=cache)
    assert first.returncode == 0 and "Spark starts faster from now on" in first.stdout, first.stderr
    assert len(list((tmp_path / "cache" / "eventide").glob("classes-*.jsa"))) == 1
    assert "nothing to do" in run(installed, tmp_path, "warm", XDG_CACHE_HOME=cache).stdout
