"""One quiet Spark session per process, shared by all databases in it.

A local Spark started here writes its noise to a log file instead of the terminal: the JVM inherits the log file as its
standard error, and so do the Python workers that it starts.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.spark.local.class_archive import java_options
from eventide.spark.local.java import check_java
from eventide.spark.local.local_files import without_forks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from eventide.spark.local.nursery import Nursery
    from eventide.spark.local.warming import Warming

# all cores; a task may fail three times, as on a cluster: a Python worker that dies does not end the stream
LOCAL = "local[*,4]"

# Settings of a Spark that is started here; a user's own `conf` wins over them.
STARTED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.log.level": "WARN",
    "spark.python.daemon.module": "eventide.spark.local.daemon",
}

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# Settings of every session that runs streams, set on a session of its own so that a user's session keeps its own.
STREAMING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",  # a bad value becomes NULL, not the end of the stream
    "spark.sql.caseSensitive": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stopTimeout": "60s",
    # else scans and the operator cannot share workers
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.sql.json.enableExactStringParsing": "false",  # an object in a text column reads the same from every source
}

# On a local disk: as few files as can be, and by way of local_files.py, which Spark's first choice would pass by.
LOCAL_STREAMING = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}

# Where a path leaves room for Spark's socket names in the about 100 bytes that a system allows. Between the JVM and
# Python processes a socket of the network would wait 40 ms for the second packet of every task, since Spark leaves
# Nagle's algorithm on.
_LONGEST_SOCKET_FOLDER = 50

_PYTHONS = (
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
)  # what Spark runs for tasks and queries, and to find data sources
_LAST_WARMING_SECONDS = 20.0
_guard = threading.Lock()
_shared: SparkSession | None = None
_warming: Warming | None = None
_nursery: Nursery | None = None
_users = 0
_scratch: Path | None = None


def acquire(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """The process's Spark session, started if there is none; give it back with `release`."""
    global _shared, _warming, _users, _scratch
    with _guard:
        if _shared is None:
            java = check_java()
            _scratch = Path(tempfile.mkdtemp(prefix="eventide-spark-"))
            _shared = _start(java, master or LOCAL, conf, _scratch)
            from eventide.spark.local.warming import Warming

            _warming = Warming(_shared)
        _users += 1
        return _shared


def release() -> None:
    """Give a session from `acquire` back; the last one stops Spark and removes its files."""
    global _shared, _warming, _nursery, _users, _scratch
    with _guard:
        _users -= 1
        if _users > 0 or _shared is None:
            return
        if _warming is not None:
            _warming.wait(_LAST_WARMING_SECONDS)
        _stop(_shared)
        if _nursery is not None:
            _nursery.close()
        _shared = _warming = _nursery = None
        if _scratch is not None:
            shutil.rmtree(_scratch, ignore_errors=True)
            _scratch = None


@contextlib.contextmanager
def started(master: str | None, conf: Mapping[str, str], module: str) -> Iterator[None]:
    """In the block the process's Spark is there. While it starts, `module` is imported, which the block will need."""
    import pyspark.sql  # noqa: F401  # whole before two threads use it: its modules import each other in a circle

    importing = threading.Thread(target=importlib.import_module, args=(module,), daemon=True)
    importing.start()
    acquire(master, conf)
    try:
        importing.join()
        yield
    finally:
        release()


def streaming_session(spark: SparkSession, shards: int) -> SparkSession:
    """A session on the same Spark with the settings that streams need; the given one is left as it is.

    A copy rather than a new one: it has the functions that the user has registered so far.
    """
    session = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    settings = {**STREAMING, **(LOCAL_STREAMING if is_local(spark) else {})}
    for key, value in settings.items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.shuffle.partitions", str(shards))
    return session


def start_workers(session: SparkSession) -> None:
    """Let the workers of tasks start beside what comes next, if this is a Spark of ours that has none yet."""
    if _warming is not None and _shared is not None and session.sparkContext is _shared.sparkContext:
        _warming.start_workers(session)


def frame_of(session: SparkSession, table: pa.Table) -> DataFrame:
    """The table as a DataFrame. In one chunk: Spark 4.3 takes an empty chunk for the end and loses what follows it."""
    return session.createDataFrame(table.combine_chunks())


def is_local(spark: SparkSession) -> bool:
    return (spark.conf.get("spark.master", "") or "").startswith("local")


def default_shards(spark: SparkSession) -> int:
    """As many as there are cores locally: a Spark state partition costs a commit in every batch. 64 on a cluster."""
    master = spark.conf.get("spark.master", "") or ""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master)
    if not found:
        return 64
    cores = found.group(1)
    if cores is None:
        return 1
    return (os.cpu_count() or 2) if cores == "*" else int(cores)


def _start(java: str, master: str, conf: Mapping[str, str], scratch: Path) -> SparkSession:
    for name in _PYTHONS:
        os.environ.setdefault(name, sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    is_local_linux = sys.platform == "linux" and re.match(r"local(\[|$)", master) is not None
    has_sockets = len(os.fsencode(scratch)) <= _LONGEST_SOCKET_FOLDER
    settings = {
        **STARTED,
        "spark.python.unix.domain.socket.enabled": str(has_sockets).lower(),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={scratch} -Dderby.system.home={scratch} "
        f"{java_options(java)}",
        **conf,
    }
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they repeat on the terminal what the exception says
    builder = SparkSession.builder.appName("eventide").master(master)
    with (
        _noise_to(scratch / "spark.log"),
        _python_of(scratch if is_local_linux and has_sockets else None),
        without_forks(is_local_linux) as of_files,
    ):
        for key, value in {**of_files, **settings}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


@contextlib.contextmanager
def _python_of(scratch: Path | None) -> Iterator[None]:
    """Let a Spark that starts inside the block take its Python processes from a nursery, where that can be."""
    global _nursery
    plain = {name: os.environ[name] for name in _PYTHONS}
    if scratch is not None and set(plain.values()) == {sys.executable}:
        from eventide.spark.local.nursery import Nursery

        _nursery = Nursery(scratch)
        if os.access(_nursery.python, os.X_OK):  # not where the folder is on a disk that runs no programs
            os.environ.update(dict.fromkeys(_PYTHONS, str(_nursery.python)))
    try:
        yield
    except BaseException:  # no Spark that would need it
        if _nursery is not None:
            _nursery.close()
            _nursery = None
        raise
    finally:
        os.environ.update(plain)


def _stop(spark: SparkSession) -> None:
    """Stop Spark and its JVM: a process that has used Eventide ends with no child left."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    spark.stop()
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process is not None:
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=20)


@contextlib.contextmanager
def _noise_to(log: Path) -> Iterator[None]:
    """Let processes started inside the block write standard error to `log`."""
    sys.stderr.flush()
    kept = os.dup(2)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(descriptor, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(descriptor)
