"""The layout of a JSON line: the words that lines of its kind share, and what kind of value stands behind each.

Machines write lines that differ only in their values. A layout is taken from one line and the declared types, and says
what every line like it must be, byte by byte; `line_walk` reads many lines by it at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from eventide.tasks.expressions import DATE, WHOLE
from eventide.tasks.struct_types import element_of, fields_of

Path = tuple[str, ...]  # the names from the outermost object to the value

_SPACE = re.compile(rb"[ \t]*")
_NAME = re.compile(rb'"([^"\\\x00-\x1f]{1,1000})"[ \t]*:[ \t]*')
_TEXT = re.compile(rb'"[^"\\\x00-\x1f]*"')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?")
_WORD = re.compile(rb"true|false|null")
_NULL = b"null"
_MOST_SLOTS = 400  # beyond, a layout is not worth its walk


class Kind(Enum):
    """What JSON a value is; each may be null as well."""

    TEXT = "text"
    WHOLE = "whole"
    NUMBER = "number"
    FLAG = "flag"
    NULL = "null"
    LIST = "list"


@dataclass(frozen=True)
class Slot:
    """A value behind the word in front of it. The opening quote of a text and the bracket of a list belong to the word.

    `type` is the declared type, None if nobody has declared it; `size` is how long the text is in the first line.
    `elements` is the kind of a list's elements, and `between` stands between them.
    """

    word: bytes
    kind: Kind
    path: Path
    type: str | None
    elements: Kind = Kind.NULL
    between: bytes = b","
    size: int | None = None


@dataclass(frozen=True)
class Layout:
    """`tail` is what follows the last value, the end of the line included; `objects` are the paths of those inside."""

    slots: tuple[Slot, ...]
    tail: bytes
    objects: frozenset[Path] = frozenset()

    @property
    def without_sizes(self) -> Layout:
        """For a few lines: in each of them another quote may stand where the text of the first line ends."""
        return replace(self, slots=tuple(replace(slot, size=None) for slot in self.slots))


def layout_of(line: bytes, columns: tuple[tuple[str, str], ...]) -> Layout | None:
    """The layout of a line, without its end; None if it is not an object that can be read by one."""
    reading = _Reading(line, b", " if b", " in line else b",")
    try:
        reading.object(0, dict(columns), ())
    except _Unreadable:
        return None
    if reading.at != len(line) or len(reading.slots) > _MOST_SLOTS:
        return None
    return Layout(tuple(reading.slots), line[reading.done :] + b"\n", frozenset(reading.objects))


class _Unreadable(Exception):
    """The line is no JSON, or has a value that a layout cannot hold."""


class _Reading:
    """Goes through one line and notes its slots: `done` is where the last value ended."""

    def __init__(self, line: bytes, between: bytes) -> None:
        self.line, self.between = line, between
        self.at = self.done = 0
        self.slots: list[Slot] = []
        self.objects: set[Path] = set()

    def object(self, depth: int, types: dict[str, str], path: Path) -> None:
        self._expect(b"{")
        self.objects.add(path)
        names = set()
        for _ in self._members(b"}"):
            try:
                name = self._match(_NAME)[1].decode()
            except UnicodeDecodeError:
                raise _Unreadable from None
            if name in names or depth > 20:
                raise _Unreadable
            names.add(name)
            self._value(depth, types.get(name), (*path, name))

    def _members(self, end: bytes) -> Iterator[None]:
        """Stands at each member of an object or list in turn, and then behind its end."""
        self._space()
        if not self.line.startswith(end, self.at):
            yield
            self._space()
            while self.line.startswith(b",", self.at):
                self.at += 1
                self._space()
                yield
                self._space()
        self._expect(end)

    def _value(self, depth: int, type: str | None, path: Path) -> None:
        first = self.line[self.at : self.at + 1]
        if first == b"{":
            if type is not None and not fields_of(type):
                raise _Unreadable
            self.object(depth + 1, dict(fields_of(type)) if type is not None else {}, path)
        elif first == b"[":
            self._list(type, path)
        else:
            kind = self._scalar(type)
            self._note(kind, path, type)

    def _note(self, kind: Kind, path: Path, type: str | None) -> None:
        """A scalar of the line, which begins at `at`."""
        begin = self.at
        size = None
        if self.line.startswith(_NULL, begin):
            self.at += len(_NULL)
        else:
            self._match({Kind.TEXT: _TEXT, Kind.FLAG: _WORD, Kind.NULL: _WORD}.get(kind, _NUMBER))
            size = self.at - begin - 2 if kind is Kind.TEXT else None
        word = self.line[self.done : begin] + (b'"' if kind is Kind.TEXT else b"")
        self.slots.append(Slot(word, kind, path, type, size=size))
        self.done = self.at

    def _list(self, type: str | None, path: Path) -> None:
        element = None if type is None else element_of(type)
        if type is not None and element is None:
            raise _Unreadable
        word, kind, between, ended = self.line[self.done : self.at + 1], Kind.NULL, self.between, None
        self.at += 1
        for number, _ in enumerate(self._members(b"]")):
            if ended is not None and number == 1:
                between = self.line[ended : self.at]
            found = self._scalar(element)
            kind = found if kind is Kind.NULL else kind
            self._match({Kind.TEXT: _TEXT, Kind.FLAG: _WORD, Kind.NULL: _WORD}.get(found, _NUMBER))
            ended = self.at
        if element is not None and kind is Kind.NULL:
            kind = _kind_of(element) or Kind.NULL
        self.slots.append(Slot(word, Kind.LIST, path, type, kind, between))
        self.done = self.at

    def _scalar(self, type: str | None) -> Kind:
        """The kind of the value at `at`, which must be one that the declared type can have."""
        first = self.line[self.at : self.at + 1]
        said = {b'"': Kind.TEXT, b"t": Kind.FLAG, b"f": Kind.FLAG, b"n": Kind.NULL}.get(first, Kind.NUMBER)
        if type is None:
            return said
        kind = _kind_of(type)
        if kind is None:  # nested: only null can stand here
            if said is not Kind.NULL:
                raise _Unreadable
            return Kind.NULL
        if said not in (kind, Kind.NULL) and not (said is Kind.NUMBER and kind is Kind.WHOLE):
            raise _Unreadable
        return kind

    def _space(self) -> None:
        found = _SPACE.match(self.line, self.at)
        self.at = self.at if found is None else found.end()

    def _expect(self, word: bytes) -> None:
        if not self.line.startswith(word, self.at):
            raise _Unreadable
        self.at += len(word)

    def _match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        found = pattern.match(self.line, self.at)
        if found is None:
            raise _Unreadable
        self.at = found.end()
        return found


def _kind_of(type: str) -> Kind | None:
    """Of a type that is not nested."""
    if type in WHOLE:
        return Kind.WHOLE
    texts = dict.fromkeys(("string", "timestamp", DATE), Kind.TEXT)
    return {**texts, "double": Kind.NUMBER, "boolean": Kind.FLAG}.get(type)
