"""Tumbling and hopping windows that emit on close. Timelines are drawn in microseconds."""

import pyarrow as pa
import pytest

from eventide.errors import OptionError
from eventide.kernels.contract import Clock
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.state.memory_store import MemoryStore
from tests.kernels.harness import KEYED_SUMS, Driver, blobs, micros, paned_spec


def tumble(size: int = 10, **more: object) -> Driver:
    return Driver(paned_spec(size, size, **KEYED_SUMS, **more))  # type: ignore[arg-type]


def hop(size: int, slide: int, **more: object) -> Driver:
    return Driver(paned_spec(size, slide, **KEYED_SUMS, **more))  # type: ignore[arg-type]


def test_a_window_closes_exactly_at_its_end() -> None:
    #    0         10
    #    | A   A   |
    #      1   5   ^ watermark
    driver = tumble()
    assert driver.batch([(1, "A", 10), (5, "A", 20)]) == []
    assert driver.wake_at == 10
    assert driver.advance(9) == []
    assert driver.advance(10) == [(0, 10, 0, 1, "A", 2, 30)]
    assert driver.store.spaces() == []


def test_lateness_keeps_a_window_open_past_its_end() -> None:
    driver = tumble(lateness=5)
    driver.batch([(1, "A", 1)])
    assert driver.batch([(2, "A", 2)], watermark=14) == []
    assert driver.batch([], watermark=15) == [(0, 10, 0, 1, "A", 2, 3)]


def test_a_late_row_goes_aside_once_with_its_window() -> None:
    driver = tumble()
    driver.batch([(1, "A", 1)])
    driver.batch([(3, "A", 99), (11, "A", 5)], watermark=10)
    assert driver.main == [(0, 10, 0, 1, "A", 1, 1)]
    (late,) = driver.side
    assert (late["kind"], late["reason"]) == ("late", "allowed_lateness_exceeded")
    assert (micros(late["event_time"]), micros(late["window_start"]), micros(late["window_end"])) == (3, 0, 10)
    assert (late["group_key"], late["original_event"]) == ('{"k": "A"}', '{"k": "A", "v": 99}')
    assert driver.counts == {"used": 2, "late": 1}


def test_a_row_is_late_whether_or_not_the_closing_call_has_run() -> None:
    spec = paned_spec(10, 10, **KEYED_SUMS)
    kernel, store = IntakeSpec(spec).build(), MemoryStore()
    from tests.kernels.harness import table

    kernel.on_rows({0: table([(1, "A", 1)])}, Clock(None, 0), store)
    output = kernel.on_rows({0: table([(2, "A", 1)])}, Clock(10, 0), store)
    assert output.counts == {"late": 1}
    assert sum(found.num_rows for found in output.main) == 1
    assert list(kernel.on_time(Clock(10, 0), store).main) == []


def test_negative_times_fall_into_the_window_below() -> None:
    #  -10        0         10
    #    |      A |A        |
    driver = tumble()
    driver.batch([(-1, "A", 1), (0, "A", 2)])
    assert driver.advance(10) == [(-10, 0, 0, 1, "A", 1, 1), (0, 10, 0, 1, "A", 1, 2)]


def test_an_offset_moves_all_borders() -> None:
    driver = tumble(offset=3)
    driver.batch([(2, "A", 1), (3, "A", 2)])
    assert driver.advance(13) == [(-7, 3, 0, 1, "A", 1, 1), (3, 13, 0, 1, "A", 1, 2)]


def test_hopping_windows_share_their_slices() -> None:
    #  -2   0   2   4
    #   [-------)             10
    #       [-------)         10 + 20
    #           [-------)     20
    #         1   3
    driver = hop(4, 2)
    driver.batch([(1, "A", 10), (3, "A", 20)])
    assert driver.advance(2) == [(-2, 2, 0, 1, "A", 1, 10)]
    assert driver.advance(6) == [(0, 4, 0, 1, "A", 2, 30), (2, 6, 0, 1, "A", 1, 20)]
    assert driver.store.spaces() == []


def test_a_row_late_for_one_hopping_window_counts_only_in_the_open_one() -> None:
    driver = hop(10, 5)
    driver.batch([(6, "A", 30)])
    assert driver.batch([(9, "A", 30)], watermark=10) == [(0, 10, 0, 1, "A", 1, 30)]
    assert driver.counts == {"used": 2}
    assert driver.advance(15) == [(5, 15, 0, 1, "A", 2, 60)]


def test_a_flush_emits_what_is_open_and_its_windows_never_reopen() -> None:
    driver = tumble()
    driver.batch([(1, "A", 1), (12, "B", 2)])
    assert driver.flush() == [(0, 10, 0, 1, "A", 1, 1), (10, 20, 0, 1, "B", 1, 2)]
    driver.restart()
    driver.batch([(2, "A", 7), (21, "A", 3)])
    assert driver.counts == {"used": 3, "late": 1}
    assert driver.advance(30) == [(20, 30, 0, 1, "A", 1, 3)]
    assert driver.store.spaces() == []


