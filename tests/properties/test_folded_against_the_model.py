"""Rows that are folded before the kernel gets them: the windows are those of the model all the same."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

from hypothesis import given, settings

from eventide.kernels import prefold
from eventide.kernels.contract import DETAIL, PROBLEM
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.prefold import TimeBound
from tests.kernels.harness import KEYED_SUMS, Driver, Row, paned_spec
from tests.kernels.model import PaneModel
from tests.properties.agreement import FAR
from tests.properties.strategies import Batch, streams
from tests.properties.test_panes_against_the_model import windows


class FoldingDriver(Driver):
    """Hands over what can be folded as partials, and the rest as rows."""

    folded = 0

    def batch(self, rows: list[Row], watermark: int | None = None) -> list[Row]:
        if not rows or not isinstance(self.spec, IntakeSpec):
            return super().batch(rows, watermark)
        self.watermark = watermark if watermark is not None else self.watermark
        fold = self.spec.prefold()
        assert fold is not None
        with patch.object(prefold, "_WORTH", float("inf")):
            found = fold.fold(self.pack(rows).drop_columns([PROBLEM, DETAIL]), TimeBound(self.watermark))
        if found is None:
            return super().batch(rows, watermark)
        partial, rest = found
        count = len(rows) - rest.num_rows
        self.folded += count
        self.rows_in += count
        fresh = self._call("on_folded", partial, count)
        late = set(rest["__seq"].to_pylist())
        return fresh + super().batch([row for number, row in enumerate(rows) if number in late], watermark)


@settings(max_examples=80)
@given(windows(), streams())
def test_folded_rows_give_the_windows_of_the_model(window: dict[str, int], stream: list[Batch]) -> None:
    model, driver = PaneModel(**window), FoldingDriver(paned_spec(**window, **KEYED_SUMS))
    for rows, watermark in stream:
        assert Counter(driver.batch(rows, watermark)) == Counter(model.step(rows, watermark))
        assert driver.counts["late"] == len(model.late)
        assert driver.counts["used"] >= driver.folded
    assert Counter(driver.batch([], FAR)) == Counter(model.close(FAR))
    assert driver.store.spaces() == []
