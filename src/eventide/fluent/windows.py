"""Windows and intervals: what `FluentStream.window` and `FluentStream.join` take."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from eventide.errors import OptionError
from eventide.eventtime.durations import parse_duration
from eventide.fluent.expressions import Expression, fragment
from eventide.plan.windows import Slide, Window
from eventide.sql.dialect import tokenize
from eventide.sql.fragments import Assembled, Fragment, Literal, Part, checked
from eventide.sql.tokens import Span, calls
from eventide.sql.window_functions import window_of_call

Duration = str | dt.timedelta


@dataclass(frozen=True)
class WindowStep:
    """A window; made by `tumble`, `hop`, `cumulate`, `session` and `slide`."""

    window: Window
    function: str = ""
    lengths: tuple[Part, ...] = ()  # SIZE => '10 seconds', ...
    on: Fragment | None = None

    @property
    def call(self) -> tuple[Part, ...]:
        """The SQL of it, over a time column."""
        return (f"{self.function.upper()}(", self.on or "ts", ", ", *self.lengths, ")")

    @property
    def within(self) -> tuple[Part, ...]:
        """The SQL of it behind WITHIN, where no column is named."""
        if not self.function:
            raise OptionError("join(within): slide() is the window of one row", help="write within=interval('10 s')")
        if self.on is not None:
            raise OptionError(
                f"join(within): {self.function}(on=...) is for window()",
                help="a join is about the event time: say it with event_time()",
            )
        return (f"{self.function.upper()}(", *self.lengths, ")")


@dataclass(frozen=True)
class IntervalStep:
    """How much earlier and later the row of the right side may be; made by `interval`."""

    before: Literal
    after: Literal


def tumble(size: Duration, *, offset: Duration | None = None, on: Expression | None = None) -> WindowStep:
    """Windows of `size`, one after the other. `on` is a timestamp expression to use in place of the event time."""
    return _window("tumble", {"size": size, "offset": offset}, on)


def hop(size: Duration, slide: Duration, *, offset: Duration | None = None, on: Expression | None = None) -> WindowStep:
    """Windows of `size`, one beginning every `slide`."""
    return _window("hop", {"size": size, "slide": slide, "offset": offset}, on)


def cumulate(
    size: Duration, step: Duration, *, offset: Duration | None = None, on: Expression | None = None
) -> WindowStep:
    """Windows that grow by `step` up to `size`, and then begin anew."""
    return _window("cumulate", {"size": size, "step": step, "offset": offset}, on)


def session(gap: Duration, *, on: Expression | None = None) -> WindowStep:
    """Windows that end when no row came for longer than `gap`."""
    return _window("session", {"gap": gap}, on)


def slide(lookback: Duration, lookahead: Duration | None = None) -> WindowStep:
    """For each row the rows up to `lookback` before it and `lookahead` after it."""
    back = parse_duration(duration_text(lookback))
    if back == 0:
        raise OptionError("slide(lookback): the length of a window is above 0", help="write slide('10 seconds')")
    return WindowStep(Slide(back, None if lookahead is None else parse_duration(duration_text(lookahead))))


def interval(
    distance: Duration | None = None, *, before: Duration | None = None, after: Duration | None = None
) -> IntervalStep:
    """For joins: rows at most `distance` apart, or a right row up to `before` earlier and up to `after` later."""
    if (distance is None) == (before is None and after is None):
        raise OptionError(
            "interval() takes a distance, or before= and after=",
            help="write interval('10 seconds') or interval(before='1 hour', after='2 hours')",
        )
    if distance is not None:
        length = Literal("interval()", duration_text(distance))
        return IntervalStep(length, length)
    lengths = {"before": before, "after": after}
    return IntervalStep(
        *(
            Literal(f"interval({name})", "0 seconds" if length is None else duration_text(length))
            for name, length in lengths.items()
        )
    )


def duration_text(value: Duration) -> str:
    if isinstance(value, dt.timedelta):
        return f"{value // dt.timedelta(microseconds=1)} microseconds"
    if not isinstance(value, str):
        raise OptionError(f"a duration must be text or a timedelta, not {value!r}", help="write '10 seconds'")
    return value


def _window(function: str, lengths: Mapping[str, Duration | None], on: Expression | None) -> WindowStep:
    parts: list[Part] = []
    for name, length in lengths.items():
        if length is not None:
            parts += [
                f"{', ' if parts else ''}{name.upper()} => ",
                Literal(f"{function}({name})", duration_text(length)),
            ]
    time = checked(fragment(f"{function}(on)", on)) if on is not None else None
    text = Assembled(f"{function}()", f"{function.upper()}(", time or "ts", ", ", *parts, ")")
    with text.errors():
        call = next(calls(Span(text.text, tuple(tokenize(text.text)))))
        return WindowStep(window_of_call(call).window, function, tuple(parts), time)
