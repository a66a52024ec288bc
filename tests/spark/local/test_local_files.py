"""Hadoop's local files without a process per file: the class that is compiled for it, and what it does."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest

from eventide.database import Database
from eventide.spark.local import local_files
from eventide.spark.local.local_files import CLASS, jar, without_forks

VARIABLE = "SPARK_DIST_CLASSPATH"


@pytest.fixture
def no_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if none ran in this process, and with an empty cache."""
    monkeypatch.setattr(local_files, "_has_no_jvm", lambda: True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize(("text", "mode"), [("rw-r-----", 0o640), ("rwxr-xr-x", 0o755), ("---------", 0)])
def test_permissions_of_files_and_folders_are_set(db: Database, tmp_path: Path, text: str, mode: int) -> None:
    jvm = db.spark._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.get(
        jvm.java.net.URI.create("file:///"), db.spark._jsc.hadoopConfiguration()
    )
    assert files.getClass().getName() == CLASS
    permission = jvm.org.apache.hadoop.fs.permission.FsPermission.valueOf(f"-{text}")
    for name in ("file", "folder"):
        path = jvm.org.apache.hadoop.fs.Path(str(tmp_path / name))
        files.create(path).close() if name == "file" else files.mkdirs(path)
        files.setPermission(path, permission)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
        assert files.getFileStatus(path).getPermission().toString() == text
    assert (tmp_path / ".file.crc").exists()


def test_a_folder_for_everybody_keeps_its_sticky_bit(db: Database, tmp_path: Path) -> None:
    jvm = db.spark._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.get(
        jvm.java.net.URI.create("file:///"), db.spark._jsc.hadoopConfiguration()
    )
    files.setPermission(
        jvm.org.apache.hadoop.fs.Path(str(tmp_path)), jvm.org.apache.hadoop.fs.permission.FsPermission("1777")
    )
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


@pytest.mark.parametrize(("before", "inside"), [(None, "{jar}"), ("mine.jar", "mine.jar:{jar}")])
def test_the_class_is_compiled_once_and_is_last_on_the_class_path(
    no_jvm: None, monkeypatch: pytest.MonkeyPatch, before: str | None, inside: str
) -> None:
    if before is not None:
        monkeypatch.setenv(VARIABLE, before)
    with without_forks(True) as settings:
        assert settings == {"spark.hadoop.fs.file.impl": CLASS}
        assert os.environ[VARIABLE] == inside.format(jar=jar())
    assert os.environ.get(VARIABLE) == before
    assert zipfile.ZipFile(jar()).namelist() == ["eventide/LocalFiles$Raw.class", "eventide/LocalFiles.class"]
    made = jar().stat().st_mtime_ns
    with without_forks(True):
        assert jar().stat().st_mtime_ns == made
    assert [path.name for path in jar().parent.iterdir()] == [jar().name]


def test_hadoop_works_as_usual_without_a_compiler(
    no_jvm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "java" / "bin" / "java"
    fake.parent.mkdir(parents=True)
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    with without_forks(True) as settings:
        assert settings == {}
        assert VARIABLE not in os.environ


def test_a_running_jvm_and_a_cluster_are_left_alone(db: Database) -> None:
    assert db.spark is not None
    with without_forks(True) as settings:
        assert settings == {}
    with without_forks(False) as settings:
        assert settings == {}
