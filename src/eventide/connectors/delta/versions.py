"""What the versions of a Delta table have added: the files of each, and where they lie.

A table is read as a log to which rows are added. A version that takes rows away or changes them is an error, or is
passed over; one that only rearranges files has nothing new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from eventide.errors import SourceError

_REARRANGES = ("OPTIMIZE", "VACUUM START", "VACUUM END", "COMPACT", "CREATE OR REPLACE CHECKPOINT")
_PARTITION = "partition."
_LEFT_OUT = {"deletionVectors", "columnMapping"}  # features of tables whose files do not hold the rows as they are


@dataclass(frozen=True)
class AddedFile:
    uri: str
    modified: int  # microseconds
    values: tuple[tuple[str, Any], ...]  # of the columns that are not in the file: by which the table is partitioned


@dataclass(frozen=True)
class Versions:
    """`skips_changes`: versions that take rows away are passed over, with what they add."""

    source: str
    path: str
    storage: Mapping[str, str]
    skips_changes: bool = False

    def latest(self) -> int:
        version: int = self._table().version()
        return version

    def files(self, start: int, end: int) -> list[AddedFile]:
        """What the versions behind `start` up to `end` have added; behind -1 all that is there at `end`."""
        if start < 0:
            return list(self._of(self._table(end), None))
        operations = {each["version"]: each.get("operation", "") for each in self._table().history()}
        found: list[AddedFile] = []
        before = set(self._table(start).file_uris())
        for version in range(start + 1, end + 1):
            table = self._table(version)
            there = set(table.file_uris())
            if operations.get(version, "") not in _REARRANGES:
                if before - there and not self.skips_changes:
                    raise self._changed(version, operations.get(version, "a change"))
                if not before - there:
                    found += self._of(table, there - before)
            before = there
        return found

    def _table(self, version: int | None = None) -> DeltaTable:
        try:
            table = DeltaTable(self.path, version=version, storage_options=dict(self.storage) or None)
        except TableNotFoundError:
            raise SourceError(f"source {self.source}: there is no Delta table at {self.path}", help=_MAKE) from None
        except (DeltaError, OSError) as error:
            told = " ".join(str(error).split("stack backtrace")[0].split())
            which = "" if version is None else f", version {version},"
            raise SourceError(
                f"source {self.source}: the table {self.path}{which} cannot be read: {told}", help=_GONE
            ) from None
        unlike = _LEFT_OUT & set(table.protocol().reader_features or ())
        if unlike:
            raise SourceError(
                f"source {self.source}: the table {self.path} uses {', '.join(sorted(unlike))}, which is not read here",
                help="read it with 'connector' = 'spark', 'format' = 'delta', and Delta's jars",
            )
        return table

    def _of(self, table: DeltaTable, wanted: set[str] | None) -> Iterator[AddedFile]:
        root = table.table_uri.rstrip("/")
        for action in pa.table(table.get_add_actions(flatten=True)).to_pylist():
            uri = action["path"] if "://" in action["path"] else f"{root}/{action['path']}"
            names = {uri, uri.removeprefix("file://")}
            if wanted is None or names & wanted:
                values = {
                    key.removeprefix(_PARTITION): each for key, each in action.items() if key.startswith(_PARTITION)
                }
                modified = action["modification_time"]
                micros = int(modified.timestamp() * 1_000_000) if hasattr(modified, "timestamp") else modified * 1000
                yield AddedFile(uri, micros, tuple(sorted(values.items())))

    def _changed(self, version: int, operation: str) -> SourceError:
        return SourceError(
            f"source {self.source}: version {version} of the table {self.path} ({operation}) takes rows away that were "
            "read already",
            help="read a table to which rows are only added, or set 'changes' = 'skip' to pass over such versions",
        )


_MAKE = "make the table first; rows may follow later"
_GONE = "VACUUM may have removed what was not read yet: start anew with another checkpoint folder"
