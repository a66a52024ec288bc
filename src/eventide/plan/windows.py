"""What a window is: the family of types that plans, kernels and the reference model share. Microseconds throughout.

What is done in a window (aggregate at its close, aggregate early, join) is apart from it: see `kernels.logic`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Tumble:
    size: int
    offset: int = 0


@dataclass(frozen=True)
class Hop:
    size: int
    slide: int
    offset: int = 0


@dataclass(frozen=True)
class Cumulate:
    """[start, start + step), [start, start + 2 * step), ... up to [start, start + size), and anew from there."""

    size: int
    step: int
    offset: int = 0


class CalendarUnit(Enum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


@dataclass(frozen=True)
class Calendar:
    """`count` days, weeks, months or years of the clocks of `zone`; they differ in length.

    They are counted from the one that holds 1970-01-01. Weeks begin on `first_day`, 0 being Monday.
    """

    unit: CalendarUnit
    count: int
    zone: str
    first_day: int = 0

    @property
    def longest(self) -> int:
        """More than any such window lasts, in microseconds."""
        days = {CalendarUnit.DAY: 1, CalendarUnit.WEEK: 7, CalendarUnit.MONTH: 31, CalendarUnit.YEAR: 366}[self.unit]
        return (days * self.count + 2) * 86_400_000_000


@dataclass(frozen=True)
class Session:
    """Events of a group that are no more than `gap` apart."""

    gap: int


@dataclass(frozen=True)
class Slide:
    """[t - lookback, t + lookahead] around every row, both ends included; no `lookahead`: answered at once."""

    lookback: int
    lookahead: int | None = None


@dataclass(frozen=True)
class Unbounded:
    """No window: all rows of a group, until the watermark is `ttl` past its newest one; None: for ever."""

    ttl: int | None = None


PanedWindow = Tumble | Hop | Cumulate  # windows that do not depend on the rows
BoundedWindow = PanedWindow | Calendar | Session | Slide  # what SQL can name
Window = BoundedWindow | Unbounded


# Frames: the rows that come before a row, and the row itself, over which a running aggregate is taken.


@dataclass(frozen=True)
class RangeFrame:
    """Rows up to `preceding` older, both ends included, and all of the same time; None: all that are not later."""

    preceding: int | None = None


@dataclass(frozen=True)
class RowsFrame:
    """As many rows before it as `preceding` says; None: all."""

    preceding: int | None = None


@dataclass(frozen=True)
class LagFrame(RowsFrame):
    """The one row that is `preceding` rows before it, if there is one."""


Frame = RangeFrame | RowsFrame
