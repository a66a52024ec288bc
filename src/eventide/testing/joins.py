"""The joins of the reference model, row by row: each a plain list of rows that are kept, and a few rules.

A row is told to each operator with the number of its input; which side that is the plan says. Pairs come out with the
columns window_start, window_end, rowtime, __l0.., __r0..; see `operators` for when an operator is told what.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

from eventide.kernels.contract import ROWTIME
from eventide.plan.joins import Interval, OverlappingPanes
from eventide.plan.modes import JoinKind
from eventide.plan.physical import JoinRows, Physical
from eventide.plan.windows import Cumulate, Hop, Tumble
from eventide.testing.aggregates import frozen
from eventide.testing.expressions import holds
from eventide.testing.operators import LATE, Operator, Refused, Timed
from eventide.testing.values import moment

Window = tuple[int, int]


@dataclass(eq=False)
class Kept:
    """A row of one side; `key` is None if it matches nothing."""

    side: int
    row: Timed
    key: Any
    shown: dict[str, Any]
    is_matched: bool = False

    @property
    def time(self) -> int:
        return self.row.time


class Joins(Operator):
    """What all joins share: keys, the condition, and what comes out of a match or of none."""

    def __init__(self, physical: Physical, join: JoinRows) -> None:
        super().__init__(physical)
        self.join, self.kind = join, join.kind
        self.lateness = physical.emit.allowed_lateness

    def output_watermark(self, watermark: int) -> int:
        return watermark - self.horizon

    def keeps(self, side: int) -> bool:
        return self.kind.keeps_left if side == 0 else self.kind.keeps_right

    def kept(self, row: Timed) -> Kept:
        input = self.physical.inputs[row.input]
        values = [row.packed[key.sql] for key in input.keys]
        safe = self.join.null_safe or (False,) * len(values)
        is_lost = any(value is None and not is_safe for value, is_safe in zip(values, safe, strict=True))
        columns = self.join.left if input.side == 0 else self.join.right
        shown = {column.name: row.packed[column.sql] for column in columns}
        return Kept(input.side, row, None if is_lost else (frozen(values),), shown)

    def is_true(self, left: Kept, right: Kept) -> bool:
        if left.key is None or left.key != right.key:
            return False
        return self.join.condition is None or holds(self.join.condition, {**left.shown, **right.shown})

    def match(self, left: Kept, right: Kept, window: Window | None, own: Window | None) -> list[dict[str, Any]]:
        """What a pair gives: `window` is the pair's, `own` that of the left row."""
        is_first = not left.is_matched
        left.is_matched = right.is_matched = True
        if self.kind is JoinKind.SEMI:
            return [self.line(own, left.time, left.shown, {})] if is_first else []
        if self.kind is JoinKind.ANTI:
            return []
        return [self.line(window, max(left.time, right.time), left.shown, right.shown)]

    def give_alone(self, kept: Kept, window: Window | None) -> None:
        if self.keeps(kept.side) and not kept.is_matched:
            left, right = (kept.shown, {}) if kept.side == 0 else ({}, kept.shown)
            self.emitted.append(self.line(window, kept.time, left, right))

    def line(self, window: Window | None, time: int, left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
        start, end = (None, None) if window is None else (moment(window[0]), moment(window[1]))
        unknown = {column.name: None for column in (*self.join.left, *self.join.right)}
        return {"window_start": start, "window_end": end, ROWTIME: moment(time), **unknown, **left, **right}

    def refuse(self, row: Timed) -> None:
        self.sides.route("late", Refused(row, LATE))


# Tumbling, hopping, cumulating ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Pane:
    window: Window
    rows: list[Kept] = field(default_factory=list)
    waiting: list[dict[str, Any]] = field(default_factory=list)


class WindowJoin(Joins):
    """Every window is a join of its own: of the rows that are in it."""

    def __init__(self, physical: Physical, join: JoinRows, window: Tumble | Hop | Cumulate) -> None:
        super().__init__(physical, join)
        self._window = window
        self._open: list[Pane] = []
        self._passed: int | None = None
        self._flushed: int | None = None

    @property
    def horizon(self) -> int:
        return self._window.size + self.lateness

    def output_watermark(self, watermark: int) -> int:
        """The start of the oldest window that is open."""
        return min(start for start, _ in windows_of(self._window, watermark - self.lateness))

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        for row in rows:
            windows = [window for window in windows_of(self._window, row.time) if self._is_open(window, watermark)]
            if not windows:
                self.refuse(row)
            for window in windows:
                self._join(self.kept(row), window)

    def _join(self, fresh: Kept, window: Window) -> None:
        pane = next((pane for pane in self._open if pane.window == window), None)
        if pane is None:
            pane = Pane(window)
            self._open.append(pane)
        for other in pane.rows:
            left, right = (fresh, other) if fresh.side == 0 else (other, fresh)
            if other.side != fresh.side and self.is_true(left, right):
                pane.waiting += self.match(left, right, window, window)
        pane.rows.append(fresh)
        if not self.join.at_close:
            self._give_waiting(pane)

    def _is_open(self, window: Window, watermark: int | None) -> bool:
        if self._flushed is not None and window[0] <= self._flushed:
            return False
        return watermark is None or watermark < window[1] + self.lateness

    def _give_waiting(self, pane: Pane) -> None:
        self.emitted += pane.waiting
        pane.waiting = []

    def _close(self, closed: list[Pane]) -> None:
        for pane in closed:
            self._give_waiting(pane)
            for kept in pane.rows:
                self.give_alone(kept, pane.window)
        self._open = [pane for pane in self._open if pane not in closed]

    def pass_time(self, watermark: int) -> None:
        self._close([pane for pane in self._open if not self._is_open(pane.window, watermark)])

    def flush(self, until: int) -> None:
        self._flushed = until
        self._close([pane for pane in self._open if pane.window[0] <= until])


def windows_of(window: Tumble | Hop | Cumulate, time: int) -> list[Window]:
    """The windows that hold a time."""
    if isinstance(window, Cumulate):
        start = (time - window.offset) // window.size * window.size + window.offset
        return [(start, end) for end in range(start + window.step, start + window.size + 1, window.step) if end > time]
    slide = window.slide if isinstance(window, Hop) else window.size
    last = (time - window.offset) // slide * slide + window.offset
    return [(start, start + window.size) for start in range(last, time - window.size, -slide)]


# Intervals, and tumbling panes with sliding ones ----------------------------------------------------------------------


class NearbyJoin(Joins):
    """Rows that are kept one by one, each for a time of its own."""

    def __init__(self, physical: Physical, join: JoinRows) -> None:
        super().__init__(physical, join)
        self._rows: list[Kept] = []
        self._waiting: list[tuple[int, dict[str, Any]]] = []  # what comes out when a window closes, with its end
        self._flushed: int | None = None

    @abstractmethod
    def until(self, side: int, time: int) -> int:
        """Without the allowed lateness."""

    @abstractmethod
    def meets(self, left: int, right: int) -> bool: ...

    def own_window(self, side: int, time: int) -> Window | None:
        return None

    def pair_window(self, left: int, right: int) -> Window | None:
        return None

    def begins(self, side: int, time: int) -> int | None:
        """When the last window of a row begins, if it has any."""
        return None

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        for row in rows:
            fresh = self.kept(row)
            begins = self.begins(fresh.side, fresh.time)
            is_flushed = self._flushed is not None and begins is not None and begins <= self._flushed
            if is_flushed or self._is_over(fresh, watermark):
                self.refuse(row)
                continue
            for other in self._rows:
                left, right = (fresh, other) if fresh.side == 0 else (other, fresh)
                if other.side != fresh.side and self.meets(left.time, right.time) and self.is_true(left, right):
                    self._give(left, right, watermark)
            self._rows.append(fresh)

    def _give(self, left: Kept, right: Kept, watermark: int | None) -> None:
        window, own = self.pair_window(left.time, right.time), self.own_window(0, left.time)
        shown = own if self.kind is JoinKind.SEMI else window
        for line in self.match(left, right, window, own):
            if self.join.at_close and shown is not None and (watermark is None or watermark < shown[1] + self.lateness):
                self._waiting.append((shown[1], line))
            else:
                self.emitted.append(line)

    def _is_over(self, kept: Kept, watermark: int | None) -> bool:
        return watermark is not None and watermark >= self.until(kept.side, kept.time) + self.lateness

    def _close(self, closed: list[Kept]) -> None:
        for kept in closed:
            self.give_alone(kept, self.own_window(kept.side, kept.time))
        self._rows = [kept for kept in self._rows if kept not in closed]

    def pass_time(self, watermark: int) -> None:
        self.emitted += [line for end, line in self._waiting if watermark >= end + self.lateness]
        self._waiting = [(end, line) for end, line in self._waiting if watermark < end + self.lateness]
        self._close([kept for kept in self._rows if self._is_over(kept, watermark)])

    def flush(self, until: int) -> None:
        """Windows are closed. Rows without one that would come out alone do, and have had their result; others stay."""
        self.emitted += [line for _, line in self._waiting]
        self._waiting = []
        self._flushed = until
        self._close(
            [kept for kept in self._rows if self.begins(kept.side, kept.time) is not None or self.keeps(kept.side)]
        )


class IntervalJoin(NearbyJoin):
    def __init__(self, physical: Physical, join: JoinRows, bound: Interval) -> None:
        super().__init__(physical, join)
        self._bound = bound

    @property
    def horizon(self) -> int:
        return max(self._bound.upper, -self._bound.lower, 0) + self.lateness

    def until(self, side: int, time: int) -> int:
        return time + max(self._bound.upper if side == 0 else -self._bound.lower, 0)

    def meets(self, left: int, right: int) -> bool:
        return self._bound.lower <= right - left <= self._bound.upper


class PanesJoin(NearbyJoin):
    """Tumbling panes of one side with sliding panes of the other. A pair's window is the tumbling pane."""

    def __init__(self, physical: Physical, join: JoinRows, bound: OverlappingPanes) -> None:
        super().__init__(physical, join)
        self._windows = (bound.left, bound.right)
        self._tumbling = 0 if isinstance(bound.left, Tumble) else 1

    @property
    def horizon(self) -> int:
        return sum(window.size for window in self._windows) + self.lateness

    def panes(self, side: int, time: int) -> list[Window]:
        return windows_of(self._windows[side], time)

    def meets(self, left: int, right: int) -> bool:
        return any(overlap(one, other) for one in self.panes(0, left) for other in self.panes(1, right))

    def until(self, side: int, time: int) -> int:
        """The end of the last pane of the other side that overlaps one of the row's own."""
        last = max(end for _, end in self.panes(side, time)) - 1
        return max(end for _, end in self.panes(1 - side, last))

    def own_window(self, side: int, time: int) -> Window | None:
        return self.panes(side, time)[0] if side == self._tumbling else None

    def pair_window(self, left: int, right: int) -> Window | None:
        return self.own_window(self._tumbling, left if self._tumbling == 0 else right)

    def begins(self, side: int, time: int) -> int | None:
        return max(start for start, _ in self.panes(side, time))


def overlap(one: Window, other: Window) -> bool:
    return one[0] < other[1] and other[0] < one[1]
