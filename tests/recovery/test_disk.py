"""A disk that is really full, a small tmpfs: clear errors, nothing written in part, and the run continues when there is
room again.
"""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import eventide
from eventide.errors import EventideError, StorageError
from eventide.spark.failure import failure_of

MEGABYTE = 1 << 20
PAGE = 4096
# How much space a batch has, in pages: it fails at its manifest, in Spark's offsets and state, at the sink, the
# results, the commit.
PAGES_LEFT = (0, 1, 3, 6, 12)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk needs the right to mount one, root's: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path, pages_left: int) -> Path:
    """Take all space except for some pages."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        size = MEGABYTE
        while size >= PAGE:
            try:
                written = file.write(bytes(size))
            except OSError as error:
                assert error.errno == errno.ENOSPC
                written = 0
            if written < size:
                size //= 2
        file.truncate(max(0, file.tell() - pages_left * PAGE))
    return filler


def test_a_full_disk_stops_the_stream_clearly_and_space_lets_it_continue(disk: Path, keep_spark: Any) -> None:
    with eventide.connect(disk / "checkpoint", shards=2) as db:
        db.execute(f"""
            CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
            CREATE STREAM o AS SELECT window_start, k, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1'
              SECOND);
            CREATE SINK out FROM o WITH ('connector' = 'files', 'path' = '{disk / "out"}', 'format' = 'parquet');
        """)
        db.write("s", [("k", 1, 0)])
        db.tick()
        filler, failures = fill(disk, 0), []
        with pytest.raises(
            StorageError,
            match=r"000000000002\.arrow cannot be written: No space left on device\n  help: free some space",
        ):
            db.write("s", [("k", 1, 500)])
        filler.unlink()
        for number, pages in enumerate(PAGES_LEFT, start=1):
            db.write("s", [(f"k{row % 50}", 1, number * 1000 + row) for row in range(500)])
            filler = fill(disk, pages)
            try:
                db.tick()
            except EventideError as error:
                failures.append(str(error))
            there = pq.read_table(disk / "out").to_pylist() if any((disk / "out").glob("*.parquet")) else []
            assert all(row["total"] in (1, 10) for row in there), "whole batches or none"
            filler.unlink()
            db.stop(graceful=False)
            db.tick()
        db.advance_watermark("s", 1_000_000)
        db.tick()
        assert len(failures) >= 3 and all("No space left on device" in failure for failure in failures), failures
        wanted = 1 + 50 * len(PAGES_LEFT)
        assert len(db.read("o")) == wanted and sum(row["total"] for row in db.read("o")) == 1 + 500 * len(PAGES_LEFT)
        assert pq.read_table(disk / "out").num_rows == wanted
        figures = db.accounting("o")
        assert figures["rows_in"] == figures["used"] == 1 + 500 * len(PAGES_LEFT)


def test_spark_without_space_is_told_apart_from_other_failures() -> None:
    text = (
        "[STREAM_FAILED] Query terminated with exception\nCaused by: java.io.IOException: No space left on "
        "device\n\tat x"
    )
    error = failure_of("o", text)
    assert (
        isinstance(error, StorageError)
        and "stream o stopped: No space left on device" in str(error)
        and "free some space" in str(error)
    )
