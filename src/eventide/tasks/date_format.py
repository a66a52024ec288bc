"""Times as text by the patterns of Spark that mean the same to Arrow."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# By pattern: the unit below which it sees nothing, whether it begins with the year, and the rest as Arrow writes it.
PATTERNS = {
    "yyyy": ("year", True, ""),
    "yyyy-MM": ("month", True, "-%m"),
    "yyyy-MM-dd": ("day", True, "-%m-%d"),
    "yyyyMMdd": ("day", True, "%m%d"),
    "yyyy-MM-dd HH": ("hour", True, "-%m-%d %H"),
    "yyyy-MM-dd HH:mm": ("minute", True, "-%m-%d %H:%M"),
    "yyyy-MM-dd HH:mm:ss": ("second", True, "-%m-%d %H:%M:%S"),
    "MM-dd": ("day", False, "%m-%d"),
    "HH": ("hour", False, "%H"),
    "HH:mm": ("minute", False, "%H:%M"),
    "HH:mm:ss": ("second", False, "%H:%M:%S"),
}


def formatted(times: pa.Array, pattern: str) -> pa.Array:
    """Each moment that the pattern can tell apart is written once."""
    unit, has_year, rest = PATTERNS[pattern]
    moments = pc.floor_temporal(times.cast(pa.timestamp("us")), unit=unit).dictionary_encode()
    told = moments.dictionary
    texts = pc.strftime(told.cast(pa.timestamp("s")), format=rest)
    if has_year:
        years = pa.array([_year(year) for year in pc.year(told).to_pylist()], pa.string())
        texts = pc.binary_join_element_wise(years, texts, "")
    return texts.take(moments.indices)


def _year(year: int) -> str:
    """More than four digits have a sign."""
    digits = f"{abs(year):04d}"
    return f"-{digits}" if year < 0 else f"+{digits}" if year > 9999 else digits
