"""Files as a stream with batches that size themselves: on Spark, through restarts and a kill."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from eventide.connectors.contract import Scans
from eventide.connectors.files.fused import scanned
from eventide.errors import OptionError, SourceError
from eventide.plan.logical import Source
from eventide.spark.failure import failure_of
from eventide.spark.session import streaming_session
from eventide.storage.time_bound import TimeBoundFile
from eventide.tasks.fused_scan import FusedScan, Resolution
from eventide.tasks.json_lines import RawLines
from eventide.tasks.packing import Packing, ShardBy

SECOND = 1_000_000


@pytest.fixture
def spark(keep_spark: SparkSession) -> SparkSession:
    return streaming_session(keep_spark, 2)


def lines(spark: SparkSession, path: str, target: int, state: Path) -> DataFrame:
    """The lines of files, read by a scan that leaves decoding to Spark."""
    TimeBoundFile(state / "line.json").draw(None)
    scan = FusedScan(RawLines(()), Resolution(), None, (), Packing(0, (0,), ShardBy(), 0))
    source = Source("s", (), "files", options={"path": path, "target_latency": f"{target}us"})
    return scanned(spark, source, 0, scan, Scans(state, state / "line.json", 2))


class Run:
    """A query over a folder, each file one line with its name, that notes the files of each batch."""

    def __init__(self, spark: SparkSession, folder: Path, target: int = 2 * SECOND) -> None:
        self.batches: dict[int, list[Any]] = {}
        self.in_batch: Callable[[], None] = lambda: None
        frame = lines(spark, str(folder / "in"), target, folder / "state")
        self._writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(folder / "spark"))
        self.query: StreamingQuery = self._writer.start()

    def _take(self, batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        self.batches[number] = rows
        self.in_batch()

    def names(self) -> list[list[str]]:
        return [sorted(bytes(row["row"]).decode() for row in rows) for rows in self.batches.values()]

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.query.stop()


def write(folder: Path, *names: str, length: int = 10) -> None:
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        path = folder / "in" / f"_{name}"
        path.write_bytes(name.encode().ljust(length))
        os.utime(path, (1000 + number, 1000 + number))
        path.rename(folder / "in" / name)


def test_each_file_comes_once_through_restarts(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a", "b", "c")
    with Run(spark, tmp_path) as run:
        run.query.processAllAvailable()
        write(tmp_path, "d")
        run.query.processAllAvailable()
        assert run.names() == [["a", "b", "c"], ["d"]]
        row = next(row for rows in run.batches.values() for row in rows if bytes(row["row"]) == b"b")
    assert row["received"] == 1001 * SECOND
    write(tmp_path, "e")
    with Run(spark, tmp_path) as run:
        run.query.processAllAvailable()
        assert run.names() == [["e"]]


def test_batches_grow_while_they_are_shorter_than_the_target(spark: SparkSession, tmp_path: Path) -> None:
    """By how much, and how they shrink, is tests/admission/test_pacing.py's to say, without a clock."""
    mib = 1 << 20
    (tmp_path / "in").mkdir()
    for number in range(40):
        (tmp_path / "in" / f"{number:03d}").write_bytes(f"{number:03d}".encode().ljust(mib))
    with Run(spark, tmp_path, target=600 * SECOND) as run:
        run.query.processAllAvailable()
    sizes = [len(rows) for rows in run.batches.values()]
    assert sizes[0] == 4 and max(sizes) > 4 and sum(sizes) == 40


def test_available_now_takes_what_is_there_in_several_batches(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, *(f"{number}" for number in range(5)), length=3 << 20)
    taken: list[int] = []
    frame = lines(spark, str(tmp_path / "in" / "*"), 2 * SECOND, tmp_path / "state")
    writer = frame.writeStream.foreachBatch(lambda batch, _: taken.append(batch.count())).option(
        "checkpointLocation", str(tmp_path / "s")
    )
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60) and sum(taken) == 5 and len(taken) > 1


def test_a_file_that_has_gone_stops_the_stream_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a")
    with Run(spark, tmp_path) as run:
        run.query.processAllAvailable()
    write(tmp_path, "b")
    (tmp_path / "spark" / "commits" / "0").unlink()
    (tmp_path / "in" / "a").unlink()
    with Run(spark, tmp_path) as run:
        with pytest.raises(Exception, match="has gone") as raised:
            run.query.processAllAvailable()
    error = failure_of("o", str(raised.value))
    assert isinstance(error, SourceError) and str(tmp_path / "in" / "a") in error.message and error.help


def test_a_path_that_only_spark_can_read_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="gs://bucket/in"):
        lines(spark, "gs://bucket/in", SECOND, tmp_path)


def reader_processes() -> list[psutil.Process]:
    """Spark's processes in which `latestOffset` runs."""
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "python_streaming_source_runner" in command(child)
    ]


def command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # it has ended, but nobody has collected its status yet
        return ""


def test_a_reader_that_is_killed_in_the_middle_of_a_batch_gives_the_same_files_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """
    batch 0     batch 1: b, c            again: b, c       batch 2
    a           kill -9, older "0" comes                   0
    """
    write(tmp_path, "a")
    with Run(spark, tmp_path) as run:
        run.query.processAllAvailable()
        run.in_batch = kill_reader
        write(tmp_path, "b", "c")
        with pytest.raises(StreamingQueryException):
            run.query.processAllAvailable()
        assert run.names() == [["a"], ["b", "c"]]
    write(tmp_path, "0")
    with Run(spark, tmp_path) as run:
        run.query.processAllAvailable()
        assert run.names() == [["b", "c"], ["0"]]


def kill_reader() -> None:
    readers = reader_processes()
    assert readers
    for reader in readers:
        reader.kill()
    raise RuntimeError("this batch is not to be committed")


def test_a_query_that_stops_leaves_no_reader_behind(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a")
    with Run(spark, tmp_path) as run:
        run.query.processAllAvailable()
        assert len(reader_processes()) == 1
    deadline = time.monotonic() + 60
    while reader_processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert reader_processes() == []
