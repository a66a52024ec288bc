"""Which rows go: lower priorities first, the same ones every time, critical ones never."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from eventide.admission.shedder import LoadShedder, ShedOrder, ShedRatios, priority_codes, row_hashes
from eventide.admission.sla import Priority
from eventide.kernels.vector.hashing import hash_rows

shares = st.floats(0, 1)
mixes = st.fixed_dictionaries({priority: st.integers(0, 1000) for priority in Priority})
ROWS = 20_000
HASHES = row_hashes([pa.array(range(ROWS))], ROWS)


def codes(priority: Priority, rows: int = ROWS) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    return np.full(rows, priority, np.int8)


@given(shares, mixes)
def test_a_priority_is_touched_only_when_all_below_it_is_gone(share: float, mix: dict[Priority, int]) -> None:
    ratios = ShedRatios.of_share(share, mix)
    assert ratios.medium == 0 or ratios.low == 1
    assert ratios.high == 0 or ratios.medium == 1
    assert ratios.of(Priority.CRITICAL) == 0


@given(shares, mixes)
def test_the_share_is_met_as_far_as_there_is_anything_to_shed(share: float, mix: dict[Priority, int]) -> None:
    ratios = ShedRatios.of_share(share, mix)
    shed = sum(ratios.of(priority) * rows for priority, rows in mix.items())
    may_go = sum(mix.values()) - mix[Priority.CRITICAL]
    assert shed == pytest.approx(min(share * sum(mix.values()), may_go))


def test_below_capacity_no_priority_is_shed_not_even_one_that_never_came() -> None:
    assert ShedRatios.of_share(0.0, {}) == ShedRatios()


@given(st.floats(0, 1), st.floats(0, 1))
def test_what_goes_at_a_ratio_goes_at_every_higher_one(one: float, other: float) -> None:
    less, more = sorted((one, other))
    few = LoadShedder(ShedOrder(ShedRatios(less))).rows(codes(Priority.LOW), HASHES)
    many = LoadShedder(ShedOrder(ShedRatios(more))).rows(codes(Priority.LOW), HASHES)
    assert not (few & ~many).any()
    assert few.mean() == pytest.approx(less, abs=0.02)


def test_all_or_nothing_are_exact() -> None:
    extremes = np.array([0, (1 << 64) - 1], np.uint64)
    everything = LoadShedder(ShedOrder(ShedRatios(1.0, 1.0, 1.0)))
    for priority in (Priority.LOW, Priority.MEDIUM, Priority.HIGH):
        assert everything.rows(codes(priority, 2), extremes).all()
        assert not LoadShedder(ShedOrder()).rows(codes(priority, 2), extremes).any()
    assert not everything.rows(codes(Priority.CRITICAL, 2), extremes).any()


def test_the_choice_is_the_same_in_every_version() -> None:
    shedder = LoadShedder(ShedOrder(ShedRatios(0.5)))
    words = pa.array([f"row {number}" for number in range(10)])
    gone = shedder.rows(codes(Priority.LOW, 10), row_hashes([words], 10))
    assert np.flatnonzero(gone).tolist() == [3, 4, 8]


def test_the_choice_does_not_follow_the_choice_of_shards() -> None:
    """Keys of one shard of two: as many of them go as of all."""
    keys = pa.array(range(ROWS))
    one_shard = hash_rows([keys], ROWS) % np.uint64(2) == 0
    gone = LoadShedder(ShedOrder(ShedRatios(0.3))).rows(codes(Priority.LOW), row_hashes([keys], ROWS))
    assert gone[one_shard].mean() == pytest.approx(0.3, abs=0.02)


def test_a_window_keeps_the_ratio_under_which_it_began() -> None:
    """
    windows   [0    [10   [20   [30
    seen          14         27
    ratio     none  none  all   none
    """
    first = ShedOrder()
    second = ShedOrder(since=first.changed(ShedRatios(1.0), 14, None))
    third = ShedOrder(since=second.changed(ShedRatios(), 27, None))
    starts = np.array([0, 10, 20, 30])
    for order, gone in ((first, [0, 0, 0, 0]), (second, [0, 0, 1, 1]), (third, [0, 0, 1, 0])):
        found = LoadShedder(order).windows(codes(Priority.LOW, 4), HASHES[:4], starts)
        assert found.tolist() == [bool(each) for each in gone]


def test_an_order_that_no_window_has_met_is_replaced_by_the_next() -> None:
    one = ShedOrder(since=ShedOrder().changed(ShedRatios(1.0), 14, None))
    assert one.changed(ShedRatios(0.5), 14, None) == ((15, ShedRatios(0.5)),)
    assert one.changed(ShedRatios(1.0), 20, None) == one.since


def test_what_held_for_closed_windows_only_is_forgotten() -> None:
    since = ((0, ShedRatios(0.1)), (10, ShedRatios(0.2)), (20, ShedRatios(0.3)))
    order = ShedOrder(since=since)
    assert order.changed(ShedRatios(0.3), 30, 9) == since
    assert order.changed(ShedRatios(0.3), 30, 10) == since[1:]
    assert order.changed(ShedRatios(0.3), 30, 500) == since[2:]


def test_a_key_is_not_unlucky_in_every_window() -> None:
    order = ShedOrder(since=((0, ShedRatios(0.5)),))
    starts = np.arange(1000) * 10
    gone = LoadShedder(order).windows(codes(Priority.LOW, 1000), np.full(1000, HASHES[0]), starts)
    assert gone.mean() == pytest.approx(0.5, abs=0.06)


@given(mixes, shares)
def test_an_order_is_the_same_after_it_was_logged(mix: dict[Priority, int], share: float) -> None:
    ratios = ShedRatios.of_share(share, mix)
    order = ShedOrder(ratios, share, 1.5, "backlog", ((5, ratios), (9, ShedRatios())))
    assert ShedOrder.from_bytes(order.to_bytes()) == order


def test_priorities_are_words_and_others_are_counted() -> None:
    words = pa.array(["low", "CRITICAL", None, "urgent", "High"])
    found, unknown = priority_codes(words, Priority.MEDIUM)
    assert found.tolist() == [Priority.LOW, Priority.CRITICAL, Priority.MEDIUM, Priority.MEDIUM, Priority.HIGH]
    assert unknown == 1
