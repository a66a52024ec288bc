"""Rows that a table function puts into windows, forwarded, in the reference model."""

from __future__ import annotations

from eventide.kernels.contract import ROWTIME
from eventide.plan.physical import ForwardRows, Physical
from eventide.plan.windows import Calendar, PanedWindow
from eventide.testing.operators import Operator, OrderedForward, PlainForward, Timed
from eventide.testing.row_windows import bounds, windows_of
from eventide.testing.values import micros_of


class ForwardInWindows(Operator):
    """What plain or ordered forwarding gives, each row once for every window that holds it, the first first."""

    def __init__(self, physical: Physical, forward: ForwardRows, window: PanedWindow | Calendar) -> None:
        super().__init__(physical)
        self._below = OrderedForward(physical) if forward.ordered else PlainForward(physical)
        self._windows, self.sides = windows_of(physical, window), self._below.sides

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        self._below.take(rows, watermark)
        self._pass_on()

    def pass_time(self, watermark: int) -> None:
        self._below.pass_time(watermark)
        self._pass_on()

    def flush(self, until: int) -> None:
        self._below.flush(until)
        self._pass_on()

    def go_on_from(self, before: Operator, watermark: int | None) -> None:
        if isinstance(before, ForwardInWindows):
            self._below.go_on_from(before._below, watermark)

    def _pass_on(self) -> None:
        for row in self._below.emitted:
            windows = sorted(self._windows(micros_of(row[ROWTIME])))
            self.emitted += [{**row, **bounds(*window)} for window in windows]
        self._below.emitted = []
