"""The archive of Spark's classes for Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.spark.local.class_archive import archive, java_options


def test_an_archive_is_used_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert java_options("17") == ""
    path = archive("17")
    path.parent.mkdir()
    path.touch()
    assert f"-XX:SharedArchiveFile={path}" in java_options("17")
    assert java_options("21") == ""
