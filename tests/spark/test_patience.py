"""A machine that is busy: which failures are tried again, and how often."""

from __future__ import annotations

import pytest

from eventide.database import Database
from eventide.spark.patience import Patience
from eventide.spark.router import StoringRouter

BUSY = "org.apache.spark.SparkException: Python worker failed to connect back.\n at ..."


def test_a_batch_is_tried_again_so_often_and_another_one_begins_anew() -> None:
    patience = Patience(tries=2)
    for _ in range(2):
        assert patience.covers(BUSY, 7)
        patience.use(7)
    assert not patience.covers(BUSY, 7)
    assert patience.covers(BUSY, 8)


def test_other_failures_are_told_at_once() -> None:
    assert not Patience().covers("org.apache.spark.SparkException: division by zero", 0)


def test_a_stream_goes_on_when_a_process_did_not_answer(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, tried = StoringRouter._take, []

    def busy(self: StoringRouter, frame: object, batch: int) -> None:
        tried.append(batch)
        if len(tried) <= 2:
            raise RuntimeError(BUSY)
        taken(self, frame, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(StoringRouter, "_take", busy)
    db.execute("CREATE SOURCE s (v INT); CREATE STREAM o AS SELECT v FROM s")
    db.write("s", [(1,), (2,)])
    db.tick()
    assert sorted(row["v"] for row in db.read("o")) == [1, 2]
    assert db.accounting("o")["used"] == 2
    assert tried[:3] == [0, 0, 0]
