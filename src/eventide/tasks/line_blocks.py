"""Files as blocks of whole lines, plain or compressed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO

from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.file_content import content, decompressed

_BLOCK = 4 << 20
_NO_END = 1 << 62
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def blocks(part: FileRange) -> Iterator[tuple[int, bytes]]:
    """The lines that begin in the range, many at a time, with the place in the file where they begin; a byte order mark
    is no part of them.
    """
    for at, block in _raw_blocks(part):
        yield at, block.removeprefix(_BYTE_ORDER_MARK) if at == 0 else block


def blocks_of(stream: IO[bytes]) -> Iterator[bytes]:
    """The same of all lines of an open file."""
    for at, block in _cut_at_lines(stream, 0, _NO_END):
        yield block.removeprefix(_BYTE_ORDER_MARK) if at == 0 else block


def _raw_blocks(part: FileRange) -> Iterator[tuple[int, bytes]]:
    if part.is_compressed:
        with decompressed(part) as stream:
            yield from _cut_at_lines(stream, 0, _NO_END)
        return
    with content(part) as file:
        begin = part.start
        if begin:
            file.seek(begin - 1)
            begin = begin - 1 + len(_rest_of_line(file))
            file.seek(begin)
        yield from _cut_at_lines(file, begin, part.start + part.length)


def _cut_at_lines(file: IO[bytes], begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of the lines that begin before `end`, the file standing at `begin`."""
    held = b""
    while begin < end:
        more = file.read(min(_BLOCK, max(end - begin - len(held), 1)))
        if not more:
            if held:
                yield begin, held
            return
        if begin + len(held) + len(more) >= end and not more.endswith(b"\n"):
            more += _rest_of_line(file)
        cut = more.rfind(b"\n") + 1
        if cut:
            block = b"".join((held, memoryview(more)[:cut])) if held or cut < len(more) else more
            yield begin, block
            begin, held = begin + len(block), more[cut:]
        else:
            held += more


def _rest_of_line(file: IO[bytes]) -> bytes:
    """Up to the next line's beginning, where the file then stands."""
    found = b""
    while b"\n" not in found:
        more = file.read(1 << 16)
        if not more:
            return found
        found += more
    cut = found.index(b"\n") + 1
    file.seek(cut - len(found), os.SEEK_CUR)
    return found[:cut]
