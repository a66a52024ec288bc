"""What there is to say of the tables that a stream looks up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from eventide.eventtime.durations import format_duration

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECOND = 1_000_000


def table_lines(tables: Mapping[str, Mapping[str, Any]], now: int) -> list[str]:
    """A line for each table that could not be read anew when it was last tried; `now` is in microseconds."""
    return [_stale(name, figures, now) for name, figures in tables.items() if figures["refresh_error"] is not None]


def _stale(name: str, figures: Mapping[str, Any], now: int) -> str:
    times = figures["refresh_failures"]
    tried = "once" if times == 1 else f"{times} times in a row"
    failed = f"The table {name} could not be read anew, {tried}: {figures['refresh_error']}."
    if figures["read_at"] is None:
        return f"{failed} There is no version of it yet."
    read_at = figures["read_at"] * 1000
    moment = (_EPOCH + dt.timedelta(microseconds=read_at)).strftime("%Y-%m-%d %H:%M:%S")
    age = format_duration(max(now - read_at, 0) // _SECOND * _SECOND)
    return f"{failed} Version {figures['version']}, read at {moment} ({age} ago), stays in use."
