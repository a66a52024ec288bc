"""Rows with the windows that hold them: each row once for every window, with the bounds of that as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import WINDOW_END, WINDOW_START, WINDOW_TIME
from eventide.kernels.vector.columns import Ints, timestamps
from eventide.kernels.windows.calendar import any_grid
from eventide.plan.windows import Calendar, PanedWindow

_MOMENT = pa.timestamp("us", tz="UTC")
BOUND_FIELDS = [pa.field(name, _MOMENT) for name in (WINDOW_START, WINDOW_END, WINDOW_TIME)]


@dataclass(frozen=True)
class RowWindows:
    """`rows` are the places of rows, each as often as windows hold it; `starts` and `ends` are those of the windows."""

    rows: Ints
    starts: Ints
    ends: Ints


def windows_of_rows(window: PanedWindow | Calendar, ts: Ints, passed: int | None = None) -> RowWindows:
    """All windows that hold the times `ts` and whose last moment is after `passed`; in the order of the rows."""
    grid = any_grid(window, 0)
    after = None if passed is None else grid.last_ended(passed + 1)
    rows, windows = grid.windows_of_each(grid.slices_of(ts), after)
    return RowWindows(rows, grid.starts(windows), grid.ends(windows))


def last_moment_begun(window: PanedWindow | Calendar, until: int) -> int:
    """The last moment of the last window that has begun by `until`."""
    grid = any_grid(window, 0)
    return int(grid.ends(np.array([grid.last_begun(until)]))[0]) - 1


def bound_columns(starts: Ints, ends: Ints) -> list[pa.Array]:
    """What BOUND_FIELDS describe."""
    return [timestamps(starts), timestamps(ends), timestamps(ends - 1)]
