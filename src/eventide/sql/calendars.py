"""Windows of the calendar in SQL: TUMBLE(ts, INTERVAL '1' DAY, TIME ZONE 'Europe/Berlin'), months, weeks, years."""

from __future__ import annotations

import re
from collections.abc import Sequence
from zoneinfo import ZoneInfo

from sqlglot.tokenizer_core import TokenType

from eventide.errors import suggest
from eventide.plan.windows import Calendar, CalendarUnit
from eventide.sql.tokens import Span, word

_UNITS = {
    "DAY": (CalendarUnit.DAY, 1),
    "WEEK": (CalendarUnit.WEEK, 1),
    "MONTH": (CalendarUnit.MONTH, 1),
    "QUARTER": (CalendarUnit.MONTH, 3),
    "YEAR": (CalendarUnit.YEAR, 1),
}
_DIFFER_IN_LENGTH = (CalendarUnit.MONTH, CalendarUnit.YEAR)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MOST = 10_000
_TEXT = re.compile(r"\s*(\d+)\s*([A-Za-z]*)\s*")
_EXAMPLE = "TUMBLE(ts, INTERVAL '1' DAY, TIME ZONE 'Europe/Berlin')"


def calendar_of(function: str, arguments: Sequence[Span], span: Span) -> Calendar | None:
    """The window that the arguments behind the time spell, if it is one of the calendar: it has a time zone or a first
    day, or months and years, which differ in length.
    """
    zone = next((part for part in arguments if _begins(part, "TIME", "ZONE")), None)
    first = next((part for part in arguments if _begins(part, "FIRST", "DAY")), None)
    rest = [part for part in arguments if part is not zone and part is not first]
    found = _length(rest[0]) if rest else None
    is_calendar = zone is not None or first is not None or (found is not None and found[0] in _DIFFER_IN_LENGTH)
    if not is_calendar:
        return None
    if function != "tumble":
        raise span.error(f"{function.upper()} has no windows of the calendar", f"write {_EXAMPLE}")
    if found is None:
        raise (rest[0] if rest else span).error(
            "a time zone is for whole days, weeks, months and years",
            f"write {_EXAMPLE}; hours are the same everywhere, and begin where an offset says",
        )
    if len(rest) > 1:
        raise rest[1].error(
            "a window of the calendar takes a time zone and a first day, and no more", f"write {_EXAMPLE}"
        )
    unit, count = found
    if not 0 < count <= _MOST:
        raise rest[0].error(f"a window of the calendar has 1 to {_MOST:,} of its unit", f"write {_EXAMPLE}")
    if first is not None and unit is not CalendarUnit.WEEK:
        raise first.error("a first day is for weeks", "leave it out")
    return Calendar(unit, count, "UTC" if zone is None else _zone(zone), 0 if first is None else _first_day(first))


def _begins(argument: Span, *words: str) -> bool:
    return len(argument.tokens) > len(words) and all(
        word(token) == text for token, text in zip(argument.tokens, words, strict=False)
    )


def _length(span: Span) -> tuple[CalendarUnit, int] | None:
    """(unit, number) of INTERVAL '1' DAY, INTERVAL 1 DAY or '1 day'; None for what is no such interval."""
    tokens = span.tokens[1:] if word(span.tokens[0]) == "INTERVAL" else span.tokens
    text = " ".join(token.text for token in tokens)
    found = _TEXT.fullmatch(text)
    name = "" if found is None else found[2].upper().removesuffix("S")
    if found is None or name not in _UNITS or len(tokens) > 2:
        return None
    unit, times = _UNITS[name]
    return unit, int(found[1]) * times


def _string(argument: Span, example: str) -> str:
    last = argument.tokens[-1]
    if len(argument.tokens) != 3 or last.token_type != TokenType.STRING:
        raise argument.error("this takes a text", f"write {example}")
    return last.text


def _zone(argument: Span) -> str:
    name = _string(argument, "TIME ZONE 'Europe/Berlin'")
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise argument.error(f"there is no time zone {name}", "write a name such as Europe/Berlin or UTC") from None
    return name


def _first_day(argument: Span) -> int:
    name = _string(argument, "FIRST DAY 'sunday'")
    if name.lower() not in _DAYS:
        raise argument.error(f"there is no day {name}", suggest(name.lower(), _DAYS))
    return _DAYS.index(name.lower())
