"""Which Java there is, and the archive of Spark's classes for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.errors import EnvironmentError
from eventide.spark.local.class_archive import archive, java_options
from eventide.spark.local.java import check_java


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


def test_an_archive_is_used_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert java_options("17") == ""
    path = archive("17")
    path.parent.mkdir()
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in java_options("17")
    assert java_options("21") == ""
