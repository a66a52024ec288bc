"""Small batches of a sink in one file, until it has the size that was asked for.

With each batch the file is written anew, under the name of its first batch, and takes the place of the one before in a
single step: a reader finds every row, and none twice. Which batch came last, and how much was there before it, is noted
first: a batch that comes again after a crash replaces its own rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet

from eventide.storage.atomic import read_json, replacing, write_json


@dataclass(frozen=True)
class _Note:
    """The file `name` holds batches up to `batch`, which came after `before` rows, or bytes of a text."""

    name: str
    batch: int
    before: int
    schema: str


class EncoderFor(Protocol):
    def __call__(self, file: BinaryIO, *, continues: bool) -> Any: ...


class Gathering:
    def __init__(self, folder: Path, identity: str, format: str, size: int, encoder: EncoderFor) -> None:
        self._folder = folder
        self._path = folder / f".eventide-{identity}.json"
        self._is_parquet = format == "parquet"
        self._size = size
        self._encoder = encoder

    def takes(self, rows: pa.Table) -> bool:
        """Whether it is worth it: a batch that would make a whole file of its own is not."""
        return bool(rows.nbytes < self._size)

    def add(self, batch: int, rows: pa.Table, name: Callable[[int], str]) -> str:
        """Add the rows of a batch, and return the name of their file; `name` names one after its first batch."""
        note = self._note()
        if note is not None and note.batch == batch:
            name_now, before = note.name, note.before
        else:
            name_now, before = name(batch), 0
            if note is not None and note.schema == str(rows.schema) and note.batch < batch:
                path = self._folder / note.name
                if path.exists() and path.stat().st_size < self._size:
                    name_now, before = note.name, self._length(path)
        write_json(self._path, asdict(_Note(name_now, batch, before, str(rows.schema))))
        self._write(self._folder / name_now, before, rows)
        return name_now

    def end(self) -> None:
        """Let what follows begin another file: rows that came in between must stand between."""
        self._path.unlink(missing_ok=True)

    def _note(self) -> _Note | None:
        kept: dict[str, Any] | None = read_json(self._path)
        return None if kept is None else _Note(**kept)

    def _length(self, path: Path) -> int:
        return pa.parquet.read_metadata(path).num_rows if self._is_parquet else path.stat().st_size

    def _write(self, path: Path, before: int, rows: pa.Table) -> None:
        content: bytes | pa.Table | None = None
        if before:
            content = pa.parquet.read_table(path).slice(0, before) if self._is_parquet else _head(path, before)
        with replacing(path, private=False) as temporary, temporary.open("wb") as file:
            if isinstance(content, bytes):
                file.write(content)
            elif content is not None:
                rows = pa.concat_tables([content.cast(rows.schema), rows])
            encoder = self._encoder(file, continues=before > 0)
            encoder.write(rows)
            encoder.close()


def _head(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        return file.read(length)
