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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventide.errors import EnvironmentError, EventideError
from eventide.spark import cluster, settings
from eventide.spark.interrupts import interrupts_wait
from eventide.spark.java import check_java
from eventide.spark.local import speed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class SparkOptions:
    """How to start Spark, as `eventide.connect` takes it."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    local_speed: bool | None = None  # None: the environment decides


@dataclass(frozen=True)
class Jvm:
    """The process in which Spark runs, if this process has started it."""

    process: subprocess.Popen[bytes] | None

    @classmethod
    def running(cls) -> Jvm:
        from pyspark import SparkContext

        return cls(getattr(SparkContext._gateway, "proc", None))

    @property
    def has_ended(self) -> bool:
        """For lack of memory, or because it was killed."""
        return self.process is not None and self.process.poll() is not None


@dataclass(frozen=True)
class _Started:
    spark: SparkSession
    speed: speed.Ordinary
    scratch: Path
    jvm: Jvm


_LOG = "spark.log"
_guard = threading.Lock()
_shared: _Started | None = None
_users = 0


def acquire(options: SparkOptions | None = None) -> SparkSession:
    """The process's Spark session, started if there is none; give it back with `release`."""
    global _shared, _users
    with _guard:
        if _shared is not None and (_shared.jvm.has_ended or _is_stopped(_shared.spark)):
            _let_go(_shared)
            _shared, _users = None, 0
        if _shared is None:
            _shared = _start(options or SparkOptions())
        _users += 1
        return _shared.spark


def _is_stopped(spark: SparkSession) -> bool:
    """Whether somebody else has stopped it: a cluster may."""
    java: Any = spark.sparkContext._jsc
    return java is None or bool(java.sc().isStopped())


def release(spark: SparkSession) -> None:
    """Give a session from `acquire` back; the last one stops Spark and removes its files."""
    global _shared, _users
    with _guard:
        if _shared is None or spark is not _shared.spark:
            return  # of a Spark that has ended by itself, and was replaced
        _users -= 1
        if _users == 0:
            _let_go(_shared)
            _shared = None


def _let_go(started: _Started) -> None:
    with started.speed.stopping():
        if started.jvm.has_ended:
            _forget(started.spark)
        else:
            _stop(started.spark)
    shutil.rmtree(started.scratch, ignore_errors=True)


def _forget(spark: SparkSession) -> None:
    """Let PySpark know that its JVM is no longer there, so that the next session starts another."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with contextlib.suppress(Exception):  # it asks the JVM to stop before it forgets it
        spark.stop()
    SparkSession._instantiatedSession = None
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None


@contextlib.contextmanager
def started(options: SparkOptions, module: str) -> Iterator[None]:
    """In the block the process's Spark is there. While it starts, `module` is imported, which the block will need."""
    import pyspark.sql  # noqa: F401  # whole before two threads use it: its modules import each other in a circle

    importing = threading.Thread(target=importlib.import_module, args=(module,), daemon=True)
    importing.start()
    spark = acquire(options)
    try:
        importing.join()
        yield
    finally:
        release(spark)


def streaming_session(spark: SparkSession, shards: int, local_speed: bool | None = None) -> SparkSession:
    """A session on the same Spark with the settings that streams need; the given one is left as it is.

    A copy rather than a new one: it has the functions that the user has registered so far.
    """
    session = type(spark)(spark.sparkContext, spark._jsparkSession.cloneSession())
    master = master_of(spark)
    for key, value in {
        **settings.streaming_settings(master),
        **speed.streaming_settings(master, local_speed),
        "spark.sql.shuffle.partitions": str(shards),
    }.items():
        session.conf.set(key, value)
    return session


def start_workers(session: SparkSession) -> None:
    """Let the workers of tasks start beside what comes next, if this is a Spark of ours that has none yet."""
    if _shared is not None and session.sparkContext is _shared.spark.sparkContext:
        _shared.speed.start_workers(session)


def frame_of(session: SparkSession, table: pa.Table) -> DataFrame:
    """The table as a DataFrame. In one chunk: Spark 4.3 takes an empty chunk for the end and loses what follows it."""
    return session.createDataFrame(table.combine_chunks())


def default_shards(spark: SparkSession) -> int:
    """As many as there are cores: a Spark state partition costs a commit in every batch."""
    return settings.local_cores(master_of(spark)) or cluster.cores(spark)


def master_of(spark: SparkSession) -> str:
    return spark.conf.get("spark.master", "") or ""


def _start(options: SparkOptions) -> _Started:
    java = check_java()
    scratch = Path(tempfile.mkdtemp(prefix="eventide-spark-"))
    master = options.master or settings.LOCAL
    faster = speed.speed_of(master, java, scratch, options.local_speed)
    try:
        with interrupts_wait() as interrupts:
            spark = _start_spark(master, options.conf, scratch, faster)
        if interrupts:
            raise KeyboardInterrupt
    except BaseException as error:
        refused = None if settings.is_local(master) else _refused(master, scratch / _LOG, error)
        with faster.stopping():
            _stop_what_runs()
        shutil.rmtree(scratch, ignore_errors=True)
        if refused is not None:
            raise refused from None
        raise
    faster.started(spark)
    return _Started(spark, faster, scratch, Jvm.running())


def _refused(master: str, log: Path, error: BaseException) -> EventideError | None:
    """Why no Spark could be started on a cluster; None for what has nothing to do with it."""
    if not isinstance(error, Exception) or isinstance(error, EventideError):
        return None
    noise = log.read_text(errors="replace") if log.exists() else ""
    reasons = re.findall(r"(?:Reason: |SparkException: )(\S[^\n]*)", f"{error}\n{noise}")
    said = reasons[-1] if reasons else str(error).splitlines()[0]
    return EnvironmentError(
        f"Spark cannot be started on {master}: {said}",
        help="check the address, that the cluster runs, and that it has the version of Spark that is installed here",
    )


def _start_spark(master: str, conf: Mapping[str, str], scratch: Path, faster: speed.Ordinary) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python", sys.executable))
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", conf.get("spark.pyspark.driver.python", sys.executable))
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they repeat on the terminal what the exception says
    builder = SparkSession.builder.appName("eventide").master(master)
    with (
        _noise_to(scratch / _LOG),
        _defaults_in_environment(settings.started_environment(master)),
        faster.starting(settings.started_settings(master, scratch)) as chosen,
    ):
        for key, value in {**chosen, **conf}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def _stop_what_runs() -> None:
    """Stop what there is of a Spark whose start has failed: its context, or its JVM alone."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        with contextlib.suppress(Exception):  # a cluster may have stopped it already
            context.stop()
    _end_jvm()


def _stop(spark: SparkSession) -> None:
    """Stop Spark and its JVM: a process that has used Eventide ends with no child left."""
    spark.stop()
    _end_jvm()


def _end_jvm() -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
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
def _defaults_in_environment(defaults: Mapping[str, str]) -> Iterator[None]:
    """Let processes started inside the block see `defaults`, where the environment has nothing else."""
    missing = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


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
