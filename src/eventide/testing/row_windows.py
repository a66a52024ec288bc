"""Which windows hold a moment, in the reference model, for operators that put rows into windows one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eventide.plan.physical import Physical
from eventide.plan.windows import Calendar, Cumulate, PanedWindow
from eventide.testing.calendar_panes import CalendarPanes
from eventide.testing.operators import Cumulations, Panes
from eventide.testing.values import moment

WindowsOf = Callable[[int], list[tuple[int, int]]]  # from a time to (start, end) of the windows that hold it


def windows_of(physical: Physical, window: PanedWindow | Calendar) -> WindowsOf:
    if isinstance(window, Calendar):
        return CalendarPanes(physical, window).windows
    return (Cumulations if isinstance(window, Cumulate) else Panes)(physical, window).windows  # type: ignore[arg-type]


def bounds(start: int, end: int) -> dict[str, Any]:
    """The columns of a row that say which window it is in."""
    return {"window_start": moment(start), "window_end": moment(end), "window_time": moment(end - 1)}
