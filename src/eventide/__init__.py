"""Eventide: event-time streaming SQL and Python on Apache Spark.

The public names are loaded when they are first used: Spark's Python workers import this package in every process, and
need little of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eventide.database import Database, connect
    from eventide.errors import EventideError
    from eventide.eventtime.registry import event_time_types
    from eventide.result import Result

__all__ = ["Database", "EventideError", "Result", "connect", "event_time_types"]

_HOMES = {
    "Database": "eventide.database",
    "EventideError": "eventide.errors",
    "Result": "eventide.result",
    "connect": "eventide.database",
    "event_time_types": "eventide.eventtime.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eventide' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
