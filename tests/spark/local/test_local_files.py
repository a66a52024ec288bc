"""Hadoop's local files without a process per file: the class that is made for it, and what it does."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from eventide.database import Database
from eventide.spark.local.local_files import CLASS


@pytest.fixture
def hadoop(db: Database) -> Any:
    return db.spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]


@pytest.fixture
def files(db: Database, hadoop: Any) -> Any:
    """As everybody in the JVM gets them, once a stream could start."""
    db.execute("CREATE SOURCE s (v BIGINT); CREATE STREAM o AS SELECT v FROM s")
    disk = db.spark._jvm.java.net.URI.create("file:///")  # type: ignore[union-attr]
    found = hadoop.FileSystem.get(disk, db.spark._jsc.hadoopConfiguration())
    assert found.getClass().getName() == CLASS
    return found


@pytest.mark.parametrize(("text", "mode"), [("rw-r-----", 0o640), ("rwxr-xr-x", 0o755), ("---------", 0)])
def test_permissions_of_files_and_folders_are_set(
    files: Any, hadoop: Any, tmp_path: Path, text: str, mode: int
) -> None:
    permission = hadoop.permission.FsPermission.valueOf(f"-{text}")
    for name in ("file", "folder"):
        path = hadoop.Path(str(tmp_path / name))
        files.create(path).close() if name == "file" else files.mkdirs(path)
        files.setPermission(path, permission)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
        assert files.getFileStatus(path).getPermission().toString() == text
    assert (tmp_path / ".file.crc").exists()


def test_a_folder_for_everybody_keeps_its_sticky_bit(files: Any, hadoop: Any, tmp_path: Path) -> None:
    files.setPermission(hadoop.Path(str(tmp_path)), hadoop.permission.FsPermission("1777"))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


def test_a_local_file_system_is_still_one_for_hadoop(db: Database, hadoop: Any, files: Any) -> None:
    """Parts of Hadoop ask for that class by name, and get it however it is made."""
    assert hadoop.FileSystem.getLocal(db.spark._jsc.hadoopConfiguration()).getClass().getName() == CLASS
