"""The arithmetic of tumbling, hopping and cumulating windows: slices, windows, and which of them are open.

A window k is [k * slide + offset, k * slide + offset + size). Rows are aggregated in slices of gcd(size, slide), the
widest ones of which every window is a whole number; a tumbling window is one slice. Cumulating windows grow in steps up
to `size` and then begin anew; window k ends with slice k. Windows of all kinds are numbered in the order of their ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eventide.kernels.vector.columns import Ints, Mask
from eventide.plan.windows import Cumulate, Hop, PanedWindow, Tumble


@dataclass(frozen=True)
class Grid:
    """Sizes in microseconds; `lateness` is how long after its end a window takes rows.

    `passed`: windows that end by then have closed under an earlier text of the stream, whatever the lateness is now.
    """

    size: int
    slide: int
    offset: int
    lateness: int
    passed: int | None = None

    @property
    def slice(self) -> int:
        return math.gcd(self.size, self.slide)

    @property
    def per_window(self) -> int:
        """Slices in a window."""
        return self.size // self.slice

    @property
    def per_slide(self) -> int:
        """Slices from one window's start to the next one's."""
        return self.slide // self.slice

    def slices_of(self, ts: Ints) -> Ints:
        return (ts - self.offset) // self.slice

    def last_windows_of(self, slices: Ints) -> Ints:
        """The last window that holds a slice."""
        return slices // self.per_slide

    def first_windows_of(self, slices: Ints) -> Ints:
        """The first window that holds a slice."""
        return (slices - self.per_window) // self.per_slide + 1

    def slices_in(self, windows: Ints) -> tuple[Ints, Ints]:
        """The first slice of each window, and the one behind its last."""
        return windows * self.per_slide, windows * self.per_slide + self.per_window

    def first_needed(self, closed: int) -> int:
        """The first slice that a window after window `closed` holds."""
        return (closed + 1) * self.per_slide

    def starts(self, windows: Ints) -> Ints:
        return windows * self.slide + self.offset

    def ends(self, windows: Ints) -> Ints:
        return self.starts(windows) + self.size

    def last_window_bounds(self, slices: Ints) -> tuple[Ints, Ints]:
        """Start and end of the last window that holds each slice."""
        last = self.last_windows_of(slices)
        return self.starts(last), self.ends(last)

    def closes_at(self, window: int) -> int:
        return window * self.slide + self.offset + self.size + self.lateness

    def last_closed(self, watermark: int | None) -> int | None:
        """The last window that the watermark has closed."""
        ended = [] if watermark is None else [watermark - self.lateness]
        return max(map(self.last_ended, ended if self.passed is None else [*ended, self.passed]), default=None)

    def last_ended(self, moment: int) -> int:
        """The last window that ends at or before this."""
        return (moment - self.size - self.offset) // self.slide

    def last_begun(self, ts: int) -> int:
        """The last window that begins at or before `ts`."""
        return int(self.last_windows_of(self.slices_of(np.array([ts])))[0])

    def all_closed(self, slices: Ints, closed: int | None) -> Mask:
        """Whether every window of a slice is closed, given the last one that is."""
        return np.zeros(len(slices), np.bool_) if closed is None else self.last_windows_of(slices) <= closed

    def windows_over(self, slices: Ints, after: int | None) -> Ints:
        """All windows, ascending, that hold one of these ascending slices and come after window `after`."""
        if len(slices) == 0:
            return slices
        first, last = self.first_windows_of(slices), self.last_windows_of(slices)
        if after is not None:
            first = np.maximum(first, after + 1)
        first[1:] = np.maximum(first[1:], last[:-1] + 1)  # each window once: slices ascend, and so do their windows
        return spans(first, np.maximum(last - first + 1, 0))

    def windows_of_each(self, slices: Ints, after: int | None) -> tuple[Ints, Ints]:
        """(place of the slice, window) for all windows of every slice that come after window `after`."""
        first, last = self.first_windows_of(slices), self.last_windows_of(slices)
        if after is not None:
            first = np.maximum(first, after + 1)
        lengths = np.maximum(last - first + 1, 0)
        return np.repeat(np.arange(len(slices)), lengths), spans(first, lengths)


@dataclass(frozen=True)
class CumulativeGrid(Grid):
    """Windows [start, start + i * slide) for i = 1 .. size / slide, where `start` is a multiple of `size` (and
    `offset`).
    """

    @property
    def slice(self) -> int:
        return self.slide

    def last_windows_of(self, slices: Ints) -> Ints:
        return (slices // self.per_window + 1) * self.per_window - 1

    def first_windows_of(self, slices: Ints) -> Ints:
        return slices.copy()

    def slices_in(self, windows: Ints) -> tuple[Ints, Ints]:
        return windows // self.per_window * self.per_window, windows + 1

    def first_needed(self, closed: int) -> int:
        return (closed + 1) // self.per_window * self.per_window

    def starts(self, windows: Ints) -> Ints:
        return windows // self.per_window * self.size + self.offset

    def ends(self, windows: Ints) -> Ints:
        return (windows + 1) * self.slide + self.offset

    def closes_at(self, window: int) -> int:
        return (window + 1) * self.slide + self.offset + self.lateness

    def last_ended(self, moment: int) -> int:
        return (moment - self.offset) // self.slide - 1


def grid_of(window: PanedWindow, lateness: int, passed: int | None = None) -> Grid:
    match window:
        case Tumble(size=size, offset=offset):
            return Grid(size, size, offset, lateness, passed)
        case Hop(size=size, slide=slide, offset=offset):
            return Grid(size, slide, offset, lateness, passed)
        case Cumulate(size=size, step=step, offset=offset):
            return CumulativeGrid(size, step, offset, lateness, passed)


def latest(*windows: int | None) -> int | None:
    """The last of some windows, which may be none."""
    return max((window for window in windows if window is not None), default=None)


def spans(first: Ints, lengths: Ints) -> Ints:
    """first, first + 1, ... for the given lengths, one after the other."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(first - before, lengths) + np.arange(lengths.sum())
