"""CSV as RFC 4180 has it: records of fields, with line breaks and separators inside quotes.

A field without quotes and without text is NULL, one in quotes never is. A line that is not a record by these rules does
not decode, and does not affect others: a quote that nothing closes ends with its line.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

_MOST_OPEN = 16 << 20  # bytes of a record, beyond which its open quote is taken for a stray one
_ENDS = b"\r\n"

Fields = list[bytes | None]


class Record(NamedTuple):
    """`fields` is None for a text that is not a record."""

    text: bytes
    fields: Fields | None


@dataclass(frozen=True)
class CsvForm:
    """How files are written: `escape` stands in front of a quote inside quotes, `null` without quotes means NULL."""

    separator: bytes = b","
    quote: bytes = b'"'
    escape: bytes = b'"'
    null: bytes = b""
    multi_line: bool = True

    def records(self, lines: Lines) -> Iterator[Record]:
        """The records of lines that are held, and of more where one of them goes on; a line without anything is one of
        one NULL.
        """
        for line in lines:
            text = line.rstrip(_ENDS)
            if self.quote in text and self.multi_line:
                text = self._whole(line, lines)
            yield Record(text, self._fields(text))

    def _whole(self, line: bytes, lines: Lines) -> bytes:
        """The record that begins with this line, or the line alone if it begins none."""
        text, taken = line, 0
        while self._is_open.fullmatch(text):
            more, taken = lines.upto(self.quote, taken, _MOST_OPEN)
            if not more:
                return line.rstrip(_ENDS)
            text += more
        text = _without_end(text)
        if taken and self._record.fullmatch(text) is None:
            return line.rstrip(_ENDS)
        lines.skip(taken)
        return text

    def _fields(self, text: bytes) -> Fields | None:
        if self.quote not in text:
            return [self._bare(part) for part in text.split(self.separator)]
        if self._record.fullmatch(text) is None:
            return None
        fields: Fields = []
        at = 0
        while at <= len(text):
            match = self._field.match(text, at)
            if match is None:
                return None
            quoted, bare = match.groups()
            fields.append(self._bare(bare) if quoted is None else self._escaped.sub(rb"\1\2", quoted))
            at = match.end() + len(self.separator)
        return fields

    def _bare(self, field: bytes) -> bytes | None:
        return None if field in (b"", self.null) else field

    @cached_property
    def _inside(self) -> bytes:
        """What may stand between quotes."""
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        if self.quote == self.escape:
            return rb"[^%b]*(?:%b%b[^%b]*)*" % (quote, quote, quote, quote)
        return rb"[^%b%b]*(?:(?:%b.|%b%b)[^%b%b]*)*" % (quote, escape, escape, quote, quote, quote, escape)

    @cached_property
    def _one(self) -> bytes:
        """A field; what stands between its quotes is the first group, what has none the second."""
        quote, separator = re.escape(self.quote), re.escape(self.separator)
        one = rb"[^\r\n%b]" % separator if len(self.separator) == 1 else rb"(?!%b)[^\r\n]" % separator
        return rb"(?:%b(%b)%b|((?!%b)(?:%b)*))" % (quote, self._inside, quote, quote, one)

    @cached_property
    def _field(self) -> re.Pattern[bytes]:
        return re.compile(rb"%b(?=%b|\Z)" % (self._one, re.escape(self.separator)), re.DOTALL)

    @cached_property
    def _record(self) -> re.Pattern[bytes]:
        return re.compile(rb"%b(?:%b%b)*" % (self._one, re.escape(self.separator), self._one), re.DOTALL)

    @cached_property
    def _is_open(self) -> re.Pattern[bytes]:
        """A record that ends between quotes."""
        return re.compile(
            rb"(?:%b%b)*%b%b" % (self._one, re.escape(self.separator), re.escape(self.quote), self._inside), re.DOTALL
        )

    @cached_property
    def _escaped(self) -> re.Pattern[bytes]:
        """A quote or escape that stands for itself behind another one; a quote does so behind a quote as well."""
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        return re.compile(rb"[%b%b](%b)|%b(%b)" % (quote, escape, quote, escape, escape))


class Lines:
    """The lines of a file with their ends. `held` are those at hand; more of the file's blocks, which end where lines
    end, are fetched where a record goes on beyond them.
    """

    def __init__(self, held: bytes, blocks: Iterator[bytes]) -> None:
        self._held = deque(held.splitlines(keepends=True))
        self._blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        while self._held:
            yield self._held.popleft()

    def rest(self) -> bytes:
        """What is held and was not taken."""
        rest, self._held = b"".join(self._held), deque()
        return rest

    def upto(self, quote: bytes, skipped: int, most: int) -> tuple[bytes, int]:
        """The lines behind the next `skipped` ones up to the first that holds `quote`, and how many then are known;
        nothing if there is none within `most` bytes.
        """
        found, size = [], 0
        while size <= most and self._has(skipped):
            found.append(self._held[skipped])
            size += len(found[-1])
            skipped += 1
            if quote in found[-1]:
                return b"".join(found), skipped
        return b"", skipped

    def skip(self, count: int) -> None:
        for _ in range(count):
            self._held.popleft()

    def _has(self, place: int) -> bool:
        while len(self._held) <= place:
            block = next(self._blocks, None)
            if block is None:
                return False
            self._held.extend(block.splitlines(keepends=True))
        return True


def _without_end(text: bytes) -> bytes:
    """Without the one line break at its end."""
    return text[: -2 if text.endswith(b"\r\n") else -1] if text.endswith((b"\n", b"\r")) else text
