"""Windows of the calendar: days, weeks, months and years as the clocks of a time zone have them.

A window is known by its number, counted from the one that holds 1970-01-01. Where it begins depends on the zone: a day
may have 23 or 25 hours. The first moment of a day that begins twice is the first of the two; of a day whose midnight is
skipped, the moment of the skip.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from eventide.kernels.vector.columns import Ints, distinct
from eventide.kernels.windows.grid import Grid, grid_of
from eventide.plan.windows import Calendar, CalendarUnit, PanedWindow

_MONDAY = -3  # the day, counted from 1970-01-01, on which the week that holds it begins
_MICROSECOND = dt.timedelta(microseconds=1)


@dataclass(frozen=True)
class CalendarGrid(Grid):
    """Every window is one slice; sizes are not to be asked for."""

    calendar: Calendar = field(kw_only=True)

    @property
    def slice(self) -> int:
        return 1

    @property
    def per_window(self) -> int:
        return 1

    @property
    def per_slide(self) -> int:
        return 1

    def slices_of(self, ts: Ints) -> Ints:
        if len(ts) == 0:
            return ts
        about = _number_in_utc(self.calendar, ts)
        known = distinct(np.concatenate([about - 1, about, about + 1]))
        starts = self.starts(known)
        # of windows without length, days that a zone has skipped, none is the answer
        return known[np.searchsorted(starts, ts, "right") - 1]

    def starts(self, windows: Ints) -> Ints:
        numbers, places = np.unique(windows, return_inverse=True)
        starts = np.array([start_of(self.calendar, int(number)) for number in numbers], np.int64)
        return starts[places] if len(numbers) else windows

    def ends(self, windows: Ints) -> Ints:
        return self.starts(windows + 1)

    def closes_at(self, window: int) -> int:
        return start_of(self.calendar, window + 1) + self.lateness

    def last_ended(self, moment: int) -> int:
        return int(self.slices_of(np.array([moment]))[0]) - 1


def calendar_grid(calendar: Calendar, lateness: int, passed: int | None = None) -> CalendarGrid:
    return CalendarGrid(1, 1, 0, lateness, passed, calendar=calendar)


def any_grid(window: PanedWindow | Calendar, lateness: int, passed: int | None = None) -> Grid:
    """The grid of windows that do not depend on the rows, of the calendar or not."""
    if isinstance(window, Calendar):
        return calendar_grid(window, lateness, passed)
    return grid_of(window, lateness, passed)


@lru_cache(maxsize=100_000)
def start_of(calendar: Calendar, number: int) -> int:
    """The moment at which a window begins, in microseconds since the epoch."""
    local = _local_start(calendar, number).astype("datetime64[us]")
    micros = int(local.astype(np.int64))
    moment = local.item()
    if not isinstance(moment, dt.datetime) or not dt.MINYEAR < moment.year < dt.MAXYEAR:
        return micros  # no zone is known for such years
    offset = moment.replace(tzinfo=_zone(calendar.zone)).utcoffset() or dt.timedelta()
    return micros - offset // _MICROSECOND


@lru_cache
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _local_start(calendar: Calendar, number: int) -> np.datetime64:
    places = number * calendar.count
    match calendar.unit:
        case CalendarUnit.DAY:
            return np.datetime64(places, "D")
        case CalendarUnit.WEEK:
            return np.datetime64(_MONDAY + calendar.first_day + 7 * places, "D")
        case CalendarUnit.MONTH:
            return np.datetime64(places, "M")
        case CalendarUnit.YEAR:
            return np.datetime64(places, "Y")


def _number_in_utc(calendar: Calendar, ts: Ints) -> Ints:
    """The window of each moment if the zone were UTC: at most one off."""
    moments = ts.astype("datetime64[us]")
    match calendar.unit:
        case CalendarUnit.DAY | CalendarUnit.WEEK:
            days = moments.astype("datetime64[D]").astype(np.int64)
            weeks = (days - _MONDAY - calendar.first_day) // 7
            places = days if calendar.unit is CalendarUnit.DAY else weeks
        case CalendarUnit.MONTH:
            places = moments.astype("datetime64[M]").astype(np.int64)
        case CalendarUnit.YEAR:
            places = moments.astype("datetime64[Y]").astype(np.int64)
    numbers: Ints = places // calendar.count
    return numbers
