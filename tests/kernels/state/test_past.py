"""State of one text read under another: every aggregate that there is, every kernel, joins, ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eventide.errors import CheckpointError
from eventide.kernels.aggregates import AggregateSpec
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.logic.forward import ForwardSpec
from eventide.kernels.logic.windowed import WindowedAggregation
from eventide.kernels.state.past import Past
from eventide.plan.joins import Interval
from tests.kernels.harness import (
    BIGINT,
    KEYED,
    KEYED_SUMS,
    STRING,
    Driver,
    join_spec,
    paned_spec,
    session_spec,
    slide_spec,
)
from tests.state_snapshots.cases import CALLS, COUNTED_CALLS, aggregates_of, wide

EVERY = tuple(replace(spec, identity=str(n)) for n, spec in enumerate(aggregates_of([*CALLS, *COUNTED_CALLS])))
ONE, REST = EVERY[0], EVERY[1:]
WINDOWS = {
    "tumble": lambda **more: paned_spec(10, 10, **{**KEYED, **more}),
    "hop": lambda **more: paned_spec(10, 4, **{**KEYED, **more}),
    "early": lambda **more: paned_spec(10, 10, **{**KEYED, "emit": "on update", **more}),
    "session": lambda **more: session_spec(5, **{**KEYED, **more}),
    "slide": lambda **more: slide_spec(4, 6, **{**KEYED, **more}),
}


def go_on(driver: Driver, spec: Any, passed: int | None = None) -> None:
    """Let a driver continue under another spec."""
    before: Any = driver.spec
    wanted = spec if isinstance(spec, IntakeSpec) else IntakeSpec(spec)
    driver.spec = wanted.continuing(before.past.followed_by(before.layout, passed))


@pytest.mark.parametrize("kind", WINDOWS)
def test_every_aggregate_goes_on_whatever_comes_before_it_or_goes(kind: str) -> None:
    """Reordered, and without the first; as if nothing had happened."""
    steady = Driver(WINDOWS[kind](aggregates=tuple(reversed(REST))), pack=wide)
    changed = Driver(WINDOWS[kind](aggregates=EVERY), pack=wide)
    first, second = [(1, "A", 1), (2, "B", 5), (3, "A", None)], [(4, "A", 8), (2, "Ü", 2), (21, "B", 3)]
    steady.batch(first)
    changed.batch(first)
    go_on(changed, WINDOWS[kind](aggregates=tuple(reversed(REST))))
    assert changed.batch(second, 0) == steady.batch(second, 0)
    assert changed.advance(99) == steady.advance(99)


@pytest.mark.parametrize("kind", WINDOWS)
def test_every_new_aggregate_is_null_for_groups_that_had_rows_and_exact_for_others(kind: str) -> None:
    steady = Driver(WINDOWS[kind](aggregates=EVERY), pack=wide)
    changed = Driver(WINDOWS[kind](aggregates=(ONE,)), pack=wide)
    first, second = [(1, "A", 1), (2, "A", 5)], [(3, "A", 8), (2, "B", 2), (4, "B", 7), (31, "A", 3)]
    steady.batch(first)
    changed.batch(first)
    go_on(changed, WINDOWS[kind](aggregates=EVERY))
    wanted = [*steady.batch(second, 0), *steady.advance(99)]
    got = [*changed.batch(second, 0), *changed.advance(99)]
    assert [row[:6] for row in got] == [row[:6] for row in wanted]  # bounds, epoch, op, key, and what was there before
    for mine, whole in zip(got, wanted, strict=True):
        had_rows = mine[4] == "A" and mine[0] < 20
        assert mine[6:] == ((None,) * len(REST) if had_rows else whole[6:])


def test_an_aggregate_that_left_and_came_back_has_missed_what_was_in_between() -> None:
    both, count = {**KEYED_SUMS, "aggregates": named(KEYED_SUMS["aggregates"])}, None
    count = {**both, "aggregates": both["aggregates"][:1]}
    driver = Driver(paned_spec(10, 10, **both))
    driver.batch([(1, "A", 1), (1, "B", 1)])
    go_on(driver, paned_spec(10, 10, **count))
    driver.batch([(2, "A", 1), (2, "C", 1)])
    go_on(driver, paned_spec(10, 10, **both))
    driver.batch([(3, "A", 1), (3, "B", 5), (3, "C", 1), (3, "D", 4)])
    assert [row[4:] for row in driver.advance(10)] == [("A", 3, None), ("B", 2, 6), ("C", 2, None), ("D", 1, 4)]


def named(aggregates: tuple[AggregateSpec, ...]) -> tuple[AggregateSpec, ...]:
    return tuple(replace(spec, identity=spec.function) for spec in aggregates)


def test_more_lateness_opens_nothing_again_even_if_nothing_is_left_in_the_store() -> None:
    driver = Driver(paned_spec(10, 10, **KEYED_SUMS))
    driver.batch([(1, "A", 1)])
    assert len(driver.advance(10)) == 1
    assert driver.store.spaces() == []
    go_on(driver, paned_spec(10, 10, **KEYED_SUMS, lateness=50), passed=10)
    driver.batch([(2, "A", 1), (11, "A", 1)], 12)
    assert driver.counts["late"] == 1
    assert driver.advance(69) == []
    assert [row[:2] for row in driver.advance(70)] == [(10, 20)]


def test_less_lateness_closes_windows_that_have_waited_long_enough() -> None:
    for spec in (paned_spec, lambda *sizes, **more: session_spec(5, **more)):
        driver = Driver(spec(10, 10, **KEYED_SUMS, lateness=50))
        driver.batch([(1, "A", 1)])
        driver.advance(30)
        go_on(driver, spec(10, 10, **KEYED_SUMS), passed=-20)
        driver.wake_at = 0  # a stream that starts again wakes all shards
        assert len(driver.advance(30)) == 1


def test_an_early_kernel_stays_one_when_it_emits_at_the_close() -> None:
    driver = Driver(paned_spec(10, 10, **KEYED_SUMS, emit="on update"))
    assert len(driver.batch([(1, "A", 1)])) == 1
    go_on(driver, paned_spec(10, 10, **KEYED_SUMS))
    assert driver.batch([(2, "A", 1)]) == []
    assert [row[4:] for row in driver.advance(10)] == [("A", 2, 2)]


def test_ids_are_remembered_under_another_text() -> None:
    driver = Driver(IntakeSpec(paned_spec(10, 10, **KEYED_SUMS), dedup_within=(20,)))
    driver.batch([(1, "A", 1, "x")])
    go_on(driver, IntakeSpec(paned_spec(10, 10, **KEYED_SUMS, lateness=9), dedup_within=(20,)))
    driver.batch([(2, "A", 1, "x"), (3, "A", 1, "y")], 0)
    assert driver.counts["duplicate"] == 1


def test_joins_go_on_with_another_lateness() -> None:
    driver = Driver(join_spec(Interval(-3, 3)))
    driver.batch([(10, "A", 1)], 5)
    go_on(driver, join_spec(Interval(-3, 3), lateness=10), passed=5)
    assert len(driver.batch([], 5, right=[(9, "A", 2), (1, "A", 3)])) == 1
    assert driver.counts["late"] == 1


def test_rows_that_wait_have_null_in_a_new_column() -> None:
    old = ForwardSpec((("k", "__k0"), ("v", "__i0")), (STRING, BIGINT), ordered=True)
    new = ForwardSpec((("w", "__i0"), ("k", "__k0")), (BIGINT, STRING), ordered=True)
    driver = Driver(old)
    driver.batch([(5, "A", 1)])
    go_on(driver, new)
    driver.batch([(6, "B", 2)])
    assert driver.advance(9) == [(None, "A"), (2, "B")]
    other = ForwardSpec((("k", "__i0"),), (BIGINT,), ordered=True)
    with pytest.raises(CheckpointError, match="k as string, not int64"):
        go_on(driver, other)


def test_state_under_other_keys_is_refused() -> None:
    driver = Driver(paned_spec(10, 10, **KEYED_SUMS))
    other: WindowedAggregation = paned_spec(10, 10, **{**KEYED_SUMS, "key_types": (BIGINT,)})
    with pytest.raises(CheckpointError, match=r"keys=string, and .*keys=int64 is wanted"):
        go_on(driver, other)
    assert isinstance(driver.spec, IntakeSpec)
    assert driver.spec.past == Past()
