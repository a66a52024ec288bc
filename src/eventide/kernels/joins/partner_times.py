"""What a bound means to a kernel that joins rows by ranges of time.

Each bound says of a row which times its partners have, how long it waits for them, and in which windows a pair is. All
that it answers ascends with the time that it is asked for. Lateness is the kernel's matter, not the bound's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from eventide.errors import EngineError
from eventide.kernels.vector.columns import Ints, Mask
from eventide.kernels.windows.grid import Grid, grid_of, latest, spans
from eventide.plan.joins import Interval, JoinBound, OverlappingPanes, SameWindow
from eventide.plan.windows import Tumble

Bounds = tuple[Ints, Ints]


class PartnerTimes(ABC):
    """Side 0 is the left one. Times are microseconds; ranges of times include both ends."""

    windows_per_row = 1

    @property
    @abstractmethod
    def width(self) -> int:
        """About half of the range in which partners lie: what is read together should be that wide."""

    @abstractmethod
    def partners(self, side: int, ts: Ints) -> Bounds:
        """The first and the last time that a partner of a row may have."""

    @abstractmethod
    def waits_until(self, side: int, ts: Ints) -> Ints:
        """The watermark from which on no partner can come on time."""

    def is_flushed(self, side: int, ts: Ints, flushed: int) -> Mask:
        """Whether a flush of what had begun by then has closed all windows of a row."""
        return np.zeros(len(ts), np.bool_)

    def flush_is_over(self, flushed: int) -> int | None:
        """The watermark from which on a flush need not be remembered; None if it never need be."""
        return None

    def last_closed(self, passed: int | None, flushed: int | None) -> int | None:
        """The last window that time or a flush has closed, if pairs are counted by window."""
        return None

    def row_windows(self, side: int, ts: Ints, closed: int | None) -> tuple[Ints, Ints]:
        """(place of the row, window) for the windows after `closed` in which rows are, even one in name only."""
        return np.arange(len(ts)), np.zeros(len(ts), np.int64)

    def pair_windows(self, left: Ints, right: Ints, closed: int | None) -> tuple[Ints, Ints]:
        """The same for pairs; windows that hold both rows."""
        return np.arange(len(left)), np.zeros(len(left), np.int64)

    def ordinal(self, side: int, ts: Ints, windows: Ints) -> Ints:
        """Which of a row's windows a window is, from 0."""
        return np.zeros(len(ts), np.int64)

    def ends(self, side: int, ts: Ints, windows: Ints) -> Ints:
        """The watermark from which on a row finds no partner in that window."""
        return self.waits_until(side, ts)

    def row_bounds(self, side: int, ts: Ints, windows: Ints) -> Bounds | None:
        """Start and end of a window as a row without partner shows it; None if it has none."""
        return None

    def pair_bounds(self, left: Ints, right: Ints, windows: Ints) -> Bounds | None:
        return None

    def missed(self, side: int, ts: Ints) -> Bounds | None:
        """The last window of late rows."""
        return None

    @property
    def grid(self) -> Grid | None:
        """Of the windows that are counted."""
        return None

    def is_counted(self, side: int) -> bool:
        """Whether rows of this side open windows."""
        return False


@dataclass(frozen=True)
class IntervalPartners(PartnerTimes):
    bound: Interval

    @property
    def width(self) -> int:
        return max(self.bound.upper - self.bound.lower, 0) // 2

    def partners(self, side: int, ts: Ints) -> Bounds:
        if side == 0:
            return ts + self.bound.lower, ts + self.bound.upper
        return ts - self.bound.upper, ts - self.bound.lower

    def waits_until(self, side: int, ts: Ints) -> Ints:
        return ts + max(self.bound.upper if side == 0 else -self.bound.lower, 0)


