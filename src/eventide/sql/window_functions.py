"""Every spelling of a window, turned into one of the windows of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot.tokenizer_core import TokenType

from eventide.eventtime.durations import DAY, HOUR, LONGEST, MILLISECOND, MINUTE, SECOND, format_duration
from eventide.plan.windows import BoundedWindow, Cumulate, Hop, PanedWindow, Session, Slide, Tumble
from eventide.sql.calendars import calendar_of
from eventide.sql.interval_literals import interval_of
from eventide.sql.scope import single_reference
from eventide.sql.syntax import WindowClause, WindowTable
from eventide.sql.tokens import Call, Span, split_commas, word


@dataclass(frozen=True, eq=False)
class WindowCall:
    """A window as written; `time` is None for the spellings that take the sources' event time."""

    window: BoundedWindow
    time: Span | None
    span: Span


@dataclass(frozen=True)
class _Signature:
    """Parameters behind the time argument, in order; `required` of them must be given."""

    parameters: tuple[str, ...]
    required: int
    example: str


_SIGNATURES: Mapping[str, _Signature] = {
    "tumble": _Signature(("size", "offset"), 1, "TUMBLE(ts, INTERVAL '10' SECOND)"),
    "hop": _Signature(
        ("slide", "size", "offset"),
        2,
        "HOP(ts, slide, size), such as HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
    ),
    "cumulate": _Signature(
        ("step", "size", "offset"),
        2,
        "CUMULATE(ts, step, size), such as CUMULATE(ts, INTERVAL '1' MINUTE, INTERVAL '1' HOUR)",
    ),
    "session": _Signature(("gap",), 1, "SESSION(ts, INTERVAL '5' SECOND)"),
    "window": _Signature(
        ("size", "slide", "offset"), 1, "window(ts, '10 seconds') or window(ts, '10 seconds', '5 seconds')"
    ),
    "session_window": _Signature(("gap",), 1, "session_window(ts, '5 seconds')"),
}
_ARGUMENT_NAMES: Mapping[str, str] = {
    "windowduration": "size",
    "slideduration": "slide",
    "starttime": "offset",
    "gapduration": "gap",
    "size": "size",
    "slide": "slide",
    "step": "step",
    "offset": "offset",
    "gap": "gap",
}
_TIME_NAMES = frozenset({"ts", "time", "timecol", "timecolumn", "on"})
_SEED_UNITS: Mapping[str, int] = {"ms": MILLISECOND, "ss": SECOND, "mi": MINUTE, "hh": HOUR, "dd": DAY}
_COLUMNLESS = ("tumblingwindow", "slidingwindow")

WINDOW_FUNCTIONS = frozenset({*_SIGNATURES, *_COLUMNLESS})
# TUMBLE_START(ts, size) and its family: the function whose arguments they repeat, and the column that they give.
BOUND_FUNCTIONS: Mapping[str, tuple[str, str]] = {
    f"{function}_{bound}": (function, f"window_{bound}")
    for function in ("tumble", "hop", "session")
    for bound in ("start", "end")
}
UNSUPPORTED_BOUNDS = frozenset(
    f"{function}_{suffix}" for function in ("tumble", "hop", "session") for suffix in ("rowtime", "proctime")
)


def window_of_call(call: Call, function: str | None = None) -> WindowCall:
    """The window that a call spells; `function` if the call only repeats another one's arguments, as TUMBLE_START
    does.
    """
    name = function or call.name
    arguments = split_commas(call.arguments)
    if name in _COLUMNLESS:
        return WindowCall(_columnless(name, arguments, call.span), None, call.span)
    signature = _SIGNATURES[name]
    time, rest = _time_argument(arguments, call.span, signature)
    calendar = calendar_of(name, rest, call.span)
    if calendar is not None:
        return WindowCall(calendar, time, call.span)
    return WindowCall(_build(name, _bind(rest, signature, call.span), call.span), time, call.span)


def window_without_time(call: Call) -> PanedWindow | Session:
    """The window of TUMBLE(size), HOP(slide, size) and their like in WITHIN, which name no column."""
    known = _SIGNATURES[call.name]
    intervals = ", ".join(f"INTERVAL '{10 * (place + 1)}' SECOND" for place in range(known.required))
    signature = replace(known, example=f"{call.name.upper()}({intervals})")
    arguments = split_commas(call.arguments)
    if arguments and single_reference(arguments[0]) is not None:
        raise arguments[0].error(
            "a window in WITHIN is about the event time of both sides and names no column", f"write {signature.example}"
        )
    return _build(call.name, _bind(arguments, signature, call.span), call.span)


def window_of_table(table: WindowTable) -> WindowCall:
    """The window of TUMBLE(TABLE s, DESCRIPTOR(ts), ...)."""
    signature = _SIGNATURES[table.function]
    calendar = calendar_of(table.function, table.arguments, table.span)
    if calendar is not None:
        return WindowCall(calendar, table.time, table.span)
    return WindowCall(
        _build(table.function, _bind(table.arguments, signature, table.span), table.span), table.time, table.span
    )


