"""Windows of the calendar, by their numbers, against the local date of each moment."""

from __future__ import annotations

import datetime as dt
from random import Random
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from eventide.kernels.windows.calendar import calendar_grid
from eventide.plan.windows import Calendar, CalendarUnit

HOUR = 3_600_000_000
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "Pacific/Apia", "Africa/Cairo", "America/Havana")


def micros(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


def local_date(ts: int, zone: str) -> dt.date:
    return (EPOCH + dt.timedelta(microseconds=ts)).astimezone(ZoneInfo(zone)).date()


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("unit", list(CalendarUnit))
def test_a_moment_is_in_the_window_of_its_local_date(zone: str, unit: CalendarUnit) -> None:
    random = Random(1)
    grid = calendar_grid(Calendar(unit, 1, zone), 0)
    ts = np.array([random.randrange(-30 * 365 * 24, 70 * 365 * 24) * HOUR + random.randrange(HOUR) for _ in range(500)])
    windows = grid.slices_of(ts)
    starts, ends = grid.starts(windows), grid.ends(windows)
    assert ((starts <= ts) & (ts < ends)).all()
    assert (grid.slices_of(starts) == windows).all()
    assert (grid.slices_of(ends - 1) == windows).all()
    for moment, start, last in zip(ts.tolist(), starts.tolist(), (ends - 1).tolist(), strict=True):
        dates = [local_date(each, zone) for each in (start, moment, last)]
        keys = {
            CalendarUnit.DAY: lambda date: date,
            CalendarUnit.WEEK: lambda date: date.isocalendar()[:2],
            CalendarUnit.MONTH: lambda date: (date.year, date.month),
            CalendarUnit.YEAR: lambda date: date.year,
        }[unit]
        assert len({keys(date) for date in dates}) == 1


def test_days_of_23_and_25_hours() -> None:
    grid = calendar_grid(Calendar(CalendarUnit.DAY, 1, "Europe/Berlin"), 0)
    noons = np.array(
        [micros(dt.datetime(2026, 3, 29, 12, tzinfo=dt.UTC)), micros(dt.datetime(2026, 10, 25, 12, tzinfo=dt.UTC))]
    )
    windows = grid.slices_of(noons)
    assert ((grid.ends(windows) - grid.starts(windows)) // HOUR).tolist() == [23, 25]


def test_a_day_that_a_zone_has_skipped_holds_nothing() -> None:
    grid = calendar_grid(Calendar(CalendarUnit.DAY, 1, "Pacific/Apia"), 0)
    before, after = (micros(dt.datetime(2011, 12, 30, hour, tzinfo=dt.UTC)) for hour in (9, 10))
    assert np.diff(grid.slices_of(np.array([before, after]))).tolist() == [2]


def test_several_months_and_the_window_that_the_watermark_has_closed() -> None:
    grid = calendar_grid(Calendar(CalendarUnit.MONTH, 3, "UTC"), lateness=HOUR)
    april = micros(dt.datetime(2026, 4, 1, tzinfo=dt.UTC))
    first = int(grid.slices_of(np.array([april - 1]))[0])
    assert grid.closes_at(first) == april + HOUR
    assert (grid.last_closed(april + HOUR), grid.last_closed(april + HOUR - 1)) == (first, first - 1)


def test_times_beyond_the_years_of_the_calendar_have_windows() -> None:
    grid = calendar_grid(Calendar(CalendarUnit.DAY, 1, "Europe/Berlin"), 0)
    far = np.array([-62_135_596_800_000_000, 253_402_300_799_999_999])
    windows = grid.slices_of(far)
    assert ((grid.starts(windows) <= far) & (far < grid.ends(windows))).all()
