"""A file that only grows: one file where files can be appended to, and in a store, where they cannot, pieces.

    files.log, files.log.000001, …   pieces of about a megabyte; what is added makes the last one anew, or another

What was added is durable when `append` returns, and nothing is added if it raises.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from eventide.errors import CheckpointError
from eventide.storage.atomic import sync_folder, unwritable, write_bytes
from eventide.storage.paths import AnyPath, RemotePath

_PIECE = 1 << 20  # bytes


class GrowingFile:
    """A file of this machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        return self.path.exists()

    def create(self, content: bytes) -> None:
        write_bytes(self.path, content)

    def read_all(self) -> bytes:
        return self.path.read_bytes()

    def read(self, start: int, end: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    def append(self, content: bytes, at: int) -> None:
        """Add to a file that was `at` bytes long; raises if it is not."""
        with self.path.open("r+b", buffering=0) as file:
            if file.seek(0, os.SEEK_END) != at:
                raise another_process(self.path)
            try:
                if file.write(content) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
                os.fsync(file.fileno())
            except OSError:
                file.truncate(at)
                raise

    def cut(self, length: int) -> None:
        """Remove what a crash has left of an `append`."""
        os.truncate(self.path, length)
        sync_folder(self.path.parent)


class GrowingPieces:
    """The same in a store."""

    def __init__(self, path: RemotePath) -> None:
        self.path = path
        self._lengths: list[int] = []
        self._last = b""

    def exists(self) -> bool:
        return self.path.exists()

    def create(self, content: bytes) -> None:
        write_bytes(self.path, content)
        self._lengths, self._last = [len(content)], content

    def read_all(self) -> bytes:
        names = [path.name for path in self.path.parent.glob(f"{self.path.name}*")]
        pieces = [self._piece(number).read_bytes() for number in range(len(names))]
        self._lengths, self._last = list(map(len, pieces)), pieces[-1]
        return b"".join(pieces)

    def read(self, start: int, end: int) -> bytes:
        found, first = [], 0
        for number, length in enumerate(self._lengths):
            if first < end and start < first + length:
                is_last = number == len(self._lengths) - 1
                piece = self._last if is_last else self._piece(number).read_bytes()
                found.append(piece[max(start - first, 0) : end - first])
            first += length
        return b"".join(found)

    def append(self, content: bytes, at: int) -> None:
        """Add to a file that was `at` bytes long; raises if it is not."""
        number, is_full = len(self._lengths) - 1, self._lengths[-1] >= _PIECE
        if self._piece(number).stat().st_size != self._lengths[-1] or self._piece(number + 1).exists():
            raise another_process(self.path)
        if sum(self._lengths) != at:
            raise another_process(self.path)
        last = content if is_full else self._last + content
        try:
            self._piece(number + is_full).write_bytes(last)
        except OSError as error:
            raise unwritable(self.path, error) from error
        self._last = last
        self._lengths = [*self._lengths, len(last)] if is_full else [*self._lengths[:-1], len(last)]

    def cut(self, length: int) -> None:
        raise CheckpointError(f"{self.path} ends in the middle of a line", help="restore the checkpoint from a copy")

    def _piece(self, number: int) -> RemotePath:
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number:06d}")


def growing(path: AnyPath) -> GrowingFile | GrowingPieces:
    return GrowingPieces(path) if isinstance(path, RemotePath) else GrowingFile(path)


def another_process(path: AnyPath) -> CheckpointError:
    return CheckpointError(f"{path} has been written to by another process", help="run a stream in one process only")
