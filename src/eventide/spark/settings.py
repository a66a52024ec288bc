"""Settings of Spark: of one that is started here, and of every session that runs streams."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

# all cores; a task may fail three times, as on a cluster: a Python worker that dies does not end the stream
LOCAL = "local[*,4]"

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# what Spark runs for tasks and queries, and to find data sources
PYTHONS = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")

_STARTED = {
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.log.level": "WARN",
    "spark.scheduler.mode": "FAIR",  # streams share the cores: see `spark.running`
    # else the JVM is told for each column which line of Python has made it: a third of the CPU of creating a stream,
    # and the lines would be ours
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

# A Spark that is all in one process is nobody else's business, and needs no network. On a cluster the workers must
# reach the driver, so Spark finds out its address.
_LOOPBACK = "127.0.0.1"
_LOCAL = {
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.ui.enabled": "false",
    # what the page would show is collected all the same: gigabytes of a process in which many streams run
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    # of memory that a task asks for to sort its rows: by default 64 MB with a heap of 4 GB, which are filled with
    # zeros, and soon garbage, in every batch, however few rows it has
    "spark.buffer.pageSize": "1m",
}

_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# Set on a session of its own, so that a user's session keeps its own.
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

# On a local disk, which has checksums of its own: half as many files. What is in a checkpoint does not depend on local
# speed: a file that is written again without its checksum would no longer fit the old one.
_LOCAL_STREAMING = {"spark.sql.streaming.checkpoint.fileChecksum.enabled": "false"}

# Where a path leaves room for Spark's socket names in the about 100 bytes that a system allows. Between the JVM and
# Python processes a socket of the network would wait 40 ms for the second packet of every task, since Spark leaves
# Nagle's algorithm on.
_LONGEST_SOCKET_FOLDER = 50


def is_local(master: str) -> bool:
    """Whether driver and tasks are one process on this machine."""
    return re.match(r"local(\[|$)", master) is not None


def started_settings(master: str, scratch: Path) -> dict[str, str]:
    """Of a Spark that is started here, with its files in `scratch`; a user's own settings win over them.

    Most settings reach executors too. So on a cluster none of them names a folder of this machine but for the driver.
    """
    common = {
        **_STARTED,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        JAVA_OPTIONS: f"-Djava.io.tmpdir={scratch} -Dderby.system.home={scratch}",
    }
    if not is_local(master):
        return common
    has_sockets = len(os.fsencode(scratch)) <= _LONGEST_SOCKET_FOLDER
    return {
        **common,
        **_LOCAL,
        "spark.python.unix.domain.socket.enabled": str(has_sockets).lower(),
        "spark.local.dir": str(scratch / "local"),
    }


def started_environment(master: str) -> Mapping[str, str]:
    """What the JVM of such a Spark finds in its environment, where the user has said nothing."""
    return {"SPARK_LOCAL_IP": _LOOPBACK} if is_local(master) else {}


def streaming_settings(master: str) -> dict[str, str]:
    return {**STREAMING, **(_LOCAL_STREAMING if is_local(master) else {})}


def local_cores(master: str) -> int | None:
    """How many a local Spark uses; None for a cluster, which must be asked."""
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\d+)?\])?", master)
    if not found:
        return None
    cores = found.group(1)
    if cores is None:
        return 1
    return (os.cpu_count() or 2) if cores == "*" else int(cores)


def promised_cores(settings: Mapping[str, str]) -> int | None:
    """How many cores the settings of an application say that it gets from a cluster; None if they do not."""
    if "spark.default.parallelism" in settings:
        return int(settings["spark.default.parallelism"])
    if "spark.cores.max" in settings:
        return int(settings["spark.cores.max"])
    is_dynamic = settings.get("spark.dynamicAllocation.enabled", "false").lower() == "true"
    executors = settings.get("spark.dynamicAllocation.maxExecutors" if is_dynamic else "spark.executor.instances")
    return None if executors is None else int(executors) * int(settings.get("spark.executor.cores", "1"))
