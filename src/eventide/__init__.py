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
    from eventide.fluent import FluentStream, cumulate, hop, interval, session, slide, stream, table, tumble
    from eventide.kernels.aggregates import aggregates
    from eventide.notebook.magic import load_ipython_extension
    from eventide.result import Result
    from eventide.spark.frames import configure

__version__ = "0.3.8"
__all__ = [
    "Database",
    "EventideError",
    "FluentStream",
    "Result",
    "__version__",
    "aggregates",
    "configure",
    "connect",
    "cumulate",
    "event_time_types",
    "hop",
    "interval",
    "load_ipython_extension",
    "session",
    "slide",
    "stream",
    "table",
    "tumble",
]

_HOMES = {
    "Database": "eventide.database",
    "EventideError": "eventide.errors",
    "FluentStream": "eventide.fluent",
    "Result": "eventide.result",
    "aggregates": "eventide.kernels.aggregates",
    "configure": "eventide.spark.frames",
    "connect": "eventide.database",
    "cumulate": "eventide.fluent",
    "event_time_types": "eventide.eventtime.registry",
    "hop": "eventide.fluent",
    "interval": "eventide.fluent",
    "load_ipython_extension": "eventide.notebook.magic",
    "session": "eventide.fluent",
    "slide": "eventide.fluent",
    "stream": "eventide.fluent",
    "table": "eventide.fluent",
    "tumble": "eventide.fluent",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eventide' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
