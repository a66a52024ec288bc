"""What can go wrong, whose fault it is, and what to do about it.

Every error that Eventide raises on purpose is an `EventideError`. Its message says what is wrong and, after
`help:`, what to write or do instead. An `SqlError` also underlines the place in the SQL text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Self

from eventide.secrets import masked

_WIDEST = 200  # characters of a line of SQL that are shown, and of those in front of the place
_BEFORE = 60
_LONGEST_LINE = 600
_MOST_LISTED = 50


class EventideError(Exception):
    """Base of all errors raised on purpose. `fault` is 'user', 'external' or 'internal'."""

    fault = "user"

    def __init__(self, message: str, *, help: str | None = None) -> None:
        self.message = masked(message)
        self.help = help if help is None else masked(help)
        super().__init__(self.render())

    def render(self) -> str:
        return shortened(self.message if self.help is None else f"{self.message}\n  help: {self.help}")


class SqlError(EventideError):
    """The SQL is wrong, or asks for something Eventide cannot do. `start` and `end` are offsets into `sql`, end
    exclusive.
    """

    def __init__(
        self, message: str, *, sql: str = "", start: int | None = None, end: int | None = None, help: str | None = None
    ) -> None:
        self.sql, self.start, self.end = sql, start, end
        super().__init__(message, help=help)

    def render(self) -> str:
        parts = [shortened(self.message)]
        if self.sql and self.start is not None:
            parts.append(underline(masked(self.sql), self.start, self.end if self.end is not None else self.start + 1))
        if self.help:
            parts.append(shortened(f"  help: {self.help}"))
        return "\n".join(parts)


class OptionError(EventideError):
    """An option, a path or an argument is unknown or malformed."""


class CatalogError(EventideError):
    """A name is unknown, taken or still in use."""


class SourceError(EventideError):
    """A source cannot accept or read its rows."""


class UnreadableFileError(SourceError):
    """A file of a source is damaged, or may not be read."""

    fault = "external"

    @classmethod
    def of(cls, path: str, cause: str) -> Self:
        return cls(
            f"the file {path} cannot be read: {cause}",
            help="repair or remove it, and run the stream again: it goes on from where it was",
        )

    @property
    def path(self) -> str:
        found = _UNREADABLE.search(self.message)
        return "" if found is None else found[1]


_UNREADABLE = re.compile(r"the file (.+?) cannot be read: ")


class SinkError(EventideError):
    """A sink could not accept a batch. Either all of the batch was written, or none of it."""

    fault = "external"


class CheckpointError(EventideError):
    """The checkpoint belongs to another plan, is in use, or is damaged."""


class StorageError(EventideError):
    """A file cannot be written, for lack of space or permission. No part of it was written, and the old file is
    unchanged.
    """

    fault = "external"


class StreamFailedError(EventideError):
    """A running stream stopped on its own; the message names the stream and the cause."""

    fault = "external"


class EnvironmentError(EventideError):
    """Something outside Eventide is missing: Java, a package, a permission."""

    fault = "external"


class EngineError(EventideError):
    """The engine broke one of its own guarantees (accounting, state codec): a bug in Eventide."""

    fault = "internal"


class WatermarkViolationError(EventideError):
    """The contract of `WatermarkPropagator` was broken: a watermark went back, or the operator graph is not valid."""

    fault = "internal"

    def __init__(self, operator_id: str, reason: str) -> None:
        self.operator_id, self.reason = operator_id, reason
        super().__init__(f"watermark violation at operator {operator_id}: {reason}")


def underline(sql: str, start: int, end: int) -> str:
    """The line of `sql` that holds `start`, with a line number and carets below [start, end)."""
    line_start = sql.rfind("\n", 0, start) + 1
    line_end = sql.find("\n", start)
    line_end = len(sql) if line_end < 0 else line_end
    number = sql.count("\n", 0, start) + 1
    gutter = f"  {number} | "
    first = line_start if line_end - line_start <= _WIDEST or start - line_start < _WIDEST // 2 else start - _BEFORE
    last = min(line_end, first + _WIDEST)
    before, after = "…" if first > line_start else "", "…" if last < line_end else ""
    carets = "^" * max(1, min(end, last) - start)
    indent = " " * (len(gutter) + len(before) + start - first)
    return f"{gutter}{before}{sql[first:last]}{after}\n{indent}{carets}"


def shortened(text: str) -> str:
    """The same text, the middle of lines that nobody would read to the end left out."""
    half = _LONGEST_LINE // 2
    return "\n".join(
        line if len(line) <= _LONGEST_LINE else f"{line[:half]} … {line[-half:]}" for line in text.split("\n")
    )


def suggest(word: str, known: Iterable[str]) -> str:
    """'did you mean x? known: a, b, c' for a misspelt name; of many names the first."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    listed = ", ".join(names[:_MOST_LISTED]) + (", …" if len(names) > _MOST_LISTED else "") if names else "none"
    return (f"did you mean {close[0]}? " if close else "") + f"known: {listed}"


def located(error: EventideError, text: str) -> EventideError:
    """An error from Spark's analysis, with its place in the statement if that can be found."""
    if not isinstance(error, SqlError) or error.sql:
        return error
    fragment = error.message.split(": ", 1)[0]
    start = text.lower().find(fragment.lower())
    if start < 0:
        return SqlError(error.message, help=error.help)
    return SqlError(error.message, sql=text, start=start, end=start + len(fragment), help=error.help)
