"""The names of files that batches have taken, put together: which of them need not be known any longer.

A file that is still there must be known, or it would be taken again. One that is gone is forgotten when it is older, by
a given time, than the newest of all. Should it come back as it was, because a disk was only not mounted, say, it is
still not taken: nothing is that is not newer than all that was forgotten (`horizon`). A file that is moved or copied
there counts from then, where the file system tells when that was.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from eventide.connectors.files.listing import FoundFile
from eventide.storage.atomic import damaged, write_bytes
from eventide.storage.paths import AnyPath

_SECOND = 1_000_000
_NOTHING = -(1 << 62)


@dataclass(frozen=True)
class Remembered:
    """The files with numbers before `first`; all times are microseconds.

    In memory they stay compressed: only who puts names together needs to know when each arrived.
    """

    first: int = 0
    horizon: int = _NOTHING  # when the newest of those arrived that were forgotten
    packed: bytes = field(default=zlib.compress(b"{}"), repr=False)

    @classmethod
    def newest(cls, folder: AnyPath) -> Remembered:
        """What was written last; nothing if nothing was."""
        written: list[AnyPath] = sorted(folder.glob("names-*.z"), key=lambda path: path.name)
        if not written:
            return cls()
        found = written[-1]
        head, _, packed = found.read_bytes().partition(b"\n")
        try:
            checksum, first, horizon = map(int, head.split())
        except ValueError as error:
            raise damaged(found, error) from None
        read = cls(first, horizon, packed)
        if checksum != read._checksum or found.name != read.name:
            raise damaged(found, ValueError("it is not what was written"))
        return read

    @property
    def name(self) -> str:
        return f"names-{self.first:012d}.z"

    def write(self, folder: AnyPath) -> None:
        head = f"{self._checksum} {self.first} {self.horizon}\n"
        write_bytes(folder / self.name, head.encode() + self.packed)

    def arrivals(self) -> dict[str, int]:
        """When each file arrived, rounded up to seconds."""
        return {path: seconds * _SECOND for path, seconds in json.loads(zlib.decompress(self.packed)).items()}

    def with_files(self, files: Iterable[FoundFile], first: int) -> Remembered:
        """The same and those that follow, up to number `first`."""
        return self._of({**self.arrivals(), **{file.path: file.arrived for file in files}}, first, self.horizon)

    def without_gone(self, there: Iterable[FoundFile], after: int, now: int) -> Remembered:
        """Without those that are not `there`, and older by `after` than the newest. A time to come counts as `now`."""
        arrivals, present = self.arrivals(), {file.path for file in there}
        oldest = min(max(arrivals.values(), default=now), now) - after
        gone = {path: at for path, at in arrivals.items() if at < oldest and path not in present}
        kept = {path: at for path, at in arrivals.items() if path not in gone}
        return self._of(kept, self.first, max([self.horizon, *gone.values()]))

    @property
    def _checksum(self) -> int:
        return zlib.crc32(f"{self.first} {self.horizon}\n".encode() + self.packed)

    @staticmethod
    def _of(arrivals: Mapping[str, int], first: int, horizon: int) -> Remembered:
        seconds = {path: -(-arrivals[path] // _SECOND) for path in sorted(arrivals)}
        return Remembered(first, horizon, zlib.compress(json.dumps(seconds, separators=(",", ":")).encode()))
