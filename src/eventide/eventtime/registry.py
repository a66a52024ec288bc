"""Event-time types: how a column's value becomes a timestamp, by name.

The built-in types are plain descriptions, which the Spark layer turns into expressions. A custom type is a function:
from a Spark Column to a timestamp Column, or from a Python value to a datetime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from eventide.errors import OptionError, suggest


@dataclass(frozen=True)
class EpochUnit:
    """A number of units since 1970-01-01 UTC; one unit is `micros_numerator / micros_denominator` microseconds."""

    micros_numerator: int
    micros_denominator: int = 1


@dataclass(frozen=True)
class Iso8601:
    """ISO 8601 text, such as 2026-01-31T12:00:00.5Z; UTC if it has no zone."""


@dataclass(frozen=True)
class SparkTimestamp:
    """A column that is already a TIMESTAMP or a DATE in Spark."""


ParserKind = Literal["column", "python"]


@dataclass(frozen=True)
class CustomParser:
    """A user's function. `kind` None: the Spark layer finds out by calling it with a Column."""

    function: Callable[[Any], Any]
    kind: ParserKind | None = None


EventTimeType = EpochUnit | Iso8601 | SparkTimestamp | CustomParser

_BUILT_IN: dict[str, EventTimeType] = {
    "unixtimestamp_s": EpochUnit(1_000_000),
    "unixtimestamp_ms": EpochUnit(1_000),
    "unixtimestamp_us": EpochUnit(1),
    "unixtimestamp_ns": EpochUnit(1, 1_000),
    "iso8601": Iso8601(),
    "spark": SparkTimestamp(),
}
_ALIASES = {"unixtimestamp": "unixtimestamp_s"}


class EventTimeTypes:
    """The types by name, case-insensitive. Built-in types cannot be replaced; custom ones can."""

    def __init__(self) -> None:
        self._custom: dict[str, EventTimeType] = {}

    def register(self, name: str, parser: Callable[[Any], Any], kind: ParserKind | None = None) -> None:
        """Register `parser` as the type `name`; `kind` says what it takes if calling it with a Column would not
        tell.
        """
        key = name.lower()
        if key in _BUILT_IN or key in _ALIASES:
            raise OptionError(
                f"the event-time type '{name}' is built in", help="register the parser under another name"
            )
        if not key.isidentifier():
            raise OptionError(
                f"'{name}' cannot be the name of an event-time type", help="use letters, digits and underscores"
            )
        if not callable(parser):
            raise OptionError(f"the parser of '{name}' is not a function", help="pass a function of one argument")
        if kind not in (None, "column", "python"):
            raise OptionError(f"unknown kind of parser '{kind}'", help=suggest(str(kind), ("column", "python")))
        self._custom[key] = CustomParser(parser, kind)

    def resolve(self, name: str) -> EventTimeType:
        """The type called `name`; an `OptionError` that lists the known ones if there is none."""
        key = _ALIASES.get(name.lower(), name.lower())
        found = _BUILT_IN.get(key) or self._custom.get(key)
        if found is None:
            raise OptionError(f"unknown event-time type '{name}'", help=suggest(name, self.list()))
        return found

    def canonical(self, name: str) -> str:
        """The canonical spelling of a type's name, used in plans: lower case, aliases resolved."""
        self.resolve(name)
        return _ALIASES.get(name.lower(), name.lower())

    def list(self) -> list[str]:
        """All names except aliases, in alphabetical order."""
        return sorted({*_BUILT_IN, *self._custom})


event_time_types = EventTimeTypes()
