"""Which files a source has found, in order: a log that only grows, so that a number always names the same file.

    eventide files 1                                       what it is
    5c1e8a03 [0,1738324800000000,5120,"/data/a.json"]      checksum of the rest, number, modified, length, path

What `append` was given is on disk when it returns. A line that a crash cut short was never handed out, and is removed;
any other damage is an error.
"""

from __future__ import annotations

import json
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from eventide.connectors.files.listing import FoundFile
from eventide.storage.atomic import damaged
from eventide.storage.growing import growing
from eventide.storage.paths import AnyPath

_HEADER = b"eventide files 1\n"


class DiscoveryLog:
    """Only one process at a time may append. Memory: the paths, and two numbers per file."""

    def __init__(self, folder: AnyPath) -> None:
        self.path = folder / "files.log"
        self._log = growing(self.path)
        self._known: set[str] = set()
        self._positions = array("q", [len(_HEADER)])  # where each line begins, and where the next one will
        self._bytes = array("q", [0])  # how many bytes the first n files hold
        if self._log.exists():
            self._load()
        else:
            self._log.create(_HEADER)

    def __len__(self) -> int:
        return len(self._positions) - 1

    def __contains__(self, path: object) -> bool:
        return path in self._known

    def append(self, files: Sequence[FoundFile]) -> None:
        """Add files that are not in the log yet; durable when it returns, and nothing is added if it raises."""
        if not files:
            return
        lines = [_line(len(self) + index, file) for index, file in enumerate(files)]
        self._log.append(b"".join(lines), self._positions[-1])
        for line, file in zip(lines, files, strict=True):
            self._note(file, len(line))

    def files(self, start: int, end: int) -> list[FoundFile]:
        """The files with numbers in [start, end)."""
        self.check(end)
        return list(self._parse(self._log.read(self._positions[start], self._positions[end]), start))

    def size(self, start: int, end: int) -> int:
        """The total bytes of those files."""
        return self._bytes[end] - self._bytes[start]

    def end_near(self, start: int, bytes: int) -> int:
        """Where to end to take about `bytes` from `start` on: the file that crosses the limit is included if half of it
        is within.
        """
        end = min(len(self), bisect_right(self._bytes, self._bytes[start] + bytes) - 1)
        if end < len(self) and 2 * (self._bytes[start] + bytes) >= self._bytes[end] + self._bytes[end + 1]:
            end += 1
        return max(start, end)

    def check(self, taken: int) -> None:
        """Raises a CheckpointError unless the log holds the files that a stream says it has taken."""
        if taken > len(self):
            raise damaged(self.path, ValueError(f"it names {len(self)} files, and the stream has taken {taken}"))

    def _load(self) -> None:
        try:
            content = self._log.read_all()
        except OSError as error:
            raise damaged(self.path, error) from None
        if not content.startswith(_HEADER):
            raise damaged(self.path, ValueError("it is not a log of files, or of another version"))
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._log.cut(whole)
        position = len(_HEADER)
        for file in self._parse(content[position:whole], 0):
            end = content.index(b"\n", position) + 1
            self._note(file, end - position)
            position = end

    def _parse(self, text: bytes, first: int) -> Iterator[FoundFile]:
        for number, line in enumerate(text.splitlines(), first):
            checksum, _, rest = line.partition(b" ")
            if checksum != b"%08x" % zlib.crc32(rest):
                raise damaged(self.path, ValueError(f"line {number + 2} is not what was written"))
            found, modified, length, path = json.loads(rest)
            if found != number:
                raise damaged(self.path, ValueError(f"file {number} is missing"))
            yield FoundFile(path, modified, length)

    def _note(self, file: FoundFile, line_length: int) -> None:
        self._known.add(file.path)
        self._positions.append(self._positions[-1] + line_length)
        self._bytes.append(self._bytes[-1] + file.length)


def _line(number: int, file: FoundFile) -> bytes:
    rest = json.dumps([number, file.modified, file.length, file.path], separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(rest), rest)
