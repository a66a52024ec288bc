"""The fields of times, such as year and hour, in UTC: the time zone of every stream.

Years are those of Spark's calendar, which is Gregorian at all times and knows years before 1 and after 9999.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Days = npt.NDArray[np.datetime64]
_Numbers = npt.NDArray[np.int64]
_SECOND, _MINUTE, _HOUR, _DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000


def _since(days: _Days, unit: str) -> _Numbers:
    """The days since the month or year began."""
    start: _Days = days.astype(f"datetime64[{unit}]").astype("datetime64[D]")
    return days.astype(np.int64) - start.astype(np.int64)


def _months(days: _Days) -> _Numbers:
    return days.astype("datetime64[M]").astype(np.int64) % 12


_OF_DAYS: Mapping[str, Callable[[_Days], _Numbers]] = {
    "year": lambda days: days.astype("datetime64[Y]").astype(np.int64) + 1970,
    "quarter": lambda days: _months(days) // 3 + 1,
    "month": lambda days: _months(days) + 1,
    "day": lambda days: _since(days, "M") + 1,
    "dayofyear": lambda days: _since(days, "Y") + 1,
    "dayofweek": lambda days: (days.astype(np.int64) + 4) % 7 + 1,  # Sunday is 1, and the first day was a Thursday
}
_WITHIN = {"hour": (_DAY, _HOUR), "minute": (_HOUR, _MINUTE), "second": (_MINUTE, _SECOND)}
FIELDS = (*_OF_DAYS, *_WITHIN)


def _field(name: str) -> Callable[[pa.DataType, Any], Any]:
    def apply(type: pa.DataType, times: Any) -> Any:
        if not isinstance(times, pa.Array):
            return apply(type, pa.repeat(times, 1))[0]
        micros = times.cast(pa.int64()).fill_null(0).to_numpy()
        if name in _WITHIN:
            whole, part = _WITHIN[name]
            found = micros % whole // part
        else:
            found = _OF_DAYS[name]((micros // _DAY).astype("datetime64[D]"))
        return pa.array(found.astype(np.int32), type, mask=np.asarray(times.is_null()))

    return apply


FUNCTIONS: Mapping[str, Callable[..., Any]] = {name: _field(name) for name in FIELDS}
