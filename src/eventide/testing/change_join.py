"""Joins without a bound in time in the reference model: rows come and go one by one, and what cancels out in a batch is
left out of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eventide.plan.joins import AnyTime
from eventide.plan.modes import EmitMode, JoinKind
from eventide.plan.physical import JoinRows, Physical
from eventide.testing.aggregates import frozen
from eventide.testing.joins import Joins, Kept
from eventide.testing.operators import Timed


@dataclass(eq=False)
class _Partners:
    """A row that is kept, and how many partners it has had since it came, less those that were taken back."""

    kept: Kept
    count: int = 0


class ChangeJoin(Joins):
    def __init__(self, physical: Physical, join: JoinRows, bound: AnyTime) -> None:
        super().__init__(physical, join)
        self._ttl = bound.ttl
        self._rows: list[_Partners] = []
        self._log: list[tuple[int, dict[str, Any]]] = []

    @property
    def horizon(self) -> int:
        return 0

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        for row in rows:
            changes = self.physical.inputs[row.input].changes
            if changes is None or row.packed[changes] > 0:
                self._add(self.kept(row))
            else:
                self._take_back(self.kept(row))
        self._emit()

    def pass_time(self, watermark: int) -> None:
        if self._ttl is not None:
            self._rows = [each for each in self._rows if each.kept.time + self._ttl > watermark]

    def _add(self, kept: Kept) -> None:
        fresh = _Partners(kept)
        for other in self._partners(kept):
            self._pair(kept, other.kept, 1)
            self._count(fresh, 1, is_there=False)
            self._count(other, 1)
        if fresh.count == 0 and self.keeps(kept.side):
            self._alone(kept, 1)
        if fresh.count > 0 and self._is_semi(kept.side):
            self._alone(kept, 1)
        self._rows.append(fresh)

    def _take_back(self, kept: Kept) -> None:
        known = next((each for each in self._rows if _is_same(each.kept, kept)), None)
        if known is None:
            return
        self._rows.remove(known)
        for other in self._partners(kept):
            self._pair(kept, other.kept, -1)
            self._count(other, -1)
        if known.count == 0 and self.keeps(kept.side):
            self._alone(kept, -1)
        if known.count > 0 and self._is_semi(kept.side):
            self._alone(kept, -1)

    def _is_semi(self, side: int) -> bool:
        return self.kind is JoinKind.SEMI and side == 0

    def _partners(self, kept: Kept) -> list[_Partners]:
        others = [each for each in self._rows if each.kept.side != kept.side]
        return [each for each in others if self.is_true(*_in_order(kept, each.kept))]

    def _count(self, row: _Partners, more: int, is_there: bool = True) -> None:
        """A row that finds its first partner, or loses its last, is no longer alone, or is again."""
        before, row.count = row.count, row.count + more
        if is_there and (before == 0) != (row.count == 0):
            if self.keeps(row.kept.side):
                self._alone(row.kept, -more)
            if self._is_semi(row.kept.side):
                self._alone(row.kept, more)

    def _pair(self, one: Kept, other: Kept, op: int) -> None:
        left, right = _in_order(one, other)
        if self.kind not in (JoinKind.SEMI, JoinKind.ANTI):
            self._log.append((op, self.line(None, max(left.time, right.time), left.shown, right.shown)))

    def _alone(self, kept: Kept, op: int) -> None:
        left, right = (kept.shown, {}) if kept.side == 0 else ({}, kept.shown)
        self._log.append((op, self.line(None, kept.time, left, right)))

    def _emit(self) -> None:
        """What was taken back and added, or added and taken back, has not happened."""
        net: dict[Any, tuple[int, dict[str, Any]]] = {}
        for op, line in self._log:
            before = net.get(frozen(line), (0, line))
            net[frozen(line)] = (before[0] + op, line)
        self._log = []
        ops = (-1, 1) if self.physical.emit.mode is EmitMode.CHANGES else (1,)
        for op in ops:
            for count, line in net.values():
                self.emitted += [{**line, "__op": op}] * max(count * op, 0)


def _is_same(one: Kept, other: Kept) -> bool:
    mine, theirs = ((each.side, each.time, each.key, frozen(each.shown)) for each in (one, other))
    return mine == theirs


def _in_order(one: Kept, other: Kept) -> tuple[Kept, Kept]:
    return (one, other) if one.side == 0 else (other, one)
