from collections import Counter
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.kernels.harness import KEYED_SUMS, Driver, paned_spec
from tests.kernels.model import PaneModel
from tests.properties.agreement import FAR
from tests.properties.strategies import Batch, streams


@st.composite
def windows(draw: st.DrawFn) -> dict[str, int]:
    size = draw(st.integers(1, 20))
    return {
        "size": size,
        "slide": draw(st.one_of(st.just(size), st.integers(1, size))),
        "offset": draw(st.integers(-7, 7)),
        "lateness": draw(st.sampled_from([0, 0, 3, 15])),
    }


def rows_late(driver: Driver) -> int:
    return driver.counts["late"]


@settings(max_examples=80, deadline=None)
@given(windows(), streams())
def test_windows_emit_what_the_model_emits_batch_by_batch(window: dict[str, int], stream: list[Batch]) -> None:
    model, driver = PaneModel(**window), Driver(paned_spec(**window, **KEYED_SUMS))
    for rows, watermark in stream:
        assert Counter(driver.batch(rows, watermark)) == Counter(model.step(rows, watermark))
        assert rows_late(driver) == len(model.late)
        assert driver.gauges["open_windows"] == len({start for start, _ in model.open})
    assert Counter(driver.batch([], FAR)) == Counter(model.close(FAR))
    assert driver.counts["used"] + driver.counts["late"] == driver.rows_in
    assert driver.events["windows_opened"] == driver.events["windows_closed"]
    assert driver.store.spaces() == []


@settings(max_examples=40, deadline=None)
@given(windows(), streams(), st.data())
def test_a_flush_in_between_closes_everything_once(window: dict[str, int], stream: list[Batch], data: Any) -> None:
    model, driver = PaneModel(**window), Driver(paned_spec(**window, **KEYED_SUMS))
    stop_after = data.draw(st.integers(0, len(stream) - 1))
    for number, (rows, watermark) in enumerate(stream):
        assert Counter(driver.batch(rows, watermark)) == Counter(model.step(rows, watermark))
        if number == stop_after:
            assert Counter(driver.flush()) == Counter(model.flush())
            driver.restart()
    assert rows_late(driver) == len(model.late)
    assert Counter(driver.batch([], FAR)) == Counter(model.close(FAR))
    seen = [row[:2] + row[4:5] for row in driver.main]
    assert len(seen) == len(set(seen)), "a group of a window was emitted twice"
    assert driver.store.spaces() == []


@settings(max_examples=40, deadline=None)
@given(windows(), streams(), st.randoms(use_true_random=False))
def test_arrival_order_changes_neither_output_nor_compacted_bytes(
    window: dict[str, int], stream: list[Batch], random: Any
) -> None:
    rows = [row for batch, _ in stream for row in batch]
    shuffled = random.sample(rows, len(rows))
    one, other = (Driver(paned_spec(**window, **KEYED_SUMS)) for _ in range(2))
    for driver, arrivals in ((one, rows), (other, shuffled)):
        for at in range(0, 90, 5):  # ten appends and more: enough for a compaction
            driver.batch(arrivals[at : at + 5])
    assert Counter(one.batch([], FAR)) == Counter(other.batch([], FAR))


@settings(max_examples=40, deadline=None)
@given(st.integers(64, 150), st.integers(1, 20), st.sampled_from([0, 10]), streams())
def test_long_windows_of_many_slices_emit_what_the_model_emits(
    size: int, slide: int, lateness: int, stream: list[Batch]
) -> None:
    window = {"size": size, "slide": slide, "offset": 3, "lateness": lateness}
    model, driver = PaneModel(**window), Driver(paned_spec(**window, **KEYED_SUMS))
    for rows, watermark in stream:
        assert Counter(driver.batch(rows, watermark)) == Counter(model.step(rows, watermark))
    reached = driver.watermark or 0
    for watermark in (reached, reached + 30, reached + 100, FAR):
        old = [(reached - 5, "a", 1), (reached + 20, "b", 2)]
        assert Counter(driver.batch(old, watermark)) == Counter(model.step(old, watermark))
    assert driver.counts["late"] == len(model.late)
    assert driver.store.spaces() == []
