"""ISO 8601 times and dates read by compiled code; see `machine_code` for what an address is."""

from __future__ import annotations

import numpy as np

from eventide.tasks.compiled.machine_code import byte_at, compiled, half_at, put_number

NO_TIME = -(2**63)  # is no time that anybody can write

_DAYS_OF_MONTHS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_DAYS_BEFORE_1970 = 719_468
_NONE_OF_TWO = -100_000  # so far below zero that no other digits make a year of it
_MOST_HOURS_OFF = 17  # of a zone, so that no minutes take it beyond the 18 that Spark allows
_ZERO, _NINE, _DOT, _COLON, _SPACE, _PLUS, _MINUS, _LARGE_T, _LARGE_Z = b"09.: +-TZ"


@compiled
def all_iso_micros(text: int, offsets: int, valid: int, count: int, micros: int) -> bool:
    """Of so many texts of a column, but for those that are not `valid` (a byte each, or no address: all are). Whether
    each is a time.
    """
    for number in range(count):
        if valid == 0 or byte_at(valid, number):
            value = iso_micros(text, half_at(offsets, number), half_at(offsets, number + 1))
            if value == NO_TIME:
                return False
            put_number(micros, number, value)
    return True


@compiled
def iso_micros(text: int, at: int, end: int) -> int:
    """Microseconds since 1970 of `2026-01-31T12:30:00.123456+01:00`, or NO_TIME. Fraction and zone may be missing."""
    if end - at < 19:
        return NO_TIME
    days = _days(text, at)
    hour, minute, second = _two(text, at + 11), _two(text, at + 14), _two(text, at + 17)
    if days == NO_TIME or not 0 <= hour <= 23 or not 0 <= minute <= 59 or not 0 <= second <= 59:
        return NO_TIME
    between = byte_at(text, at + 10)
    if between not in (_LARGE_T, _SPACE) or byte_at(text, at + 13) != _COLON or byte_at(text, at + 16) != _COLON:
        return NO_TIME
    fraction, at = _fraction(text, at + 19, end)
    offset = _zone_offset(text, at, end)
    if offset == NO_TIME:
        return NO_TIME
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000 + fraction - offset


@compiled
def iso_date(text: int, at: int, end: int) -> int:
    """Days since 1970 of `2026-01-31`, or NO_TIME; of years with four digits, without zeros in front."""
    return _days(text, at) if end - at == 10 and byte_at(text, at) != _ZERO else NO_TIME


@compiled
def _days(text: int, at: int) -> int:
    year, month, day = _two(text, at) * 100 + _two(text, at + 2), _two(text, at + 5), _two(text, at + 8)
    if byte_at(text, at + 4) != _MINUS or byte_at(text, at + 7) != _MINUS:
        return NO_TIME
    if year < 1 or not 1 <= month <= 12 or day < 1:
        return NO_TIME
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _DAYS_OF_MONTHS[month] + (month == 2 and is_leap):
        return NO_TIME
    years, months = year - (month <= 2), (month + 9) % 12  # from March on, so that leap days come last
    days = years * 365 + years // 4 - years // 100 + years // 400 + (months * 153 + 2) // 5 + day - 1
    return days - _DAYS_BEFORE_1970


@compiled
def _two(text: int, at: int) -> int:
    """The number that two digits make, or one far below zero."""
    tens, ones = byte_at(text, at) - _ZERO, byte_at(text, at + 1) - _ZERO
    return tens * 10 + ones if 0 <= tens <= 9 and 0 <= ones <= 9 else _NONE_OF_TWO


@compiled
def _fraction(text: int, at: int, end: int) -> tuple[int, int]:
    """Microseconds, and the place behind their digits; if these are not one to six, the place before them."""
    if at == end or byte_at(text, at) != _DOT:
        return 0, at
    dot, micros, unit = at, 0, 100_000
    at += 1
    while at < end and _ZERO <= byte_at(text, at) <= _NINE:
        micros += (byte_at(text, at) - _ZERO) * unit
        unit //= 10
        at += 1
    return micros, at if 2 <= at - dot <= 7 else dot


@compiled
def _zone_offset(text: int, at: int, end: int) -> int:
    """Microseconds, of what stands between a time and the end of its text, or NO_TIME."""
    if at == end or (byte_at(text, at) == _LARGE_Z and at + 1 == end):
        return 0
    if end - at != 6 or byte_at(text, at) not in (_PLUS, _MINUS) or byte_at(text, at + 3) != _COLON:
        return NO_TIME
    hours, minutes = _two(text, at + 1), _two(text, at + 4)
    if not 0 <= hours <= _MOST_HOURS_OFF or not 0 <= minutes <= 59:
        return NO_TIME
    offset = (hours * 60 + minutes) * 60_000_000
    return offset if byte_at(text, at) == _PLUS else -offset
