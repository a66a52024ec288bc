"""ISO 8601 times and dates in columns of text."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_TIME = pa.timestamp("us", tz="UTC")
_ISO = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$"
_ISO_DATE = r"^[1-9]\d{3}-\d\d-\d\d$"
_ZONE = r"(Z|[+-]\d\d:\d\d)$"
_SHAPE = "0000-00-00T00:00:00.000000"  # digits, and what stands between them
_DAYS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


def iso_times(text: pa.Array) -> pa.Array | None:
    """ISO 8601 in its plain form, with or without a zone; None unless every value has it. Without a zone: UTC."""
    times = _alike(text)
    if times is not None:
        return times
    if not pc.all(pc.match_substring_regex(text, _ISO), skip_nulls=True, min_count=0).as_py():
        return None
    zoned = pc.fill_null(pc.match_substring_regex(text, _ZONE), True)
    try:
        if pc.all(zoned).as_py():
            return text.cast(_TIME)
        if not pc.any(zoned.filter(text.is_valid())).as_py():
            return text.cast(pa.timestamp("us")).cast(_TIME)
    except pa.ArrowInvalid:
        return None
    return None


def iso_dates(text: pa.Array) -> pa.Array | None:
    """Dates as `2026-01-31`; None unless every value is one."""
    if not pc.all(pc.match_substring_regex(text, _ISO_DATE), skip_nulls=True, min_count=0).as_py():
        return None
    try:
        return text.cast(pa.date32())
    except pa.ArrowInvalid:
        return None


def _alike(text: pa.Array) -> pa.Array | None:
    """Times of one length and in UTC, as machines write them; None if they are not, or not all are right."""
    if len(text) == 0 or text.null_count or not pa.types.is_string(text.type):
        return None
    offsets = np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + len(text) + 1]
    size = int(offsets[1] - offsets[0])
    if not 19 <= size <= len(_SHAPE) + 1 or (np.diff(offsets) != size).any():
        return None
    data = np.frombuffer(text.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].reshape(len(text), size)
    if data[0, -1] == ord("Z"):
        if (data[:, -1] != ord("Z")).any():
            return None
        data = data[:, :-1]
    length = data.shape[1]
    if length != 19 and not 21 <= length <= len(_SHAPE):
        return None
    micros = _micros(data)
    return None if micros is None else pa.array(micros).view(_TIME)


def _micros(data: Bytes) -> Numbers | None:
    """Of rows of bytes that should have the shape; None if one has not."""
    length = data.shape[1]
    digits = data - np.uint8(ord("0"))
    for place, sign in enumerate(_SHAPE[:length]):
        column = data[:, place]
        if sign == "0":
            right = digits[:, place] <= 9
        elif sign == "T":
            right = (column == ord("T")) | (column == ord(" "))
        else:
            right = column == ord(sign)
        if not right.all():
            return None
    seconds = _number(digits, 11, 13) * 3600 + _number(digits, 14, 16) * 60 + _number(digits, 17, 19)
    if (digits[:, 11:13] > [2, 9]).any() or (_number(digits, 11, 13) > 23).any():
        return None
    if (digits[:, 14] > 5).any() or (digits[:, 17] > 5).any():
        return None
    days = _days(digits)
    if days is None:
        return None
    fraction = _number(digits, 20, length) * 10 ** (len(_SHAPE) - length) if length > 20 else 0
    return (days * 86_400 + seconds) * 1_000_000 + fraction


def _number(digits: Bytes, first: int, end: int) -> Numbers:
    value = digits[:, first].astype(np.int64)
    for place in range(first + 1, end):
        value = value * 10 + digits[:, place]
    return value


def _days(digits: Bytes) -> Numbers | int | None:
    """Since 1970; None if one is no date."""
    if (digits[:, :10] == digits[0, :10]).all():
        digits = digits[:1]
    year, month, day = _number(digits, 0, 4), _number(digits, 5, 7), _number(digits, 8, 10)
    if (year < 1).any() or (month < 1).any() or (month > 12).any() or (day < 1).any():
        return None
    is_leap = (month == 2) & (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    if (day > _DAYS[month] + is_leap).any():
        return None
    years, months = np.where(month > 2, year, year - 1), (month + 9) % 12  # from March on, so that leap days come last
    days: Numbers = years * 365 + years // 4 - years // 100 + years // 400 + (months * 153 + 2) // 5 + day - 719_469
    return days
