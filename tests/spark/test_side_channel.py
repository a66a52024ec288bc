"""Side sinks on their own threads: bounded, counted, resumed, and never in the way of the stream."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from eventide.plan.side_output import RateLimit, Route
from eventide.spark import side_channel as channels
from eventide.spark.side_channel import Channel, Limiter
from eventide.storage.compaction import TOGETHER, Keep, compact
from eventide.storage.payloads import PAYLOAD_SCHEMA
from eventide.storage.results import Account, Results

NOTHING = pa.table({})
LONGEST_SECONDS = 500.0  # after which a test that hangs ends; nothing is measured by it


class Memory:
    """A sink that remembers, and can be told to fail or to hang."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}
        self.fails = 0
        self.free = threading.Event()
        self.free.set()

    def write(self, batch: int, rows: pa.Table) -> None:
        self.free.wait(LONGEST_SECONDS)
        if self.fails:
            self.fails -= 1
            raise OSError("the disk is on fire")
        self.batches[batch] = rows

    def close(self) -> None:
        self.free.set()


def payloads(*kinds: str) -> pa.Table:
    return pa.Table.from_pylist(
        [{"kind": kind, "original_event": f'{{"n": {n}}}'} for n, kind in enumerate(kinds)], schema=PAYLOAD_SCHEMA
    )


def store(results: Results, batch: int, side: pa.Table) -> int:
    results.write(NOTHING, side, Account(batch, {}, {}))
    return batch


def make(
    tmp_path: Path, sink: Memory, route: Route | None = None, kinds: tuple[str, ...] = ("late",)
) -> tuple[Results, Channel]:
    results = Results(tmp_path / "results")
    routes = {kind: route or Route("dlq") for kind in kinds}
    return results, Channel("dlq", routes, lambda: sink, results, tmp_path / "side" / "dlq.json")


def test_payloads_of_the_routed_kinds_arrive_and_are_counted(tmp_path: Path) -> None:
    sink = Memory()
    results, channel = make(tmp_path, sink, kinds=("late", "error"))
    channel.notify(store(results, 0, payloads("late", "late", "error", "evicted")))
    assert channel.wait(LONGEST_SECONDS)
    assert sorted(sink.batches[0]["kind"].to_pylist()) == ["error", "late", "late"]
    assert channel.counts() == {"side_sent_late": 2, "side_sent_error": 1}


def test_a_side_sink_gets_nothing_twice_when_batches_were_put_together_before_a_restart(tmp_path: Path) -> None:
    sink = Memory()
    results, channel = make(tmp_path, sink)
    for batch in range(5 * TOGETHER):
        channel.notify(store(results, batch, payloads("late") if batch <= 10 else payloads("error")))
    assert channel.wait(LONGEST_SECONDS) and channel.position == 10
    keep = {"main": Keep(), "side": Keep()}
    assert compact(results, keep, channel.delivered, 0, [channel.position]) >= TOGETHER
    channel.close(LONGEST_SECONDS)
    again = Memory()
    _, after = make(tmp_path, again)
    assert after.wait(LONGEST_SECONDS) and sorted(sink.batches) == list(range(11)) and again.batches == {}
    after.close(LONGEST_SECONDS)


def test_payloads_beyond_the_rate_are_dropped_and_counted(tmp_path: Path) -> None:
    sink = Memory()
    results, channel = make(tmp_path, sink, Route("dlq", rate_limit=RateLimit(3, 3_600_000_000)))
    channel.notify(store(results, 0, payloads(*["late"] * 2)))
    channel.notify(store(results, 1, payloads(*["late"] * 5)))
    assert channel.wait(LONGEST_SECONDS)
    assert {batch: rows.num_rows for batch, rows in sink.batches.items()} == {0: 2, 1: 1}
    assert channel.counts() == {"side_sent_late": 3, "side_dropped_late": 4}


def test_a_rate_holds_over_any_stretch_of_its_length() -> None:
    now = [0.0]
    limiter = Limiter(RateLimit(10, 1_000_000), lambda: now[0])
    assert [limiter.take(7), limiter.take(7)] == [7, 3]
    now[0] = 0.99
    assert limiter.take(1) == 0
    now[0] = 1.0
    assert limiter.take(100) == 10


def test_a_sink_that_fails_now_and_then_gets_the_batch_again(tmp_path: Path) -> None:
    sink = Memory()
    sink.fails = 2
    results, channel = make(tmp_path, sink)
    channel.notify(store(results, 0, payloads("late")))
    assert channel.wait(LONGEST_SECONDS)
    assert channel.counts() == {"side_sent_late": 1} and channel.failing is None


def test_a_sink_that_keeps_failing_loses_payloads_that_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Memory()
    sink.fails = 4  # three attempts of the first batch, one of the second
    results, channel = make(tmp_path, sink)
    for batch in range(3):
        channel.notify(store(results, batch, payloads("late")))
    while channel.counts().get("side_sent_late", 0) == 0:
        time.sleep(0.01)
    assert channel.counts() == {"side_failed_late": 2, "side_sent_late": 1} and list(sink.batches) == [2]
    assert [record.message for record in caplog.records] == ["side sink dlq: the disk is on fire"]


def test_a_sink_that_hangs_holds_nobody_up_and_payloads_beyond_its_bound_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "MOST_BATCHES", 2)
    sink = Memory()
    sink.free.clear()
    results, channel = make(tmp_path, sink)
    channel.notify(store(results, 0, payloads("late")))
    while channel.waiting():
        time.sleep(0.01)  # until the thread has taken it up
    for batch in range(1, 6):
        channel.notify(store(results, batch, payloads("late")))
    assert not channel.wait(0.2)
    assert channel.counts() == {"side_dropped_late": 3}
    sink.free.set()
    assert channel.wait(LONGEST_SECONDS) and list(sink.batches) == [0, 1, 2]


def test_what_was_not_delivered_is_delivered_after_a_restart_and_what_was_dropped_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "MOST_BATCHES", 1)
    hanging = Memory()
    hanging.free.clear()
    results, channel = make(tmp_path, hanging)
    channel.notify(store(results, 0, payloads("late")))
    while channel.waiting():
        time.sleep(0.01)
    for batch in (1, 2):
        channel.notify(store(results, batch, payloads("late")))
    sink = Memory()
    monkeypatch.setattr(channels, "MOST_BATCHES", 10)
    _, again = make(tmp_path, sink)
    assert again.wait(LONGEST_SECONDS) and list(sink.batches) == [0, 1]
    assert again.counts() == {"side_sent_late": 2, "side_dropped_late": 1}
    hanging.free.set()


def test_a_new_side_sink_gets_what_comes_from_then_on(tmp_path: Path) -> None:
    results = Results(tmp_path / "results")
    store(results, 0, payloads("late"))
    sink = Memory()
    results, channel = make(tmp_path, sink)
    channel.notify(store(results, 1, payloads("late")))
    assert channel.wait(LONGEST_SECONDS) and list(sink.batches) == [1]
