from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.kernels.harness import KEYED_SUMS, Driver, paned_spec
from tests.kernels.model import LivePaneModel, PaneModel
from tests.properties.agreement import FAR, ONLY_SUMS, assert_change_log_sums_up, assert_same_step
from tests.properties.strategies import Batch, streams
from tests.properties.test_panes_against_the_model import windows

MODES = ["on watermark", "on update", "every", "changes"]


def pair(mode: str, window: dict[str, int], max_groups: int | None = None) -> tuple[LivePaneModel, Driver]:
    model = LivePaneModel(PaneModel(**window), mode, max_groups)
    return model, Driver(paned_spec(**window, **KEYED_SUMS, emit=mode, every=1, max_groups=max_groups))


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40, deadline=None)
@given(windows(), streams(), st.data())
def test_every_mode_emits_what_the_model_emits(
    mode: str, window: dict[str, int], stream: list[Batch], data: Any
) -> None:
    model, driver = pair(mode, window)
    for batch in stream:
        assert_same_step(driver, model, batch, mode, data)
        assert driver.gauges["open_windows"] == len({start for start, _ in model.open})
    assert Counter(driver.batch([], FAR)) == Counter(model.pass_time(FAR))
    assert driver.events["windows_opened"] == driver.events["windows_closed"]
    assert driver.store.spaces() == []


@settings(max_examples=40, deadline=None)
@given(windows(), streams())
def test_a_change_log_sums_up_to_what_closing_windows_emit(window: dict[str, int], stream: list[Batch]) -> None:
    assert_change_log_sums_up(
        paned_spec(**window, **ONLY_SUMS, emit="changes"), paned_spec(**window, **ONLY_SUMS), stream
    )


@pytest.mark.parametrize("mode", ["on window close", "changes"])
@settings(max_examples=40, deadline=None)
@given(windows(), streams(), st.integers(1, 3))
def test_a_full_window_takes_no_further_groups(
    mode: str, window: dict[str, int], stream: list[Batch], most: int
) -> None:
    window = {**window, "slide": window["size"]}
    model, driver = pair(mode, window, most)
    for rows, watermark in stream:
        assert Counter(driver.batch(rows, watermark)) == Counter(model.step(rows, watermark))
        assert (driver.counts["late"], driver.counts["evicted"]) == (model.late, model.evicted)
    assert Counter(driver.batch([], FAR)) == Counter(model.pass_time(FAR))
    assert {payload["reason"] for payload in driver.side if payload["kind"] == "evicted"} <= {"max_groups"}
