"""Each emit mode on tumbling windows of 10, drawn as batches under a watermark."""

import pytest

from eventide.errors import OptionError
from tests.kernels.harness import KEYED_SUMS, Driver, paned_spec


def tumble(emit: str, **more: object) -> Driver:
    return Driver(paned_spec(10, 10, **KEYED_SUMS, emit=emit, **more))  # type: ignore[arg-type]


def test_on_update_emits_each_change_and_nothing_at_close() -> None:
    driver = tumble("on update")
    assert driver.batch([(1, "A", 1), (2, "A", 2), (3, "B", 5)]) == [(0, 10, 0, 1, "A", 2, 3), (0, 10, 0, 1, "B", 1, 5)]
    assert driver.batch([(4, "A", 4)]) == [(0, 10, 1, 1, "A", 3, 7)]
    assert driver.advance(10) == []
    assert driver.store.spaces() == []


def test_on_watermark_emits_at_the_end_and_with_each_change_until_the_close() -> None:
    driver = tumble("on watermark", lateness=20)
    assert driver.batch([(1, "A", 1), (2, "B", 2)]) == []
    assert driver.wake_at == 10
    assert driver.advance(10) == [(0, 10, 0, 1, "A", 1, 1), (0, 10, 0, 1, "B", 1, 2)]
    assert driver.wake_at == 30
    assert driver.batch([(3, "B", 4)], watermark=12) == [(0, 10, 1, 1, "B", 2, 6)]
    assert driver.advance(30) == []
    assert driver.store.spaces() == []


def test_every_emits_what_changed_at_each_tick_and_everything_once_more_at_close() -> None:
    driver = tumble("every", every=60_000_000)
    assert driver.spec.tick_every == 60_000_000
    assert driver.batch([(1, "A", 1), (2, "B", 2)]) == []
    assert driver.tick(now=1) == [(0, 10, 0, 1, "A", 1, 1), (0, 10, 0, 1, "B", 1, 2)]
    assert driver.tick(now=2) == []
    driver.batch([(3, "B", 4)])
    assert driver.advance(10) == [(0, 10, 1, 1, "A", 1, 1), (0, 10, 1, 1, "B", 2, 6)]
    assert driver.store.spaces() == []


def test_every_emits_everything_once_more_when_it_is_flushed() -> None:
    driver = tumble("every", every=1)
    driver.batch([(1, "A", 1)])
    driver.tick(now=1)
    assert driver.flush() == [(0, 10, 1, 1, "A", 1, 1)]
    assert driver.flush() == []
    assert driver.advance(10) == []


def test_changes_take_back_before_they_insert_and_skip_what_is_unchanged() -> None:
    driver = tumble("changes")
    assert driver.batch([(1, "A", 100), (2, "G", 200)]) == [(0, 10, 0, 1, "A", 1, 100), (0, 10, 0, 1, "G", 1, 200)]
    assert driver.batch([(3, "A", 50), (3, "G", 1)]) == [
        (0, 10, 0, -1, "A", 1, 100),
        (0, 10, 0, -1, "G", 1, 200),
        (0, 10, 1, 1, "A", 2, 150),
        (0, 10, 1, 1, "G", 2, 201),
    ]
    assert driver.advance(10) == []


def test_changes_of_an_unchanged_result_emit_nothing() -> None:
    only_max = {**KEYED_SUMS, "aggregates": KEYED_SUMS["aggregates"][1:]}
    driver = Driver(paned_spec(10, 10, **only_max, emit="changes"))
    driver.batch([(1, "A", 5)])
    assert driver.batch([(2, "A", 1)]) == [(0, 10, 0, -1, "A", 5), (0, 10, 1, 1, "A", 6)]
    assert driver.batch([(2, "A", 0), (2, "A", None)]) == []
    assert driver.advance(10) == []


def test_max_groups_evicts_further_groups_of_a_window() -> None:
    driver = tumble("on window close", max_groups=2)
    driver.batch([(1, "A", 1), (2, "B", 1), (3, "C", 1), (4, "B", 1)])
    driver.batch([(5, "D", 1), (6, "A", 1), (15, "D", 1)])
    assert driver.counts == {"used": 5, "evicted": 2}
    assert {payload["group_key"] for payload in driver.side} == {'{"k": "C"}', '{"k": "D"}'}
    assert driver.advance(10) == [(0, 10, 0, 1, "A", 2, 2), (0, 10, 0, 1, "B", 2, 2)]


def test_a_hopping_row_is_evicted_when_no_window_has_room_for_it() -> None:
    #   [0, 10) holds A; [5, 15) holds A and then is asked by B
    driver = Driver(paned_spec(10, 5, **KEYED_SUMS, max_groups=1))
    driver.batch([(2, "A", 1)])
    driver.batch([(7, "B", 1), (3, "B", 1)])
    assert driver.counts == {"used": 2, "evicted": 1}
    assert driver.advance(99) == [(-5, 5, 0, 1, "A", 1, 1), (0, 10, 0, 1, "A", 1, 1), (5, 15, 0, 1, "B", 1, 1)]


def test_emit_modes_are_checked() -> None:
    with pytest.raises(OptionError, match="needs an interval"):
        tumble("every")
