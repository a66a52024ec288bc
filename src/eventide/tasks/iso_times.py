"""ISO 8601 times and dates in columns of text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TIME = pa.timestamp("us", tz="UTC")
_ISO = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$"
_ISO_DATE = r"^[1-9]\d{3}-\d\d-\d\d$"
_ZONE = r"(Z|[+-]\d\d:\d\d)$"
_FEW = 64  # values that are not worth loading compiled code


def iso_times(text: pa.Array) -> pa.Array | None:
    """ISO 8601 in its plain form, with or without a zone; None unless every value has it. Without a zone: UTC."""
    if len(text) > _FEW and pa.types.is_string(text.type):
        return _compiled(text)
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


def _compiled(text: pa.Array) -> pa.Array | None:
    """The same by compiled code, whatever zones there are."""
    from eventide.tasks.compiled.iso_text import all_iso_micros  # half a second that a driver need not wait

    _, offsets, data = text.buffers()
    if data is None:
        return pa.nulls(len(text), _TIME)
    micros = np.zeros(len(text), np.int64)
    nulls = np.asarray(text.is_null()) if text.null_count else None
    valid = None if nulls is None else (~nulls).view(np.uint8)
    begin, valid_at = offsets.address + 4 * text.offset, 0 if valid is None else valid.ctypes.data
    if not all_iso_micros(data.address, begin, valid_at, len(text), micros.ctypes.data):
        return None
    return pa.array(micros, mask=nulls).view(_TIME)
