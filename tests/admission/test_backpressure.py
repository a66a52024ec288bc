"""Limits and load together: the precedence of the decision table, and what the driver decides from batch to batch."""

from __future__ import annotations

from fractions import Fraction

import pytest

from eventide.admission.backpressure import (
    LoadSheddingManager,
    Shed,
    SlaBackpressureCoordinator,
    Throttle,
    throttle_wait,
)
from eventide.admission.controller import Admit, Reject, StreamAdmissionController
from eventide.admission.load import BatchLoad
from eventide.admission.options import ShedSpec, SlaBackpressurePolicy
from eventide.admission.shedder import ShedOrder, ShedRatios
from eventide.admission.sla import BucketSpec, Priority, StreamSlaConfig
from eventide.eventtime.durations import SECOND

ALL_GO = ShedOrder(ShedRatios(1.0, 1.0, 1.0), 1.0)
HALF = ShedOrder(ShedRatios(0.5), 0.5)
SMALL, LARGE = 1 << 40, (1 << 64) - 1  # hashes


def coordinator(policy: SlaBackpressurePolicy, order: ShedOrder | None, burst: int = 2) -> SlaBackpressureCoordinator:
    config = StreamSlaConfig(None, BucketSpec(Fraction("0.001"), Fraction(burst)), 1000)
    return SlaBackpressureCoordinator(StreamAdmissionController(config), ShedSpec(policy, target_latency=SECOND), order)


@pytest.mark.parametrize("policy", list(SlaBackpressurePolicy))
def test_a_row_that_breaks_a_limit_is_rejected_whatever_the_shedder_would_do(policy: SlaBackpressurePolicy) -> None:
    decision = coordinator(policy, ALL_GO).decide(0, 2000)
    assert isinstance(decision, Reject)
    assert decision.reason == "lag"


def test_strict_sheds() -> None:
    assert coordinator(SlaBackpressurePolicy.STRICT, HALF).decide(0, 0, Priority.LOW, SMALL) == Shed(0.5)
    assert isinstance(coordinator(SlaBackpressurePolicy.STRICT, HALF).decide(0, 0, Priority.LOW, LARGE), Admit)


def test_prefer_throttle_slows_the_caller_down_instead() -> None:
    policy = SlaBackpressurePolicy.PREFER_THROTTLE
    assert coordinator(policy, HALF).decide(0, 0, Priority.LOW, SMALL) == Throttle(0.5, SECOND)
    assert isinstance(coordinator(policy, HALF).decide(0, 0, Priority.LOW, LARGE), Admit)


def test_bypass_does_not_ask_the_shedder() -> None:
    found = coordinator(SlaBackpressurePolicy.BYPASS_SHEDDER, ALL_GO).decide(0, 0, Priority.LOW)
    assert found == Admit(Fraction(1), 0)


@pytest.mark.parametrize("policy", [SlaBackpressurePolicy.STRICT, SlaBackpressurePolicy.PREFER_THROTTLE])
def test_rows_that_do_not_pass_the_shedder_take_no_token(policy: SlaBackpressurePolicy) -> None:
    source = coordinator(policy, ALL_GO, burst=1)
    for _ in range(5):
        assert not isinstance(source.decide(0, 0), Admit | Reject)
    assert source.decide(0, 0, Priority.CRITICAL) == Admit(Fraction(0), 0)
    assert isinstance(source.decide(0, 0), Reject)


def test_critical_rows_and_calm_times_pass() -> None:
    source = coordinator(SlaBackpressurePolicy.STRICT, ALL_GO)
    assert isinstance(source.decide(0, 0, Priority.CRITICAL, SMALL), Admit)
    source.follow(None)
    assert isinstance(source.decide(0, 0, Priority.LOW, SMALL), Admit)


@pytest.mark.parametrize(
    ("share", "wait"), [(0.0, 0), (0.5, SECOND), (0.75, 3 * SECOND), (0.99, 10 * SECOND), (1.0, 10 * SECOND)]
)
def test_a_producer_waits_as_long_as_the_excess_takes(share: float, wait: int) -> None:
    assert throttle_wait(share, SECOND) == wait


def overload(manager: LoadSheddingManager, mix: dict[Priority, int], batches: int = 30) -> list[ShedOrder]:
    """20,000 rows a second come, and 10,000 can be worked off."""
    offered, now, orders = 1_000, 0.0, []
    for _ in range(batches):
        rows = {priority: offered * share // 100 for priority, share in mix.items()}
        kept = round(sum((1 - manager.order.ratios.of(priority)) * count for priority, count in rows.items()))
        seconds = 0.05 + kept / 10_000
        waiting = round(20_000 * seconds)
        batch = BatchLoad(offered, kept, now, now + seconds, waiting)
        orders.append(manager.observe(batch, rows, seen=round(now), oldest=round(now) - 5))
        offered, now = waiting, now + seconds
    return orders


def test_half_of_the_rows_go_the_least_important_first() -> None:
    mix = {Priority.LOW: 30, Priority.MEDIUM: 30, Priority.HIGH: 30, Priority.CRITICAL: 10}
    manager = LoadSheddingManager(SECOND)
    orders = overload(manager, mix)
    assert all(order.ratios.low == 1 or order.ratios.medium == 0 for order in orders)
    assert all(order.ratios.medium == 1 or order.ratios.high == 0 for order in orders)
    last = orders[-1]
    assert 0.5 <= last.share <= 0.56
    assert last.ratios.low == 1
    assert 0.6 <= last.ratios.medium <= 0.95
    assert manager.keep == pytest.approx(1 - last.share, abs=0.01)
    assert manager.wait == throttle_wait(last.share, SECOND)


def test_where_nothing_may_be_shed_nothing_is() -> None:
    orders = overload(LoadSheddingManager(SECOND), {Priority.CRITICAL: 100}, 8)
    assert max(order.share for order in orders) > 0.4
    assert all(order.ratios.of(Priority.CRITICAL) == 0 for order in orders)
    assert orders[-1].cause in ("latency", "backlog", "demand")


def test_a_restart_goes_on_with_the_order_that_was_logged() -> None:
    before = overload(LoadSheddingManager(SECOND), {Priority.LOW: 100})[-1]
    manager = LoadSheddingManager(SECOND, ShedOrder.from_bytes(before.to_bytes()))
    after = manager.observe(BatchLoad(20_000, 10_000, 0.0, 8.0, 20_000), {Priority.LOW: 20_000})
    assert after.share == before.share
    assert after.since == before.since


def test_what_is_kept_for_windows_stays_small() -> None:
    orders = overload(LoadSheddingManager(SECOND), {Priority.LOW: 100}, 200)
    assert max(len(order.since) for order in orders) < 12
    assert max(len(order.to_bytes()) for order in orders) < 1000
