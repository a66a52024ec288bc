"""Durations as users write them, as microseconds and back.

A duration has a fixed length, so months and years are errors. The engine's finest unit is the microsecond; a duration
that is not a whole number of microseconds is an error, not rounded.
"""

from __future__ import annotations

import re
from fractions import Fraction

from eventide.errors import OptionError, shortened

MICROSECOND = 1
MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

_SPELLINGS: dict[Fraction, tuple[str, ...]] = {
    Fraction(1, 1000): ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
    Fraction(MICROSECOND): ("us", "µs", "micro", "micros", "microsecond", "microseconds"),
    Fraction(MILLISECOND): ("ms", "milli", "millis", "millisecond", "milliseconds"),
    Fraction(SECOND): ("s", "sec", "secs", "second", "seconds"),
    Fraction(MINUTE): ("m", "min", "mins", "minute", "minutes"),
    Fraction(HOUR): ("h", "hr", "hrs", "hour", "hours"),
    Fraction(DAY): ("d", "day", "days"),
    Fraction(WEEK): ("w", "week", "weeks"),
}
UNITS: dict[str, Fraction] = {word: micros for micros, words in _SPELLINGS.items() for word in words}
_CALENDAR_UNITS = frozenset({"month", "months", "mon", "mons", "year", "years", "y", "yr", "quarter", "quarters"})

_PART = re.compile(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([A-Za-zµ]+)")
_ISO = re.compile(
    r"P(?:(?P<w>\d+(?:\.\d+)?)W)?(?:(?P<d>\d+(?:\.\d+)?)D)?(?:T(?:(?P<h>\d+(?:\.\d+)?)H)?(?:(?P<m>\d+(?:\.\d+)?)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
LONGEST = 3_652_500 * DAY  # ten thousand years: sums of a few of them and of any time fit in 64 bits
_MOST_DIGITS = 30
_HELP = "write a number and a unit, such as '5 seconds', '30s', '1 minute 30 seconds' or 'PT5S'"


def parse_duration(text: str, signed: bool = False) -> int:
    """Microseconds in `text`; an `OptionError` that says what to write if it is not a duration.

    A duration is zero or more, unless it is `signed`.
    """
    stripped = text.strip()
    if re.search(rf"\d{{{_MOST_DIGITS + 1}}}", stripped):
        raise OptionError(f"'{shortened(text)}' is not a duration: a number has over {_MOST_DIGITS} digits", help=_HELP)
    total = _parse_iso(stripped) if stripped[:1] in ("P", "p") else _parse_parts(stripped)
    if total is None:
        raise OptionError(f"'{text}' is not a duration", help=_HELP)
    if total < 0 and not signed:
        raise OptionError(f"the duration '{text}' is negative", help="write a duration of zero or more")
    if abs(total) > LONGEST:
        raise OptionError(
            f"the duration '{text}' is longer than ten thousand years", help="the longest is '3652500 days'"
        )
    if total.denominator != 1:
        raise OptionError(
            f"the duration '{text}' is finer than a microsecond",
            help="write whole microseconds, such as '1 microsecond'",
        )
    return int(total)


def unit_micros(word: str) -> Fraction:
    """The length of one unit, such as `SECOND` or `ms`, in microseconds."""
    lowered = word.lower()
    if lowered in _CALENDAR_UNITS:
        raise OptionError(
            f"a {lowered.removesuffix('s')} has no fixed length",
            help="write days, weeks or a shorter unit, such as INTERVAL '30' DAY",
        )
    if lowered not in UNITS:
        raise OptionError(
            f"'{word}' is not a unit of time",
            help="units: nanosecond, microsecond, millisecond, second, minute, hour, day, week",
        )
    return UNITS[lowered]


def format_duration(micros: int) -> str:
    """`90_000_000` as '1m 30s': largest units first, zero units left out."""
    if micros == 0:
        return "0s"
    sign, rest = ("-", -micros) if micros < 0 else ("", micros)
    parts = []
    for length, unit in (
        (DAY, "d"),
        (HOUR, "h"),
        (MINUTE, "m"),
        (SECOND, "s"),
        (MILLISECOND, "ms"),
        (MICROSECOND, "us"),
    ):
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count}{unit}")
    return sign + " ".join(parts)


def _parse_parts(text: str) -> Fraction | None:
    """'1 minute 30 seconds' in microseconds, or None if `text` is not made of such pairs."""
    if text in ("0", "+0", "-0"):
        return Fraction(0)
    total, position = Fraction(0), 0
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            return None
        total += Fraction(match[1]) * unit_micros(match[2])
        position = match.end()
    return total if position else None


def _parse_iso(text: str) -> Fraction | None:
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()):
        return None
    return sum((Fraction(value) * UNITS[unit] for unit, value in match.groupdict().items() if value), Fraction(0))
