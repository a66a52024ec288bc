"""Run by test_switched_off.py with EVENTIDE_LOCAL_SPEED=0: of local speed there is nothing to be seen."""

from __future__ import annotations

import contextlib
import sys

import psutil

from eventide.database import Database
from eventide.spark.local.local_files import CLASS

PARTS = ("nursery", "daemon", "warming")


def commands() -> str:
    """Of all processes that were started from this one."""
    lines = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended
            lines.append(" ".join(process.cmdline()))
    return "\n".join(lines)


def test_spark_is_as_it_comes(db: Database) -> None:
    db.execute("CREATE SOURCE s (v BIGINT); CREATE STREAM o AS SELECT v FROM s")
    db.write("s", [(1,)])
    db.tick()
    assert db.read("o").fetchall() == [{"v": 1}]
    loaded = {part for part in PARTS if f"eventide.spark.local.{part}" in sys.modules}
    settings = dict(db.spark.sparkContext.getConf().getAll())
    assert not loaded
    running = commands()
    assert "eventide.spark.local" not in running and "launcher.py" not in running and "pyspark.daemon" in running
    assert "spark.python.daemon.module" not in settings
    assert "SharedArchiveFile" not in settings["spark.driver.extraJavaOptions"]
    jvm = db.spark._jvm
    files = jvm.org.apache.hadoop.fs.FileSystem.getLocal(db.spark._jsc.hadoopConfiguration())  # type: ignore[union-attr]
    assert files.getClass().getName() != CLASS
