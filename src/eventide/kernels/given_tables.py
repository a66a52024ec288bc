"""The tables that a kernel gives in one call. What is too much for memory waits on disk until somebody takes it.

One key with thousands of rows on each side of a join makes millions of pairs. A call holds few of them at a time, and
who takes them takes one table after the other.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from weakref import finalize

import pyarrow as pa

MOST_BYTES = 64 << 20  # that one call of a kernel holds in memory


class _File:
    """One that nobody else sees; it goes with the last table that is in it."""

    def __init__(self) -> None:
        self._content = tempfile.TemporaryFile(prefix="eventide-tables-")  # noqa: SIM115  # tables need it open
        finalize(self, self._content.close)

    def write(self, table: pa.Table) -> _OnDisk:
        place = self._content.seek(0, os.SEEK_END)
        with pa.ipc.new_stream(pa.PythonFile(self._content, mode="w"), table.schema) as stream:
            stream.write_table(table)
        return _OnDisk(self, place)

    def read(self, place: int) -> pa.Table:
        self._content.seek(place)
        with pa.ipc.open_stream(pa.PythonFile(self._content, mode="r")) as stream:
            return stream.read_all()


@dataclass(frozen=True)
class _OnDisk:
    file: _File
    place: int

    def read(self) -> pa.Table:
        return self.file.read(self.place)


class GivenTables:
    """Tables in order; empty ones are left out."""

    def __init__(self, tables: Iterable[pa.Table] = (), most: int | None = None) -> None:
        self._parts: list[pa.Table | _OnDisk] = []
        self._held = 0  # bytes in memory
        self._most = MOST_BYTES if most is None else most
        self._file: _File | None = None
        for table in tables:
            self.append(table)

    def append(self, table: pa.Table) -> None:
        if table.num_rows == 0:
            return
        self._parts.append(table)
        self._held += table.nbytes
        if self._held > self._most:
            self._parts = [part if isinstance(part, _OnDisk) else self._put_away(part) for part in self._parts]
            self._held = 0

    def __add__(self, other: GivenTables) -> GivenTables:
        """Both, those of `other` behind."""
        both = GivenTables(most=self._most)
        both._parts, both._held, both._file = self._parts + other._parts, self._held + other._held, self._file
        return both

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenTables) and list(self) == list(other)

    def __iter__(self) -> Iterator[pa.Table]:
        for part in self._parts:
            yield part.read() if isinstance(part, _OnDisk) else part

    def __len__(self) -> int:
        return len(self._parts)

    def _put_away(self, table: pa.Table) -> _OnDisk:
        self._file = self._file or _File()
        return self._file.write(table)