def window_of_clause(clause: WindowClause) -> WindowCall:
    """The window of WINDOW TUMBLING (ON ts, SIZE ...); WATERMARK and ALLOWED LATENESS are not part of it."""
    values = {
        name: micros for name, (micros, _) in clause.durations.items() if name not in ("watermark", "allowed lateness")
    }
    required = {"tumbling": ("size",), "hopping": ("size", "slide"), "session": ("gap",)}[clause.kind]
    for name in required:
        if name not in values:
            raise clause.span.error(
                f"the {clause.kind} window has no {name.upper()}", f"add {name.upper()} INTERVAL '10' SECOND"
            )
    function = {"tumbling": "tumble", "hopping": "hop", "session": "session"}[clause.kind]
    return WindowCall(_build(function, values, clause.span), clause.on, clause.span)


def _time_argument(arguments: list[Span], span: Span, signature: _Signature) -> tuple[Span, list[Span]]:
    if not arguments:
        raise span.error("the window has no arguments", f"write {signature.example}")
    for index, argument in enumerate(arguments):
        name = _argument_name(argument)
        if name in _TIME_NAMES or (index == 0 and name is None):
            time = argument if name is None else argument.part(2, len(argument.tokens))
            return time, arguments[:index] + arguments[index + 1 :]
    raise span.error("the window has no time column", f"write {signature.example}")


def _argument_name(argument: Span) -> str | None:
    if len(argument.tokens) > 2 and argument.tokens[1].token_type == TokenType.FARROW:
        return word(argument.tokens[0]).lower()
    return None


def _bind(arguments: Sequence[Span], signature: _Signature, span: Span) -> dict[str, int]:
    """Intervals by parameter, from arguments by position and by name."""
    values: dict[str, int] = {}
    for index, argument in enumerate(arguments):
        given = _argument_name(argument)
        if given is None:
            if index >= len(signature.parameters):
                raise argument.error("the window has too many arguments", f"write {signature.example}")
            name, value = signature.parameters[index], argument
        else:
            name = _ARGUMENT_NAMES.get(given.replace("_", ""), given)
            value = argument.part(2, len(argument.tokens))
        if name not in signature.parameters:
            raise argument.error(f"the window has no argument {given}", f"arguments: {', '.join(signature.parameters)}")
        if name in values:
            raise argument.error(f"the window's {name} is given twice", f"write {signature.example}")
        values[name] = interval_of(value, signed=name == "offset")
    for name in signature.parameters[: signature.required]:
        if name not in values:
            raise span.error(f"the window has no {name}", f"write {signature.example}")
    return values


def _build(function: str, values: Mapping[str, int], span: Span) -> PanedWindow | Session:
    for name, micros in values.items():
        if micros == 0 and name != "offset":
            raise span.error(f"the window's {name} is 0", f"give a {name} above 0, such as INTERVAL '10' SECOND")
    if function in ("session", "session_window"):
        return Session(values["gap"])
    size, offset = values["size"], values.get("offset", 0)
    if function == "cumulate":
        return _cumulate(size, values["step"], offset, span)
    slide = values.get("slide", size)
    if slide > size:
        raise span.error(
            f"the slide ({format_duration(slide)}) is larger than the size ({format_duration(size)}): rows "
            "between windows would be lost",
            "the order is HOP(ts, slide, size) as in Flink, and window(ts, size, slide) as in Spark",
        )
    if abs(offset) >= slide:
        raise span.error(
            f"the offset ({format_duration(offset)}) must be smaller than {format_duration(slide)}",
            "an offset shifts the windows within one step",
        )
    offset %= slide  # an offset of -2 is one of slide - 2
    return Tumble(size, offset) if slide == size else Hop(size, slide, offset)


def _cumulate(size: int, step: int, offset: int, span: Span) -> Cumulate:
    if size % step:
        raise span.error(
            f"the size ({format_duration(size)}) is not a multiple of the step ({format_duration(step)})",
            "the order is CUMULATE(ts, step, size)",
        )
    if abs(offset) >= size:
        raise span.error(
            f"the offset ({format_duration(offset)}) must be smaller than {format_duration(size)}", "leave it out"
        )
    return Cumulate(size, step, offset % size)


def _columnless(name: str, arguments: list[Span], span: Span) -> BoundedWindow:
    """tumblingwindow('ss', 10) and slidingwindow('ss', 10[, 15])."""
    most = 2 if name == "tumblingwindow" else 3
    example = f"write {name}('ss', 10); units: {', '.join(_SEED_UNITS)}"
    if not 2 <= len(arguments) <= most:
        raise span.error(f"{name} takes a unit and {'a number' if most == 2 else 'one or two numbers'}", example)
    unit_token = arguments[0].tokens[0]
    unit = (
        _SEED_UNITS.get(unit_token.text.lower())
        if len(arguments[0].tokens) == 1 and unit_token.token_type == TokenType.STRING
        else None
    )
    if unit is None:
        raise arguments[0].error("this is not a unit", example)
    numbers = []
    for argument in arguments[1:]:
        text = (
            argument.tokens[0].text
            if len(argument.tokens) == 1 and argument.tokens[0].token_type == TokenType.NUMBER
            else ""
        )
        if not text.isdecimal():
            raise argument.error("this is not a whole number", example)
        numbers.append(int(text) * unit)
        if numbers[-1] > LONGEST:
            raise argument.error("this is longer than ten thousand years", example)
    if numbers[0] == 0:
        raise arguments[1].error("the length of a window is above 0", example)
    if name == "tumblingwindow":
        return Tumble(numbers[0])
    return Slide(numbers[0], numbers[1] if len(numbers) > 1 else None)
