"""When a batch without rows is called for, and how far time has come; with files as Spark writes them, and on Spark."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eventide.database import Database
from eventide.errors import CheckpointError
from eventide.spark.clock import to_spark_ms
from eventide.spark.last_watermark import LastWatermark
from eventide.storage.results import Account
from tests.conftest import DatabaseFactory

SECOND = 1_000_000


class Story:
    """A stream of the sources a and b, as its router and Spark's commits tell of it."""

    def __init__(self, folder: Path) -> None:
        self._commits = folder / "commits"
        self._commits.mkdir()
        self._account: Account | None = None
        results = SimpleNamespace(latest=lambda: self._account)
        self.router: Any = SimpleNamespace(batch=None, sources=("a", "b"), results=results)
        self.watermark = LastWatermark(folder / "watermark.json", self._commits, self.router)

    def batch(self, number: int, next_closes: dict[int, int], forgets: tuple[int, ...] = (), **watermarks: int) -> None:
        """`next_closes` by shard, those that only forget then, and the watermark of each source, in seconds."""
        self.router.batch = number
        gauges = {f"next_close#{shard}": at * SECOND for shard, at in next_closes.items()}
        gauges |= {f"next_forgets#{shard}": next_closes[shard] * SECOND for shard in forgets}
        sources = {name: {"watermark": at * SECOND} for name, at in watermarks.items()}
        self._account = Account(number, {}, {}, gauges=gauges, sources=sources)

    def commit(self, number: int, watermark: int | None) -> None:
        told = 0 if watermark is None else to_spark_ms(watermark * SECOND)
        (self._commits / str(number)).write_text(f'v1\n{{"nextBatchWatermarkMs":{told}}}')


