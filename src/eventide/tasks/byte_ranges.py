"""A batch's files, split into byte ranges so that all tasks have about the same amount to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from eventide.storage.stores import Store

COMPRESSED = (".gz", ".bz2", ".zst")
_LEAST = 1 << 20  # bytes per task: below this, starting another task costs more than it gains


@dataclass(frozen=True)
class FileRange:
    """`length` bytes from `start`; `number` is the file's place among all files of the stream. Without a store it is
    one of this machine.
    """

    path: str
    number: int
    modified: int  # microseconds
    start: int
    length: int
    store: Store | None = None

    @property
    def is_compressed(self) -> bool:
        return self.path.endswith(COMPRESSED)


def dealt_out(files: Iterable[FileRange], tasks: int, splits: bool = True) -> list[list[FileRange]]:
    """The ranges of each task, in file order. A compressed file cannot be split; others only if `splits`."""
    files = list(files)
    share = max(-(-sum(file.length for file in files) // tasks), _LEAST)
    dealt: list[list[FileRange]] = [[]]
    room = share
    for file in files:
        for part in _cut(file, room, share) if splits else (file,):
            if room <= 0:
                dealt.append([])
                room = share
            dealt[-1].append(part)
            room -= part.length
    return [ranges for ranges in dealt if ranges]


def _cut(file: FileRange, room: int, share: int) -> Iterator[FileRange]:
    if file.is_compressed or file.length == 0:
        yield file
        return
    start, end = file.start, file.start + file.length
    while start < end:
        length = min(room if room > 0 else share, end - start)
        if end - start - length < share // 8:
            length = end - start  # leave no tiny remainder
        yield replace(file, start=start, length=length)
        start += length
        room = room - length if room > length else share
