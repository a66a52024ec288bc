"""`FluentStream.join` and `join_asof` as SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eventide.errors import OptionError, suggest
from eventide.fluent.windows import Duration, IntervalStep, WindowStep, duration_text
from eventide.plan.names import backticked
from eventide.sql.fragments import Fragment, Literal, Part, checked

Parts = tuple[Part, ...]

_KINDS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN", "outer": "FULL JOIN"}
_KINDS |= {"semi": "LEFT SEMI JOIN", "anti": "LEFT ANTI JOIN"}
_DIRECTIONS = {("backward", True): ">=", ("backward", False): ">", ("forward", True): "<=", ("forward", False): "<"}
_COLUMN = re.compile(r"\w+")


@dataclass(frozen=True)
class JoinInput:
    """A side of a join: what stands in FROM, the name that it has there, and its event-time column."""

    source: Parts
    name: str
    time: str | None

    @property
    def sql(self) -> Parts:
        return (*self.source, f" AS {backticked(self.name)}")

    def time_sql(self) -> str:
        if self.time is None:
            raise OptionError(
                f"join_asof() compares event times, and {self.name} has none", help="declare it with event_time('ts')"
            )
        return f"{backticked(self.name)}.{backticked(self.time)}"


def join(
    left: JoinInput,
    right: JoinInput,
    on: str | Sequence[str],
    within: WindowStep | IntervalStep | tuple[WindowStep, WindowStep] | None,
    how: str,
) -> Parts:
    """`l LEFT JOIN r WITHIN ... ON ...`."""
    kind = _chosen("join(how)", how, _KINDS)
    return (*left.sql, f"\n{kind} ", *right.sql, *_within(within), *_condition("join(on)", on))


def join_table(left: JoinInput, table: str, on: str | Sequence[str], within: object, how: str) -> Parts:
    """`l LEFT JOIN table ON ...`."""
    if within is not None:
        raise OptionError(f"join(within): {table} is a table, whose rows have no time", help="leave it out")
    kind = _chosen("join(how)", how, {kind: _KINDS[kind] for kind in ("inner", "left")})
    return (*left.sql, f"\n{kind} {backticked(table)}", *_condition("join(on)", on))


def asof_join(
    left: JoinInput,
    right: JoinInput,
    on: str | Sequence[str],
    direction: str,
    tolerance: Duration | None,
    how: str,
    allow_exact_matches: bool,
) -> Parts:
    """`l ASOF JOIN r MATCH_CONDITION (...) ON ...`."""
    _chosen("join_asof(direction)", direction, ("backward", "forward", "nearest"))
    kind = "ASOF " + _chosen("join_asof(how)", how, {kind: _KINDS[kind] for kind in ("inner", "left")})
    one, other = left.time_sql(), right.time_sql()
    parts: list[Part] = [f"NEAREST({one}, {other})"]
    if direction != "nearest":
        parts = [f"{one} {_DIRECTIONS[direction, allow_exact_matches]} {other}"]
    elif not allow_exact_matches:
        raise OptionError(
            "join_asof(allow_exact_matches): the nearest row may be at the same time", help="leave it out"
        )
    if tolerance is not None:
        length = Literal("join_asof(tolerance)", duration_text(tolerance))
        parts += [f" AND abs({one} - {other}) <= INTERVAL ", length]
    match = ("\nMATCH_CONDITION (", *parts, ")")
    return (*left.sql, f"\n{kind} ", *right.sql, *match, *_condition("join_asof(on)", on))


def _within(within: WindowStep | IntervalStep | tuple[WindowStep, WindowStep] | None) -> Parts:
    match within:
        case None:
            return ()
        case WindowStep():
            return ("\nWITHIN ", *within.within)
        case IntervalStep():
            return ("\nWITHIN (", within.before, ", ", within.after, ")")
        case (WindowStep() as one, WindowStep() as other):
            return ("\nWITHIN ", *one.within, " AND ", *other.within)
    raise OptionError(
        f"join(within) takes a window, an interval or two windows, not {within!r}",
        help="write within=eventide.tumble('10 seconds')",
    )


def _condition(label: str, on: str | Sequence[str]) -> Parts:
    """USING for names of columns, ON for a condition."""
    if isinstance(on, str) and not _COLUMN.fullmatch(on):
        return ("\nON ", checked(Fragment(label, on), "a condition"), "\n")
    names = [on] if isinstance(on, str) else list(on)
    if not names:
        raise OptionError(f"{label} is empty", help="name the columns that both have, or write a condition")
    parts: list[Part] = []
    for name in names:
        parts += [", " if parts else "\nUSING (", Fragment(label, backticked(name))]
    return (*parts, ")")


def _chosen(label: str, given: str, known: dict[str, str] | tuple[str, ...]) -> str:
    if given not in known:
        raise OptionError(f"{label}: there is no '{given}'", help=suggest(given, known))
    return known[given] if isinstance(known, dict) else given
