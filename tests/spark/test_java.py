"""Which Java there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.errors import EnvironmentError
from eventide.spark.java import check_java


def java_home(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").touch()
    (folder / "release").write_text(f'IMPLEMENTOR="Anyone"\nJAVA_VERSION="{version}"\n')
    return folder


def test_a_java_is_known_by_its_release_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "new", "21.0.2")))
    assert check_java().startswith('VERSION="21.0.2"')


def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "old", "11.0.9")))
    with pytest.raises(EnvironmentError, match="Java 17 or newer"):
        check_java()


def test_a_missing_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EnvironmentError, match="none was found"):
        check_java()