@pytest.mark.parametrize("emit", ["on window close", "on update"])
def test_a_flush_closes_what_has_begun_anywhere_in_the_stream(emit: str) -> None:
    #    0         10        20        30
    #    | A       |         |    ^    |      newest in another shard: 25
    driver = tumble(emit=emit)
    driver.batch([(1, "A", 1)])
    driver.flush(until=25)
    driver.restart()
    driver.batch([(12, "A", 1), (29, "B", 1), (30, "B", 2)])
    assert driver.counts == {"used": 2, "late": 2}
    driver.advance(40)
    assert [row[:2] for row in driver.main] == [(0, 10), (30, 40)]
    assert driver.store.spaces() == []


@pytest.mark.parametrize("emit", ["on window close", "on update"])
def test_what_begins_after_the_time_of_a_flush_stays_open(emit: str) -> None:
    driver = hop(10, 5, emit=emit)
    driver.batch([(6, "A", 1), (21, "A", 2)])
    driver.flush(until=8)
    driver.batch([(12, "A", 4)])
    assert driver.counts == {"used": 3}
    driver.advance(99)
    totals = {(start, end): total for start, end, _, _, _, _, total in driver.main}
    assert totals == {(0, 10): 1, (5, 15): 1, (10, 20): 4, (15, 25): 2, (20, 30): 2}
    assert driver.gauges["open_windows"] == 0


def test_final_counts_late_rows_without_storing_them() -> None:
    driver = tumble(emit="final", lateness=50)
    driver.batch([(1, "A", 1)])
    assert driver.batch([(2, "A", 1)], watermark=10) == [(0, 10, 0, 1, "A", 1, 1)]
    assert driver.counts == {"used": 1, "late": 1}
    assert driver.side == []


def test_null_is_a_group_of_its_own() -> None:
    driver = tumble()
    driver.batch([(1, None, 1), (2, None, None), (3, "A", None)])
    assert driver.advance(10) == [(0, 10, 0, 1, None, 2, 1), (0, 10, 0, 1, "A", 1, None)]


def test_a_query_without_keys_has_one_row_per_window_that_had_rows() -> None:
    driver = Driver(paned_spec(10, 10, aggregates=KEYED_SUMS["aggregates"]))
    driver.batch([(1, "A", 1), (2, "B", 2), (35, "A", 3)])
    assert driver.advance(100) == [(0, 10, 0, 1, 2, 3), (30, 40, 0, 1, 1, 3)]


def test_ten_thousand_slices_in_one_batch_take_few_blobs() -> None:
    driver = tumble(size=1)
    driver.batch([(ts, "A", ts) for ts in range(10_000)])
    assert blobs(driver.store) < 40
    assert driver.advance(3) == [(ts, ts + 1, 0, 1, "A", 1, ts) for ts in range(3)]
    assert len(driver.advance(9_000)) == 8_997
    assert len(driver.advance(10_000)) == 1_000
    assert driver.store.spaces() == []


def test_many_small_batches_are_compacted_to_the_same_bytes_in_any_order() -> None:
    def stored(order: list[int]) -> MemoryStore:
        driver = tumble(size=100)
        for n in order:
            driver.batch([(n, f"user{n % 7}", n)])
        return driver.store

    assert stored(list(range(9))) == stored(list(reversed(range(9))))
    assert stored(list(range(9))).size("slices0", 0)[0] == 1


def test_groups_of_nested_keys_and_floats_compare_as_in_spark() -> None:
    kind = pa.struct([("a", pa.list_(pa.float64())), ("b", pa.string())])
    spec = paned_spec(10, 10, keys=(("k", "__k0"),), key_types=(kind,), aggregates=KEYED_SUMS["aggregates"][:1])
    from tests.kernels.harness import table

    keys = [
        {"a": [0.0, float("nan")], "b": "x"},
        {"a": [-0.0, float("nan")], "b": "x"},
        {"a": [], "b": "x"},
        {"a": None, "b": None},
        None,
    ]
    rows = table([(n, "", n) for n in range(5)]).set_column(4, "__k0", pa.array(keys, kind))
    kernel, store = spec.build(), MemoryStore()
    kernel.on_rows({0: rows}, Clock(None, 0), store)
    (found,) = kernel.on_time(Clock(10, 0), store).main
    assert found["__a0"].to_pylist() == [1, 1, 1, 2]
    assert found["__k0"].to_pylist()[:3] == [None, {"a": None, "b": None}, {"a": [], "b": "x"}]


def test_a_slide_larger_than_the_size_is_refused() -> None:
    with pytest.raises(OptionError, match="slide 20 is larger than size 10"):
        paned_spec(10, 20)
