"""db.write against streams that cannot keep up, without Spark."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from eventide.admission.options import parse_admission
from eventide.admission.throttle import Queue
from eventide.errors import OptionError, SourceError
from eventide.plan.logical import Column, Source
from eventide.storage.spool import Spools, read_rows
from eventide.writing import Writer

COLUMNS = (Column("id", "bigint"),)
THROTTLED = Source("s", COLUMNS, admission=parse_admission({"shed.policy": "prefer_throttle"}))
ROWS = [(id,) for id in range(6)]
ROW = len('{"id": 0}')


class Engine:
    """A stream that takes some bytes whenever somebody looks how much waits."""

    def __init__(self, folder: Path, batch: int, works_off: int = 0) -> None:
        self.spools = Spools(lambda name: folder / name)
        (folder / "s").mkdir()
        self.batch, self.works_off, self.taken, self.published = batch, works_off, 0, 0
        self.writer = Writer(self.spools, threading.RLock(), self.queues, self.publish)

    def queues(self, source: str) -> list[Queue]:
        self.taken = min(self.taken + self.works_off, ROW * len(self.written))
        return [Queue(ROW * len(self.written) - self.taken, self.batch, 2.0)]

    def publish(self) -> None:
        self.published += 1

    @property
    def written(self) -> list[str]:
        spool = self.spools.spool("s")
        return [
            row
            for number in range(1, spool.last() + 1)
            for row in read_rows(spool.rows_path(number))["row"].to_pylist()
        ]


def test_what_there_is_no_room_for_is_not_taken_and_the_caller_is_told_when_to_come_again(tmp_path: Path) -> None:
    engine = Engine(tmp_path, batch=2 * ROW)
    first = engine.writer.write(THROTTLED, ROWS, None)
    assert (first, len(engine.written), engine.published) == (4, 4, 1)
    again = engine.writer.write(THROTTLED, ROWS[first:], None)
    assert (again, again.wait) == (0, 2.0)
    engine.works_off = 2 * ROW
    assert engine.writer.write(THROTTLED, ROWS[first:], None) == 2
    assert len(engine.written) == len(set(engine.written)) == 6


def test_with_a_timeout_the_call_waits_for_room(tmp_path: Path) -> None:
    engine = Engine(tmp_path, batch=ROW, works_off=ROW)
    assert engine.writer.write(THROTTLED, ROWS, timeout=600.0) == 6
    assert len(engine.written) == 6


def test_a_timeout_that_is_over_gives_what_was_taken(tmp_path: Path) -> None:
    engine = Engine(tmp_path, batch=ROW)
    written = engine.writer.write(THROTTLED, ROWS, timeout=0.01)
    assert written == 2 and written.wait > 0


def test_a_source_that_is_not_throttled_takes_everything(tmp_path: Path) -> None:
    engine = Engine(tmp_path, batch=ROW)
    written = engine.writer.write(Source("s", COLUMNS), ROWS, None)
    assert (written, written.wait, len(engine.written)) == (6, 0.0, 6)


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    writer = Engine(tmp_path, batch=ROW).writer
    with pytest.raises(SourceError, match="source s reads files"):
        writer.write(Source("s", COLUMNS, "files"), ROWS, None)
    with pytest.raises(OptionError, match="timeout is -1"):
        writer.write(THROTTLED, ROWS, -1)
