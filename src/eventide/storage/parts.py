"""Rows of a batch that tasks write by themselves, because they are too many to travel with the account.

A part is an Arrow file in the folder of its batch, under a name that no other attempt uses. It counts once the account
names it; what failed or repeated attempts have written beside it is deleted.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eventide.errors import StorageError
from eventide.storage.atomic import unwritable
from eventide.storage.paths import AnyPath, RemotePath


@dataclass(frozen=True)
class Part:
    """A file with rows of a batch. `name` is below the folder of the results; `rows` is -1 where it was never told."""

    name: str
    rows: int
    bytes: int


class PartWriter:
    """Writes one part. What was written is durable when `close` returns."""

    def __init__(self, results: AnyPath, kind: str, batch: int, shard: int, attempt: int) -> None:
        folder = parts_folder(results, batch)
        self._path: AnyPath = folder / f"{kind}-{shard}-{attempt}-{uuid.uuid4().hex[:8]}.arrow"
        self._name = f"{folder.name}/{self._path.name}"
        self._rows = 0
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def write(self, table: pa.Table) -> None:
        with self._errors():
            if self._writer is None:
                self._file = _new_file(self._path)
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                self._writer = pa.ipc.new_file(self._file, table.schema, options=options)
            self._writer.write_table(table, max_chunksize=_CHUNK)
        self._rows += table.num_rows

    def close(self) -> Part:
        if self._writer is None:
            raise ValueError("nothing was written")
        with self._errors():
            self._writer.close()
            if not isinstance(self._path, RemotePath):
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
            return Part(self._name, self._rows, self._path.stat().st_size)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self._path, error) from error


_CHUNK = 131_072  # rows of a record batch: as many as a reader must have in memory at once


def _new_file(path: AnyPath) -> Any:
    if isinstance(path, RemotePath):
        return path.create()
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def parts_folder(results: AnyPath, batch: int) -> AnyPath:
    return results / f"{batch:012d}.parts"


def is_shared(results: AnyPath) -> bool:
    """Whether a task sees the checkpoint that the driver has: it was made before the first batch."""
    return (results.parent / "plan.json").exists()


def check_part(results: AnyPath, part: Part) -> None:
    """Raise if the driver does not see what a task has written."""
    path = results / part.name
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        size = -1
    if size != part.bytes:
        found = "not there" if size < 0 else f"{size} bytes long, not {part.bytes}"
        raise StorageError(
            f"{path}, which a task has written, is {found}",
            help="the checkpoint must be on a disk that the driver and all workers share; see docs/state.md",
        )