@dataclass(frozen=True)
class WindowPartners(PartnerTimes):
    """Tumbling, hopping and cumulating windows; a pair and a row count once for each of theirs."""

    _grid: Grid

    @property
    def grid(self) -> Grid:
        return self._grid

    def is_counted(self, side: int) -> bool:
        return True

    @property
    def windows_per_row(self) -> int:  # type: ignore[override]
        return -(-self.grid.size // self.grid.slide)

    @property
    def width(self) -> int:
        return self.grid.size // 2

    def _first_and_last(self, ts: Ints) -> Bounds:
        slices = self.grid.slices_of(ts)
        return self.grid.first_windows_of(slices), self.grid.last_windows_of(slices)

    def partners(self, side: int, ts: Ints) -> Bounds:
        first, last = self._first_and_last(ts)
        return self.grid.starts(first), self.grid.ends(last) - 1

    def waits_until(self, side: int, ts: Ints) -> Ints:
        return self.grid.ends(self._first_and_last(ts)[1])

    def is_flushed(self, side: int, ts: Ints, flushed: int) -> Mask:
        return self._first_and_last(ts)[1] <= self.grid.last_begun(flushed)

    def flush_is_over(self, flushed: int) -> int | None:
        return int(self.grid.ends(np.array([self.grid.last_begun(flushed)]))[0])

    def last_closed(self, passed: int | None, flushed: int | None) -> int | None:
        return closed_windows(self.grid, passed, flushed)

    def row_windows(self, side: int, ts: Ints, closed: int | None) -> tuple[Ints, Ints]:
        return _each(*self._first_and_last(ts), closed)

    def pair_windows(self, left: Ints, right: Ints, closed: int | None) -> tuple[Ints, Ints]:
        first, last = self._first_and_last(left)
        other_first, other_last = self._first_and_last(right)
        return _each(np.maximum(first, other_first), np.minimum(last, other_last), closed)

    def ordinal(self, side: int, ts: Ints, windows: Ints) -> Ints:
        return windows - self._first_and_last(ts)[0]

    def ends(self, side: int, ts: Ints, windows: Ints) -> Ints:
        return self.grid.ends(windows)

    def row_bounds(self, side: int, ts: Ints, windows: Ints) -> Bounds:
        return self.grid.starts(windows), self.grid.ends(windows)

    def pair_bounds(self, left: Ints, right: Ints, windows: Ints) -> Bounds:
        return self.grid.starts(windows), self.grid.ends(windows)

    def missed(self, side: int, ts: Ints) -> Bounds:
        return self.grid.last_window_bounds(self.grid.slices_of(ts))


@dataclass(frozen=True)
class PanePartners(PartnerTimes):
    """Tumbling panes of one side with the sliding panes of the other.

    A pair's window is the tumbling pane, whichever side it is of; a sliding row without partner has none, being in
    several.
    """

    tumbling: Grid
    sliding: Grid
    tumbling_side: int

    @property
    def grid(self) -> Grid:
        return self.tumbling

    def is_counted(self, side: int) -> bool:
        return side == self.tumbling_side

    @property
    def width(self) -> int:
        return (self.tumbling.size + self.sliding.size) // 2

    def partners(self, side: int, ts: Ints) -> Bounds:
        if side == self.tumbling_side:
            start, end = self._pane(ts)
            first = (start - self.sliding.offset - self.sliding.size) // self.sliding.slide + 1
            return self.sliding.starts(first), self._last_sliding_end(end) - 1
        first, last = self._covered(ts)
        return self._pane(first)[0], self._pane(last - 1)[1] - 1

    def waits_until(self, side: int, ts: Ints) -> Ints:
        return self.partners(side, ts)[1] + 1

    def is_flushed(self, side: int, ts: Ints, flushed: int) -> Mask:
        grid = self.tumbling if side == self.tumbling_side else self.sliding
        return grid.starts(grid.last_windows_of(grid.slices_of(ts))) <= flushed

    def flush_is_over(self, flushed: int) -> int | None:
        last_sliding = (flushed - self.sliding.offset) // self.sliding.slide * self.sliding.slide + self.sliding.offset
        latest = [np.array([flushed]), np.array([last_sliding + self.sliding.slide - 1])]
        tumbling, sliding = self.tumbling_side, 1 - self.tumbling_side
        return max(int(self.waits_until(tumbling, latest[0])[0]), int(self.waits_until(sliding, latest[1])[0]))

    def row_bounds(self, side: int, ts: Ints, windows: Ints) -> Bounds | None:
        return self._pane(ts) if side == self.tumbling_side else None

    def pair_bounds(self, left: Ints, right: Ints, windows: Ints) -> Bounds:
        return self._pane(left if self.tumbling_side == 0 else right)

    def missed(self, side: int, ts: Ints) -> Bounds:
        grid = self.tumbling if side == self.tumbling_side else self.sliding
        return grid.last_window_bounds(grid.slices_of(ts))

    def _pane(self, ts: Ints) -> Bounds:
        pane = self.tumbling.slices_of(ts)
        return self.tumbling.starts(pane), self.tumbling.ends(pane)

    def _covered(self, ts: Ints) -> Bounds:
        """What the sliding panes of a row cover together."""
        slices = self.sliding.slices_of(ts)
        first, last = self.sliding.first_windows_of(slices), self.sliding.last_windows_of(slices)
        return self.sliding.starts(first), self.sliding.ends(last)

    def _last_sliding_end(self, before: Ints) -> Ints:
        """The end of the last sliding pane that begins before these times."""
        return self.sliding.ends((before - 1 - self.sliding.offset) // self.sliding.slide)


def _each(first: Ints, last: Ints, closed: int | None) -> tuple[Ints, Ints]:
    if closed is not None:
        first = np.maximum(first, closed + 1)
    lengths = np.maximum(last - first + 1, 0)
    if (lengths == 1).all():
        return np.arange(len(first)), first
    return np.repeat(np.arange(len(first)), lengths), spans(first, lengths)


def closed_windows(grid: Grid, passed: int | None, flushed: int | None) -> int | None:
    """The last window that time or a flush has closed."""
    return latest(grid.last_closed(passed), None if flushed is None else grid.last_begun(flushed))


def partner_times_of(bound: JoinBound) -> PartnerTimes:
    match bound:
        case Interval():
            return IntervalPartners(bound)
        case SameWindow(window=window):
            return WindowPartners(grid_of(window, 0))
        case OverlappingPanes(left=left, right=right):
            side = 0 if isinstance(left, Tumble) else 1
            tumbling, sliding = (left, right) if side == 0 else (right, left)
            return PanePartners(grid_of(tumbling, 0), grid_of(sliding, 0), side)
        case _:
            raise EngineError(f"{type(bound).__name__} is not a join by ranges of time")
