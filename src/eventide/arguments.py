"""Checks arguments from users and converts them to the form the database works with."""

from __future__ import annotations

import datetime as dt

from eventide.errors import OptionError

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def moment_micros(ts: int | dt.datetime) -> int:
    """Microseconds since the epoch, from an int of milliseconds or a datetime, which is UTC if it has no zone."""
    if isinstance(ts, bool) or not isinstance(ts, int | dt.datetime):
        raise OptionError(f"a watermark is an int of milliseconds or a datetime, not {ts!r}")
    if isinstance(ts, int):
        return ts * 1000
    moment = ts if ts.tzinfo else ts.replace(tzinfo=dt.UTC)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)
