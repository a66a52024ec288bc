from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from eventide.kernels.state.keyed_table import KeyedTable
from tests.kernels.harness import KEYED_SUMS, Driver, session_spec
from tests.kernels.model import SessionModel
from tests.properties.agreement import FAR, ONLY_SUMS, assert_change_log_sums_up, assert_same_step
from tests.properties.strategies import Batch, streams

MODES = ["on window close", "on watermark", "on update", "every", "changes"]
gaps = st.fixed_dictionaries({"gap": st.integers(1, 12), "lateness": st.sampled_from([0, 0, 4, 20])})


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=40, deadline=None)
@given(gaps, streams(), st.data())
def test_sessions_emit_what_the_model_emits(mode: str, window: dict[str, int], stream: list[Batch], data: Any) -> None:
    model, driver = SessionModel(**window, mode=mode), Driver(session_spec(**window, **KEYED_SUMS, emit=mode, every=1))
    for batch in stream:
        assert_same_step(driver, model, batch, mode, data)
        assert driver.gauges["open_windows"] == len(model.open)
    assert Counter(driver.batch([], FAR)) == Counter(model.pass_time(FAR))
    assert driver.events["sessions_merged"] == model.merged
    assert driver.events["windows_opened"] == driver.events["windows_closed"] + driver.events["sessions_merged"]
    assert driver.store.spaces() == []


@settings(max_examples=40, deadline=None)
@given(gaps, streams())
def test_a_change_log_sums_up_to_the_closed_sessions(window: dict[str, int], stream: list[Batch]) -> None:
    assert_change_log_sums_up(
        session_spec(**window, **ONLY_SUMS, emit="changes"), session_spec(**window, **ONLY_SUMS), stream
    )


@settings(max_examples=25, deadline=None)
@given(gaps, streams(most_rows=30))
def test_the_number_of_buckets_does_not_matter(window: dict[str, int], stream: list[Batch]) -> None:
    with patch.object(KeyedTable.__init__, "__defaults__", (np.minimum, 1, np.add, ())):
        many = Driver(session_spec(**window, **KEYED_SUMS))
        emitted = [Counter(many.batch(rows, watermark)) for rows, watermark in [*stream, ([], FAR)]]
    one = Driver(session_spec(**window, **KEYED_SUMS))
    assert emitted == [Counter(one.batch(rows, watermark)) for rows, watermark in [*stream, ([], FAR)]]
    assert many.counts == one.counts
    assert many.store.spaces() == []
