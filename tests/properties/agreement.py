"""Checks that windows in any emit mode have in common, whatever their kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sized
from typing import Any, Protocol

from hypothesis import strategies as st

from eventide.kernels.contract import KernelSpec
from tests.kernels.harness import KEYED_SUMS, Driver
from tests.properties.strategies import Batch, Row

FAR = 10_000
ONLY_SUMS = {**KEYED_SUMS, "aggregates": KEYED_SUMS["aggregates"][1:]}  # so that some changes leave the result as it is


class LiveModel(Protocol):
    late: int

    @property
    def open(self) -> Sized: ...

    def step(self, rows: list[Row], watermark: int | None) -> list[Row]: ...

    def tick(self) -> list[Row]: ...

    def flush(self) -> list[Row]: ...


def assert_same_step(driver: Driver, model: LiveModel, batch: Batch, mode: str, data: Any) -> None:
    """Kernel and model give the same for a batch, and for what may follow it: a tick, a flush."""
    assert Counter(driver.batch(*batch)) == Counter(model.step(*batch))
    assert driver.counts["late"] == model.late
    assert driver.gauges["open_groups"] == len(model.open)
    if mode == "every" and data.draw(st.booleans()):
        assert Counter(driver.tick(0)) == Counter(model.tick())
    if data.draw(st.integers(0, 4)) == 0:
        assert Counter(driver.flush()) == Counter(model.flush())


def assert_change_log_sums_up(changes: KernelSpec, closing: KernelSpec, stream: list[Batch]) -> None:
    """What is left of a change log is what the same windows emit when they close, each once."""
    total: Counter[Any] = Counter()
    for start, end, _, op, *rest in emitted(changes, stream):
        total[(start, end, *rest)] += op
    assert total == Counter((start, end, *rest) for start, end, _, _, *rest in emitted(closing, stream))
    assert set(total.values()) <= {0, 1}


def emitted(spec: KernelSpec, stream: list[Batch]) -> list[Row]:
    driver = Driver(spec)
    for rows, watermark in [*stream, ([], FAR)]:
        driver.batch(rows, watermark)
    return driver.main
