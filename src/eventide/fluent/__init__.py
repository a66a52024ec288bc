"""The fluent API: see `builder`."""

from eventide.fluent.builder import FluentStream, stream
from eventide.fluent.origins import Origin
from eventide.fluent.windows import IntervalStep, WindowStep, cumulate, hop, interval, session, slide, tumble

__all__ = [
    "FluentStream",
    "IntervalStep",
    "Origin",
    "WindowStep",
    "cumulate",
    "hop",
    "interval",
    "session",
    "slide",
    "stream",
    "tumble",
]
