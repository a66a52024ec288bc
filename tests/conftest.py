"""Databases for tests. They share one Spark: the first `connect` of the run starts it, and it stays until the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from eventide.database import Database
    from tests.connectors.hdfs_server import HdfsServer
    from tests.connectors.s3_server import S3Server

# No test runs long enough for Java's second compiler to pay off: without it a query takes a quarter less CPU, the start
# a third less. Java then also keeps little room for compiled code, and hundreds of queries would run out of it. A
# collector of garbage without threads of its own suits small heaps on busy cores.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=400m -XX:+UseSerialGC")

# How long an example takes means nothing on a busy machine. Examples are the same in every run, so that a change fails
# only because of what it contains; `make test-slow` looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("new", deadline=None, max_examples=500)
settings.load_profile("new" if os.environ.get("NEW_EXAMPLES") else "same")

DatabaseFactory = Callable[..., "Database"]


@pytest.fixture(scope="session")
def keep_spark() -> Iterator[Any]:
    """Spark's session. The database only keeps it open."""
    import eventide

    holder = eventide.connect()
    yield holder.spark
    holder.close()


@pytest.fixture
def db_factory(keep_spark: Any) -> Iterator[DatabaseFactory]:
    """`eventide.connect`, with everything that was opened closed after the test."""
    import eventide

    opened: list[Database] = []

    def open_database(**options: Any) -> Database:
        db = eventide.connect(**options)
        opened.append(db)
        return db

    yield open_database
    for db in reversed(opened):
        db.close()


@pytest.fixture
def db(db_factory: DatabaseFactory) -> Database:
    return db_factory()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server; what is stored there is gone at the end."""
    from tests.connectors import s3_server

    if not s3_server.is_there():
        pytest.skip(s3_server.MISSING)
    with s3_server.running_s3(tmp_path_factory.mktemp("s3") / "log") as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """HDFS; what is stored there is gone at the end."""
    from tests.connectors import hdfs_server

    if not hdfs_server.is_there():
        pytest.skip(hdfs_server.MISSING)
    with hdfs_server.running_hdfs(tmp_path_factory.mktemp("hdfs")) as server:
        yield server
