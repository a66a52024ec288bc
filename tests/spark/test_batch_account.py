"""The account of a batch, from what shards tell; without Spark."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eventide.errors import EngineError
from eventide.spark.batch_account import BatchAccount
from eventide.storage.results import Account

NOTHING: dict[str, Any] = {
    name: {} for name in ("events", "watermarks", "judged", "tops", "flushes", "admission", "offered", "lanes", "rows")
}


def told(shard: int, count: int, **others: Any) -> str:
    own = {"shard": shard, "rows_in": count, "counts": {"used": count}, "gauges": {"open_windows": count}}
    return json.dumps({**NOTHING, **own, "now": 9, "watermark": 5, "taken": 0, "spent": 10, **others})


def gathered(*texts: str, before: Account | None = None) -> Account:
    account = BatchAccount("s", 1, ("a", "b"), before)
    for text in texts:
        account.add(text)
    return account.account()


def test_shards_add_up_and_a_silent_one_keeps_its_gauges() -> None:
    first = gathered(told(0, 3, tops={"0": 7}, rows={"0": 3}), told(1, 2, tops={"0": 8, "1": 4}, rows={"0": 2}))
    assert first.counts == {"rows_in": 5, "used": 5} and first.totals["rows_in"] == 5
    assert first.sources == {"a": {"max_timestamp_seen": 8, "rows": 5}, "b": {"max_timestamp_seen": 4}}
    second = gathered(told(1, 4, tops={"0": 6}, rows={"0": 4}), before=first)
    assert second.gauges == {"open_windows#0": 3, "open_windows#1": 4}
    assert second.totals["rows_in"] == 9 and second.sources["a"] == {"max_timestamp_seen": 8, "rows": 9}
    assert first.sources["a"]["rows"] == 5  # what was written stays as it is


def test_rows_that_are_not_accounted_for_refuse_the_batch() -> None:
    with pytest.raises(EngineError, match="4 rows came in and 3 are accounted for"):
        gathered(told(0, 4, counts={"used": 2, "late": 1}))


def test_who_was_heard_is_known() -> None:
    account = BatchAccount("s", 1, ("a", "b"), None)
    account.add(told(0, 1, tops={"1": 7}, lanes={"1": {"p0": {"watermark": 3}, "p1": {"lag": 2}}}))
    assert account.heard == {"b"} and account.heard_lanes == {("b", "p0")}


def test_the_busiest_key_of_a_shard_is_kept_until_many_rows_say_otherwise() -> None:
    hot = {"key": ["x"], "share": 0.8}
    first = gathered(told(0, 3, busiest=hot), told(1, 2))
    assert first.busiest == {"0": hot}
    second = gathered(told(0, 1), before=first)
    assert second.busiest == {"0": hot}
    assert gathered(told(0, 3, busiest=None), before=second).busiest == {}


def test_a_shard_that_takes_far_longer_than_the_others_is_told() -> None:
    assert gathered(told(0, 1, spent=9_000_000), told(1, 1, spent=500_000), told(2, 1, spent=700_000)).straggler == {
        "shard": 0,
        "spent": 9_000_000,
        "usual": 700_000,
    }
    assert gathered(told(0, 1, spent=900_000), told(1, 1)).straggler == {}  # too short to matter
    assert gathered(told(0, 1, spent=9_000_000)).straggler == {}  # there is no other
    assert gathered(told(0, 1, spent=9_000_000), told(1, 1, spent=5_000_000)).straggler == {}
