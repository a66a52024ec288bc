"""Where a checkpoint may lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.storage.paths import AnyPath, RemotePath, remote_path
from tests.connectors.s3_server import S3Server


@pytest.fixture
def remote(s3: S3Server) -> RemotePath:
    """An empty folder of an object store."""
    return remote_path(f"s3a://{s3.new_bucket()}/some folder/app", s3.spark_settings)


@pytest.fixture(params=["folder", "s3a"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> AnyPath:
    """An empty folder: of this machine, and of an object store."""
    found: AnyPath = tmp_path / "app" if request.param == "folder" else request.getfixturevalue("remote")
    return found
