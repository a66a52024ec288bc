"""The places of rows in the reference model."""

from __future__ import annotations

from typing import Any

from eventide.plan.physical import Physical, RankRows
from eventide.testing.aggregates import frozen
from eventide.testing.operators import LATE, Operator, Refused, Timed, forwarded


class Ranking(Operator):
    """Rows with their place, when the watermark has passed them."""

    def __init__(self, physical: Physical, rank: RankRows) -> None:
        super().__init__(physical)
        self.rank, self.lateness = rank, physical.emit.allowed_lateness
        self.waiting: list[Timed] = []
        self.passed: int | None = None

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        for row in rows:
            if self.passed is not None and row.time <= self.passed:
                self.sides.route("late", Refused(row, LATE))
            else:
                self.waiting.append(row)

    def pass_time(self, watermark: int) -> None:
        self._release(watermark - 1 - self.lateness)

    def flush(self, until: int) -> None:
        self._release(until)

    def _release(self, until: int) -> None:
        self.passed = until if self.passed is None else max(until, self.passed)
        leaving = [row for row in self.waiting if row.time <= self.passed]
        self.waiting = [row for row in self.waiting if row.time > self.passed]
        groups: dict[Any, list[Timed]] = {}
        for row in leaving:
            keys = [row.packed[key.sql] for key in self.physical.inputs[0].keys]
            groups.setdefault((row.time, frozen(keys)), []).append(row)
        for rows in groups.values():
            self.emitted += [{**forwarded(row), "__place": place} for row, place in self._placed(rows)]

    def _placed(self, rows: list[Timed]) -> list[tuple[Timed, int]]:
        for key in reversed(self.rank.order):
            known = [row for row in rows if row.packed[key.column] is not None]
            nulls = [row for row in rows if row.packed[key.column] is None]
            known = sorted(known, key=lambda row: row.packed[key.column], reverse=key.descending)
            rows = [*nulls, *known] if key.nulls_first else [*known, *nulls]
        placed: list[tuple[Timed, int]] = []
        distinct: list[Any] = []
        first = 0
        for number, row in enumerate(rows, 1):
            value = [row.packed[key.column] for key in self.rank.order]
            if not distinct or distinct[-1] != value:
                distinct.append(value)
                first = number
            place = {"row_number": number, "rank": first, "dense_rank": len(distinct)}[self.rank.function.value]
            placed.append((row, place))
        return placed
