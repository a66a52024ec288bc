"""Windows of the calendar in the reference model: a row is in the day, week, month or year that its local date says."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

from eventide.plan.physical import Physical
from eventide.plan.windows import Calendar, CalendarUnit, Tumble
from eventide.testing.operators import Panes
from eventide.testing.values import micros_of, moment


class CalendarPanes(Panes):
    def __init__(self, physical: Physical, calendar: Calendar) -> None:
        super().__init__(physical, Tumble(calendar.longest))
        self._calendar, self._zone = calendar, ZoneInfo(calendar.zone)

    def windows(self, time: int) -> list[tuple[int, int]]:
        first, behind = self._dates(moment(time).astimezone(self._zone).date())
        return [(self._midnight(first), self._midnight(behind))]

    def _dates(self, date: dt.date) -> tuple[dt.date, dt.date]:
        """The first date of the window that holds this one, and that of the next window."""
        count, epoch = self._calendar.count, dt.date(1970, 1, 1)
        match self._calendar.unit:
            case CalendarUnit.DAY | CalendarUnit.WEEK:
                is_day = self._calendar.unit is CalendarUnit.DAY
                length = count if is_day else 7 * count
                base = epoch if is_day else dt.date(1969, 12, 29) + dt.timedelta(days=self._calendar.first_day)
                first = date - dt.timedelta(days=(date - base).days % length)
                return first, first + dt.timedelta(days=length)
            case CalendarUnit.MONTH:
                months = (date.year - 1970) * 12 + date.month - 1
                return _month(months - months % count), _month(months - months % count + count)
            case CalendarUnit.YEAR:
                year = date.year - (date.year - 1970) % count
                return dt.date(year, 1, 1), dt.date(year + count, 1, 1)

    def _midnight(self, date: dt.date) -> int:
        return micros_of(dt.datetime(date.year, date.month, date.day, tzinfo=self._zone))


def _month(months: int) -> dt.date:
    return dt.date(1970 + months // 12, months % 12 + 1, 1)
