"""The start of a query, with settings and a pool that are its own: Spark takes them from the session and the thread
in which a query starts.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

_POOL = "spark.scheduler.pool"
_RUNS_EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
# Where tasks read, decode and finish all rows, Spark hands on a few blobs in a batch. To write code for that, and to do
# so again for every batch to find it among the code that is compiled, takes longer than to do without.
_WITHOUT_GENERATED_CODE = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}

# How long Spark waits before it looks again whether there is anything. To look takes 2 ms of processor time, and a
# stream that reads others waits for whole batches of theirs: it need not look after every 10 ms, as Spark does.
_LOOKS_RARELY = {"spark.sql.streaming.pollingDelay": "30ms"}

_one_by_one = threading.Lock()  # for all queries of a session


def start_query(
    session: SparkSession,
    writer: DataStreamWriter,
    pool: str,
    *,
    ends: bool,
    evaluates_rows: bool,
    reads_streams: bool,
) -> StreamingQuery:
    """`pool`: Spark shares its cores between pools, and would else serve the streams of a database one after the other.
    `ends`: whether the query ends by itself. It then takes in nothing that comes in the meantime, so it cannot be
    called for a batch. `evaluates_rows`: whether Spark evaluates expressions for each row. `reads_streams`: whether it
    reads nothing but other streams.
    """
    settings = {
        _RUNS_EMPTY_BATCHES: str(ends).lower(),
        **({} if evaluates_rows else _WITHOUT_GENERATED_CODE),
        **(_LOOKS_RARELY if reads_streams else {}),
    }
    with _one_by_one, _settings(session, settings), _in_pool(session, pool):
        return writer.start()


@contextlib.contextmanager
def _settings(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: str(session.conf.get(name)) for name in settings}
    _set(session, settings)
    try:
        yield
    finally:
        _set(session, before)


def _set(session: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        session.conf.set(name, value)


@contextlib.contextmanager
def _in_pool(session: SparkSession, pool: str) -> Iterator[None]:
    context = session.sparkContext
    before: Any = context.getLocalProperty(_POOL)
    context.setLocalProperty(_POOL, pool)
    try:
        yield
    finally:
        context.setLocalProperty(_POOL, before)
