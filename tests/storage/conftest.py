"""Where a checkpoint may lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.storage.paths import AnyPath, RemotePath, remote_path
from tests.connectors.hdfs_server import HdfsServer
from tests.connectors.s3_server import S3Server


def _remote(request: pytest.FixtureRequest, scheme: str) -> RemotePath:
    if scheme == "s3a":
        s3: S3Server = request.getfixturevalue("s3")
        return remote_path(f"s3a://{s3.new_bucket()}/some folder/app", s3.spark_settings)
    hdfs: HdfsServer = request.getfixturevalue("hdfs")
    return remote_path(f"{hdfs.new_folder()}/some folder/app", {})


HDFS = pytest.param("hdfs", marks=pytest.mark.slow)  # writes half a second at a file


@pytest.fixture
def objects(request: pytest.FixtureRequest) -> RemotePath:
    """An empty folder of an object store."""
    return _remote(request, "s3a")


@pytest.fixture(params=["s3a", HDFS])
def remote(request: pytest.FixtureRequest) -> RemotePath:
    """An empty folder of a store."""
    return _remote(request, request.param)


@pytest.fixture(params=["folder", "s3a", HDFS])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> AnyPath:
    """An empty folder: of this machine, and of stores."""
    return tmp_path / "app" if request.param == "folder" else _remote(request, request.param)