def test_what_the_watermark_has_not_reached_needs_no_batch(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.batch(0, {0: 10, 1: 20}, a=9, b=9)
    assert not story.watermark.will_call_for_batch()
    story.commit(0, 9)
    assert not story.watermark.calls_for_batch()
    assert story.watermark.at == 9 * SECOND


def test_a_window_that_is_due_is_called_for_once_and_time_stands_still_until_it_has_closed(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.batch(0, {0: 10}, a=4, b=4)
    story.commit(0, 4)
    assert not story.watermark.calls_for_batch()
    story.batch(1, {0: 10}, a=10, b=12)
    story.commit(1, 10)
    assert not story.watermark.awaits_batch()
    assert story.watermark.calls_for_batch()
    assert not story.watermark.calls_for_batch()
    assert story.watermark.awaits_batch()
    assert story.watermark.at == 4 * SECOND
    story.batch(2, {0: 20}, a=10, b=12)
    assert story.watermark.awaits_batch(), "it has begun, and is not committed"
    story.commit(2, 10)
    assert not story.watermark.calls_for_batch()
    assert not story.watermark.awaits_batch()
    assert story.watermark.at == 10 * SECOND


def test_what_is_only_forgotten_waits_for_rows(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.batch(0, {0: 10, 1: 20}, (0,), a=12, b=12)
    assert not story.watermark.will_call_for_batch()
    story.commit(0, 12)
    assert not story.watermark.calls_for_batch()
    assert story.watermark.at == 12 * SECOND, "all that can be given has been"
    story.batch(1, {0: 30, 1: 20}, (0,), a=20, b=20)
    story.commit(1, 20)
    assert story.watermark.calls_for_batch(), "the other shard gives something"


def test_what_was_called_for_before_the_commit_is_not_called_for_again(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.batch(0, {0: 10}, a=10, b=12)
    assert story.watermark.will_call_for_batch()
    assert not story.watermark.will_call_for_batch()
    story.commit(0, 10)
    assert not story.watermark.calls_for_batch()
    assert story.watermark.at is None


def test_a_source_without_rows_holds_time_back(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.batch(0, {0: 10}, a=30)
    assert not story.watermark.will_call_for_batch()
    story.commit(0, None)
    assert not story.watermark.calls_for_batch()
    assert story.watermark.at is None


def test_where_less_was_reached_than_expected_the_batch_is_called_for_when_it_is(tmp_path: Path) -> None:
    """Of two inputs of one source that allow different watermarks, Spark takes the lesser."""
    story = Story(tmp_path)
    story.batch(0, {0: 10}, a=10, b=10)
    assert story.watermark.will_call_for_batch()
    story.commit(0, 8)
    story.batch(1, {0: 10}, a=10, b=10)
    assert not story.watermark.will_call_for_batch(), "a batch that changes nothing calls for no other"
    story.commit(1, 8)
    assert not story.watermark.calls_for_batch()
    assert story.watermark.at == 8 * SECOND
    story.batch(2, {0: 10}, a=10, b=10)
    story.commit(2, 10)
    assert story.watermark.calls_for_batch()


def test_a_shard_that_is_no_more_is_called_for_once(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.batch(0, {7: 5}, a=10, b=10)
    story.commit(0, 10)
    assert story.watermark.calls_for_batch()
    story.batch(1, {7: 5}, a=10, b=10)
    story.commit(1, 10)
    assert not story.watermark.calls_for_batch()
    assert story.watermark.at == 10 * SECOND


def test_a_batch_that_is_not_committed_yet_counts_for_nothing(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.batch(0, {0: 40}, a=4, b=4)
    story.commit(0, 4)
    story.batch(1, {0: 40}, a=10, b=10)
    assert not story.watermark.calls_for_batch()
    assert story.watermark.at == 4 * SECOND


def test_a_commit_that_says_nothing_is_damage(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.batch(0, {0: 40}, a=4, b=4)
    (tmp_path / "commits" / "0").write_text("v1\n")
    with pytest.raises(CheckpointError, match="commits"):
        story.watermark.note()


def test_the_watermark_is_known_before_the_first_batch_of_a_new_process(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.batch(0, {}, a=9, b=9)
    story.commit(0, 9)
    story.watermark.note()
    again = LastWatermark(tmp_path / "watermark.json", tmp_path / "commits", SimpleNamespace(batch=None))  # type: ignore[arg-type]
    assert again.note() is None
    assert again.at == 9 * SECOND


WINDOWS = """
    CREATE SOURCE s (k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '0' SECOND);
    CREATE STREAM o AS SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND);
"""


def committed(checkpoint: Path) -> int:
    """How many batches of o Spark has run."""
    return sum(path.name.isdigit() for path in (checkpoint / "streams" / "o" / "spark" / "commits").iterdir())


def put(db: Database, second: int) -> None:
    db.write("s", [{"k": "a", "ts": f"2025-01-01T00:00:{second:02d}Z"}])


def test_rows_that_move_the_watermark_and_close_nothing_take_one_batch_each(
    db_factory: DatabaseFactory, tmp_path: Path
) -> None:
    db = db_factory(checkpoint=tmp_path)
    db.execute(WINDOWS)
    for second in (1, 2, 3):
        put(db, second)
        db.tick()
    assert committed(tmp_path) == 3
    assert db.watermark("o") == 1_735_689_603_000
    put(db, 12)
    db.tick()
    assert committed(tmp_path) == 5
    assert [row["n"] for row in db.read("o")] == [3]


def test_a_running_stream_closes_its_windows_though_nobody_asks(db_factory: DatabaseFactory) -> None:
    db = db_factory()
    db.execute(WINDOWS)
    db.execute("CREATE STREAM above AS SELECT count(*) AS n FROM o GROUP BY TUMBLE(window_time, INTERVAL '10' SECOND)")
    db.start()
    for second in (1, 2, 12, 25):
        put(db, second)
    end = time.monotonic() + 120
    while len(db.read("above").fetchall()) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    assert sorted(row["n"] for row in db.read("o")) == [1, 2]
    assert [row["n"] for row in db.read("above")] == [1, 1]
