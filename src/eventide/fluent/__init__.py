"""The fluent API: see `builder`."""

from eventide.fluent.builder import FluentStream, stream
from eventide.fluent.origins import Origin
from eventide.fluent.tables import FluentTable, table
from eventide.fluent.windows import IntervalStep, WindowStep, cumulate, hop, interval, session, slide, tumble

__all__ = [
    "FluentStream",
    "FluentTable",
    "IntervalStep",
    "Origin",
    "WindowStep",
    "cumulate",
    "hop",
    "interval",
    "session",
    "slide",
    "stream",
    "table",
    "tumble",
]
