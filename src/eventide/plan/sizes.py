"""Sizes in bytes, as options say them."""

from __future__ import annotations

import re

from eventide.errors import OptionError

_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}
_SIZE = re.compile(r"\s*(\d{1,9})\s*([kmg]?b)\s*", re.IGNORECASE)


def parse_size(text: str) -> int:
    """The number of bytes.

    >>> parse_size("16 MB")
    16777216
    """
    found = _SIZE.fullmatch(text)
    if found is None or int(found[1]) == 0:
        raise OptionError(f"'{text}' is not a size", help="write a number above 0 and B, KB, MB or GB: '16 MB'")
    return int(found[1]) * _UNITS[found[2].lower()]
