from collections import Counter
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.kernels.harness import KEYED_SUMS, Driver, slide_spec
from tests.kernels.model import SlideModel
from tests.properties.agreement import FAR
from tests.properties.strategies import Batch, streams

slides = st.fixed_dictionaries(
    {
        "lookback": st.sampled_from([0, 1, 5, 20, 60]),
        "lookahead": st.sampled_from([None, None, 0, 3, 25]),
        "lateness": st.sampled_from([0, 0, 10]),
    }
)


@settings(max_examples=100, deadline=None)
@given(slides, streams(most_rows=20), st.data())
def test_every_row_gets_the_answer_that_the_model_gives(window: dict[str, Any], stream: list[Batch], data: Any) -> None:
    model, driver = SlideModel(**window), Driver(slide_spec(**window, **KEYED_SUMS))
    for rows, watermark in stream:
        assert Counter(driver.batch(rows, watermark)) == Counter(model.step(rows, watermark))
        assert driver.counts["late"] == model.late
        assert driver.gauges["open_windows"] == len(model.waiting)
        if data.draw(st.integers(0, 4)) == 0:
            assert Counter(driver.flush()) == Counter(model.flush())
    assert Counter(driver.batch([], FAR)) == Counter(model.pass_time(FAR))
    assert len(driver.main) == driver.counts["used"]
    assert driver.store.spaces() == []
