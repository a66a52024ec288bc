"""What can go wrong, whose fault it is, and what to do about it.

Every error that Eventide raises on purpose is an `EventideError`. Its message says what is wrong and, after
`help:`, what to write or do instead. An `SqlError` also underlines the place in the SQL text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Self


class EventideError(Exception):
    """Base of all errors raised on purpose. `fault` is 'user', 'external' or 'internal'."""

    fault = "user"
    retryable = False

    def __init__(self, message: str, *, help: str | None = None) -> None:
        self.message = message
        self.help = help
        super().__init__(self.render())

    def render(self) -> str:
        return self.message if self.help is None else f"{self.message}\n  help: {self.help}"


class SqlError(EventideError):
    """The SQL is wrong, or asks for what Eventide cannot do; `start` and `end` are offsets into `sql`, end
    exclusive.
    """

    def __init__(
        self, message: str, *, sql: str = "", start: int | None = None, end: int | None = None, help: str | None = None
    ) -> None:
        self.sql, self.start, self.end = sql, start, end
        super().__init__(message, help=help)

    def render(self) -> str:
        parts = [self.message]
        if self.sql and self.start is not None:
            parts.append(underline(self.sql, self.start, self.end if self.end is not None else self.start + 1))
        if self.help:
            parts.append(f"  help: {self.help}")
        return "\n".join(parts)


class OptionError(EventideError):
    """An option, a path or an argument is unknown or malformed."""


class CatalogError(EventideError):
    """A name is unknown, taken or still in use."""


class SourceError(EventideError):
    """Rows handed to a source cannot be taken as they are."""


class UnreadableFileError(SourceError):
    """A file of a source is damaged, or may not be read."""

    fault = "external"
    retryable = True

    @classmethod
    def of(cls, path: str, cause: str) -> Self:
        return cls(
            f"the file {path} cannot be read: {cause}",
            help="mend it or take it away, and run the stream again: it goes on from where it was",
        )

    @property
    def path(self) -> str:
        found = _UNREADABLE.search(self.message)
        return "" if found is None else found[1]


_UNREADABLE = re.compile(r"the file (.+?) cannot be read: ")


class SinkError(EventideError):
    """A sink could not take a batch; nothing of it is there, or it is there whole."""

    fault = "external"
    retryable = True


class CheckpointError(EventideError):
    """The checkpoint belongs to another plan, is in use, or is damaged."""


class StorageError(EventideError):
    """A file cannot be written: there is no space, or no permission. Nothing of it is there; what was there before
    still is.
    """

    fault = "external"
    retryable = True


class StreamFailedError(EventideError):
    """A running stream stopped by itself; the message names the stream and the cause."""

    fault = "external"
    retryable = True


class EnvironmentError(EventideError):
    """Something outside Eventide is missing: Java, a package, a permission."""

    fault = "external"


class EngineError(EventideError):
    """A promise of the engine does not hold (accounting, state codec): a bug in Eventide."""

    fault = "internal"


class WatermarkViolationError(EventideError):
    """An operator's watermark breaks the contract of `WatermarkPropagator`: it went back, or its graph is not one."""

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
    carets = "^" * max(1, min(end, line_end) - start)
    return f"{gutter}{sql[line_start:line_end]}\n{' ' * (len(gutter) + start - line_start)}{carets}"


def suggest(word: str, known: Iterable[str]) -> str:
    """'did you mean x? known: a, b, c' for a misspelt name."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1)
    listed = ", ".join(names) if names else "none"
    return (f"did you mean {close[0]}? " if close else "") + f"known: {listed}"
