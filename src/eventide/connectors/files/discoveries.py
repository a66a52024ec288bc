"""Which files a source has found, in order: a number always names the same file.

    files.log                the files from the first on, or, once names have been put together:
    files-000000012000.log   the files from number 12000 on
    names-000000012000.z     the names of those before that are still remembered

    eventide files 1                                          what it is
    5c1e8a03 [0,1738324800000000,5120,"/data/a.json",27]      checksum of the rest; number and fields of the file

What `append` was given is on disk when it returns. A line that a crash cut short was never handed out, and is removed;
any other damage is an error. Of files that batches have taken only names are needed, and `put_together` forgets those
that `remembered` says need not be known any longer: so what is kept is in proportion to what the folder holds.
"""

from __future__ import annotations

import json
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from eventide.connectors.files.listing import FoundFile
from eventide.connectors.files.remembered import Remembered
from eventide.storage.atomic import damaged
from eventide.storage.growing import GrowingFile, GrowingPieces, growing
from eventide.storage.paths import AnyPath

_HEADER = b"eventide files 1\n"
_WHOLE = 1_000  # files that were taken stay in the log: more than a batch that may be taken again has as a rule
_SHARE = 4  # names are put together when they have grown by one part in so many


class DiscoveryLog:
    """Only one process at a time may append. Memory: the names, and two numbers per file of the log."""

    def __init__(self, folder: AnyPath) -> None:
        self._folder = folder
        self._old = Remembered.newest(folder)
        self._log = self._open(self._old.first)
        self._start_over()
        if self._log.exists():
            self._load()
        elif self._old.first:
            raise damaged(self.path, FileNotFoundError())
        else:
            self._log.create(_HEADER)
        self._tidy()

    @property
    def path(self) -> AnyPath:
        return self._log.path

    @property
    def first(self) -> int:
        """The number of the oldest file that can still be handed out."""
        return self._old.first

    def __len__(self) -> int:
        return self.first + len(self._positions) - 1

    def __contains__(self, path: object) -> bool:
        return path in self._known

    def may_be_forgotten(self, file: FoundFile) -> bool:
        """Whether a file that is not in the log may have been in it: nothing older than this was forgotten."""
        return file.arrived <= self._old.horizon

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
        if start < self.first:
            raise damaged(self.path, ValueError(f"it begins with file {self.first}, and file {start} is wanted"))
        places = self._positions[start - self.first], self._positions[end - self.first]
        return list(self._parse(self._log.read(*places), start))

    def size(self, start: int, end: int) -> int:
        """The total bytes of those files."""
        return self._bytes[end - self.first] - self._bytes[max(start - self.first, 0)]

    def end_near(self, start: int, bytes: int) -> int:
        """Where to end to take about `bytes` from `start` on: the file that crosses the limit is included if half of it
        is within.
        """
        first, last = start - self.first, len(self._bytes) - 1
        end = min(last, bisect_right(self._bytes, self._bytes[first] + bytes) - 1)
        if end < last and 2 * (self._bytes[first] + bytes) >= self._bytes[end] + self._bytes[end + 1]:
            end += 1
        return max(start, end + self.first)

    def check(self, taken: int) -> None:
        """Raises a CheckpointError unless the log holds the files that a stream says it has taken."""
        if taken > len(self):
            raise damaged(self.path, ValueError(f"it names {len(self)} files, and the stream has taken {taken}"))

    def is_long(self, taken: int) -> bool:
        """Whether it is time to put names together, where batches have taken the files before `taken`."""
        return taken - _WHOLE - self.first >= max(_WHOLE, self._old_names // _SHARE)

    def put_together(self, taken: int, there: Callable[[], Iterable[FoundFile]], after: int, now: int) -> None:
        """Keep only the names of files that batches have taken, and forget those of files that are gone and older by
        `after` than the newest. `there` lists all files that are there; times in microseconds.
        """
        first = taken - _WHOLE
        new = self._old.with_files(self.files(self.first, first), first).without_gone(there(), after, now)
        log = self._open(first)
        log.create(_HEADER + self._log.read(self._positions[first - self.first], self._positions[-1]))
        new.write(self._folder)  # from here on the new ones count
        rest = self.files(first, len(self))
        self._old, self._log = new, log
        self._start_over()
        for number, file in enumerate(rest, first):
            self._note(file, len(_line(number, file)))
        self._tidy()

    def _open(self, first: int) -> GrowingFile | GrowingPieces:
        return growing(self._folder / (f"files-{first:012d}.log" if first else "files.log"))

    def _start_over(self) -> None:
        self._known = set(self._old.arrivals())
        self._old_names = len(self._known)
        self._positions = array("q", [len(_HEADER)])  # where each line begins, and where the next one will
        self._bytes = array("q", [0])  # how many bytes the first files of the log hold

    def _tidy(self) -> None:
        """Remove what others have taken the place of, and what a crash has left."""
        for path in (*self._folder.glob("files*.log*"), *self._folder.glob("names-*.z")):
            if not path.name.startswith((self.path.name, self._old.name)):
                path.unlink(missing_ok=True)

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
        for file in self._parse(content[position:whole], self.first):
            end = content.index(b"\n", position) + 1
            self._note(file, end - position)
            position = end

    def _parse(self, text: bytes, first: int) -> Iterator[FoundFile]:
        for number, line in enumerate(text.splitlines(), first):
            checksum, _, rest = line.partition(b" ")
            if checksum != b"%08x" % zlib.crc32(rest):
                raise damaged(self.path, ValueError(f"line {number - self.first + 2} is not what was written"))
            found, modified, length, path, *settled = json.loads(rest)
            if found != number:
                raise damaged(self.path, ValueError(f"file {number} is missing"))
            yield FoundFile(path, modified, length, *settled)

    def _note(self, file: FoundFile, line_length: int) -> None:
        self._known.add(file.path)
        self._positions.append(self._positions[-1] + line_length)
        self._bytes.append(self._bytes[-1] + file.length)


def _line(number: int, file: FoundFile) -> bytes:
    settled = (file.settled,) if file.settled else ()  # up to 0.3.3 it was not written
    rest = json.dumps([number, file.modified, file.length, file.path, *settled], separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(rest), rest)
