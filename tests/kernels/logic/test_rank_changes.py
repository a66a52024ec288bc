"""The best rows of each partition as a change log: what a batch changes, told against a sort of all rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from eventide.kernels.logic.rank import SortKey
from eventide.kernels.logic.rank_changes import RankChangesSpec
from eventide.plan.modes import RankFunction
from tests.kernels.harness import BIGINT, KEYED, STRING, Driver

ROWS = st.tuples(st.integers(0, 9), st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, 3, None]))
BATCHES = st.lists(st.lists(ROWS, max_size=8), min_size=1, max_size=4)


def driver(function: RankFunction = RankFunction.ROW_NUMBER, last: int = 2, **more: Any) -> Driver:
    spec: dict[str, Any] = {
        "partition": ("__k0",),
        "order": (SortKey("__i0", descending=True, nulls_first=False),),
        "originals": KEYED["originals"],
        "types": (("__k0", STRING), ("__i0", BIGINT)),
        "first": 1,
        "shows_place": False,
        "shown": ("__k0", "__i0"),
    }
    return Driver(RankChangesSpec(function, last=last, **{**spec, **more}))


def best(rows: list[Any], function: RankFunction, last: int) -> Counter[Any]:
    """The rows of the first places, by sorting everything."""
    told: Counter[Any] = Counter()
    for key in {row[1] for row in rows}:
        values = sorted((row[2] or 0 for row in rows if row[1] == key), reverse=True)
        for number, value in enumerate(values, 1):
            places = {
                RankFunction.ROW_NUMBER: number,
                RankFunction.RANK: 1 + sum(other > value for other in values),
                RankFunction.DENSE_RANK: 1 + len({other for other in values if other > value}),
            }
            if places[function] <= last:
                told[key, value or None] += 1
    return told


@pytest.mark.parametrize("latest_first", [False, True])
@pytest.mark.parametrize("function", list(RankFunction))
@given(batches=BATCHES, last=st.integers(1, 3))
def test_what_was_told_adds_up_to_the_best_rows(
    batches: list[list[Any]], last: int, function: RankFunction, latest_first: bool
) -> None:
    ranked = driver(function, last, latest_first=latest_first)
    rows: list[Any] = []
    told: Counter[Any] = Counter()
    for batch in batches:
        rows += batch
        for key, value, _, op in ranked.batch(batch):
            told[key, value] += op
        assert +told == best(rows, function, last)
        assert min(told.values(), default=0) >= 0


def test_a_row_that_is_replaced_by_an_equal_one_is_not_told_again() -> None:
    ranked = driver(last=1, latest_first=True)
    assert ranked.batch([(1, "a", 5)]) == [("a", 5, 1, 1)]
    assert ranked.batch([(2, "a", 5), (3, "a", 5)]) == []
    assert ranked.batch([(4, "a", 6)]) == [("a", 5, 1, -1), ("a", 6, 1, 1)]


def test_only_what_is_shown_makes_a_difference() -> None:
    ranked = driver(last=1, shown=("__k0",))
    ranked.batch([(1, "a", 5)])
    assert ranked.batch([(2, "a", 6)]) == []
    assert ranked.gauges["buffer_size"] == 1


def test_a_row_that_moves_to_another_place_is_told_again_if_places_are_shown() -> None:
    ranked = driver(shows_place=True)
    assert ranked.batch([(1, "a", 5), (1, "b", 5)]) == [("a", 5, 1, 1), ("b", 5, 1, 1)]
    assert ranked.batch([(2, "a", 6)]) == [("a", 5, 1, -1), ("a", 6, 1, 1), ("a", 5, 2, 1)]


def test_rows_that_cannot_be_among_the_best_count_for_the_time_to_live_of_their_partition() -> None:
    ranked = driver(last=1, ttl=10)
    ranked.batch([(1, "a", 5), (8, "a", 4), (1, "b", 5)])
    ranked.batch([], watermark=12)
    assert ranked.gauges["buffer_size"] == 1
    ranked.batch([], watermark=18)
    assert ranked.gauges["buffer_size"] == 0
