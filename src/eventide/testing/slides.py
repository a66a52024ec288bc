"""The reference model of sliding windows, which rows trigger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eventide.plan.physical import Physical
from eventide.plan.windows import Slide
from eventide.testing.operators import LATE, Held, Operator, Refused, Timed, Windows


class Slides(Windows):
    """Every row asks for the aggregate over [t - lookback, t + lookahead], both ends included, of its group."""

    def __init__(self, physical: Physical, window: Slide) -> None:
        super().__init__(physical)
        self._lookback, self._lookahead = window.lookback, window.lookahead
        self._rows: list[Timed] = []
        self._epochs: dict[Any, int] = {}

    @property
    def horizon(self) -> int:
        return (self._lookahead or 0) + self.lateness

    def go_on_from(self, before: Operator, watermark: int | None) -> None:
        super().go_on_from(before, watermark)
        if isinstance(before, Slides):
            self._rows, self._epochs = [self.repacked(row) for row in before._rows], before._epochs

    def assign(self, rows: list[Timed], watermark: int | None) -> list[Held]:
        asked = []
        for row in rows:
            end = row.time + (self._lookahead or 0)
            if self.tracker.is_open(end, watermark):
                self._rows.append(row)
                asked.append(Held(self.key_of(row), row.time - self._lookback, end))
            else:
                self.sides.route("late", Refused(row, LATE))
        if self._lookahead is None:
            self._emit(asked)
            return []
        self.open += asked
        return asked

    def begins(self, held: Held) -> int:
        return held.start + self._lookback

    def output_watermark(self, watermark: int) -> int:
        return watermark - self.horizon

    def remember_flushed(self, begun: list[Held], until: int) -> None:
        """Rows are kept: later ones may reach back to them."""

    def row_of(self, held: Held) -> dict[str, Any]:
        within = [row for row in self._rows if self.key_of(row) == held.key and held.start <= row.time <= held.end]
        place = (held.key, held.start)
        self._epochs[place] = self._epochs.get(place, -1) + 1
        return super().row_of(replace(held, rows=within, epoch=self._epochs[place]))
