"""A folder of files, readable by Spark, pandas and DuckDB: one for each batch, or several where tasks write them.

A file appears whole, under a name made of the stream's identity and the batch number: a batch that is written again
replaces its own files. A batch without rows leaves no file. Sorted by name, files have the order of the rows.

Where a batch has many rows, tasks write them, to a folder whose name begins with a dot, which all who read the folder
leave out; the driver then moves the files to their places.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from eventide.connectors.files.gathering import Gathering
from eventide.errors import OptionError, StorageError
from eventide.result import Result
from eventide.storage.atomic import replacing, sync_folder, unwritable


@dataclass(frozen=True)
class FileTarget:
    """What a task must know to write files of a sink."""

    folder: str
    format: str
    identity: str
    json_columns: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.format}:{self.folder}"

    @property
    def staging(self) -> Path:
        """Where tasks write; it is there for as long as they do."""
        return Path(self.folder) / f".eventide-{self.identity}"

    @property
    def is_seen(self) -> bool:
        """Whether a task sees the folder, which the driver has made."""
        return os.path.isdir(self.folder)

    def encoder(self, file: BinaryIO, *, continues: bool = False) -> Encoder:
        """`continues` says that rows stand in the file already; of Parquet the encoder gets them, too."""
        match self.format:
            case "parquet":
                return _Parquet(file)
            case "csv":
                return _Csv(file, has_header=continues)
            case _:
                return _Json(file, self.json_columns)


class StagedFile:
    """One file that a task writes. What was written is durable when `close` returns its name."""

    def __init__(self, target: FileTarget, batch: int, shard: int, attempt: int) -> None:
        self._path = target.staging / f"{batch:010d}-{shard}-{attempt}-{uuid.uuid4().hex[:8]}"
        with self._errors():
            self._path.parent.mkdir(exist_ok=True)
            self._file = self._path.open("xb")
        self._encoder = target.encoder(self._file)

    def write(self, rows: pa.Table) -> None:
        with self._errors():
            self._encoder.write(rows)

    def close(self) -> str:
        with self._errors():
            self._encoder.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        return self._path.name

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self._path, error) from error


class FilesSink:
    def __init__(
        self,
        folder: str,
        format: str,
        identity: str,
        json_columns: tuple[str, ...] = (),
        file_size: int | None = None,
    ) -> None:
        if "://" in folder.removeprefix("file://"):
            raise OptionError(
                f"the path {folder} of a files sink is not a folder of a file system",
                help="give a folder that is mounted, s3a://bucket/folder or hdfs://name/folder; the connector 'delta' "
                "knows other stores",
            )
        self._folder = Path(folder.removeprefix("file://"))
        self.target = FileTarget(str(self._folder), format, identity, json_columns)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._gathering = (
            None if file_size is None else Gathering(self._folder, identity, format, file_size, self.target.encoder)
        )
        self._may_repeat = True  # the first batch of a run may be the last of the one before

    def tidy(self) -> None:
        """Delete what attempts have left whose results did not count."""
        shutil.rmtree(self.target.staging, ignore_errors=True)

    def write(self, batch: int, rows: pa.Table) -> None:
        self.commit(batch, [rows])

    def commit(self, batch: int, pieces: Sequence[pa.Table | str]) -> None:
        """Let the rows of a batch appear, in their order: tables, and names of files that tasks have staged."""
        given = [piece for piece in pieces if isinstance(piece, str) or piece.num_rows]
        if self._gathering is not None and given:
            if len(given) == 1 and isinstance(given[0], pa.Table) and self._gathering.takes(given[0]):
                self._settle(batch, [self._gathering.add(batch, given[0], partial(self._name, number=None))])
                return
            self._gathering.end()
        own = [self._name(batch, number if len(given) > 1 else None) for number in range(len(given))]
        for piece, name in zip(given, own, strict=True):
            if isinstance(piece, str):
                self._move(self.target.staging / piece, self._folder / name)
            else:
                self._write_table(self._folder / name, piece)
        self._settle(batch, own)
        if any(isinstance(piece, str) for piece in given):
            sync_folder(self._folder)
            self.tidy()

    def close(self) -> None:
        pass

    def _name(self, batch: int, number: int | None) -> str:
        place = "" if number is None else f"-{number:05d}"
        return f"part-{self.target.identity}-{batch:010d}{place}.{self.target.format}"

    def _write_table(self, path: Path, rows: pa.Table) -> None:
        with replacing(path, private=False) as temporary, temporary.open("wb") as file:
            encoder = self.target.encoder(file)
            encoder.write(rows)
            encoder.close()

    def _move(self, staged: Path, path: Path) -> None:
        try:
            staged.rename(path)
        except FileNotFoundError:
            raise StorageError(
                f"{staged}, which a task has written, is not there",
                help=f"the folder {self._folder} must be on a disk that the driver and all workers share",
            ) from None
        except OSError as error:
            raise unwritable(path, error) from error

    def _settle(self, batch: int, names: Sequence[str]) -> None:
        """Delete files of the same batch from before a crash, if it was divided otherwise then."""
        if not self._may_repeat:
            return
        for path in self._folder.glob(f"part-{self.target.identity}-{batch:010d}[.-]*"):
            if path.name not in names:
                path.unlink(missing_ok=True)
        self._may_repeat = False


# What is in a file --------------------------------------------------------------------------------------------------


class Encoder(Protocol):
    def write(self, rows: pa.Table) -> None: ...

    def close(self) -> None:
        """Write what belongs at the end; the file itself stays open."""


class _Parquet:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._writer: pa.parquet.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._writer = pa.parquet.ParquetWriter(self._file, rows.schema)
        self._writer.write_table(rows)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _Csv:
    def __init__(self, file: BinaryIO, has_header: bool = False) -> None:
        self._file = file
        self._has_header = has_header

    def write(self, rows: pa.Table) -> None:
        options = pa.csv.WriteOptions(include_header=not self._has_header)
        pa.csv.write_csv(flat(rows), self._file, options)
        self._has_header = True

    def close(self) -> None:
        pass


class _Json:
    def __init__(self, file: BinaryIO, json_columns: tuple[str, ...]) -> None:
        self._file = file
        self._json_columns = json_columns

    def write(self, rows: pa.Table) -> None:
        self._file.writelines(f"{as_json(row)}\n".encode() for row in Result(rows, self._json_columns))

    def close(self) -> None:
        pass


# How values are written ---------------------------------------------------------------------------------------------


def flat(rows: pa.Table) -> pa.Table:
    """The same rows in a form that CSV has: each struct as one column per field, `window_start` for `window.start`,
    lists and maps as JSON, bytes in base64. The csv source reads all of it back.
    """
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        for flat_name, values in _flat(name, column):
            unlike = flat_name if flat_name not in {*columns, *rows.column_names} or flat_name == name else None
            columns[unlike or f"{name}.{flat_name.removeprefix(name)[1:]}"] = _written(values)
    return pa.table(columns)


def _flat(name: str, column: pa.ChunkedArray) -> Iterator[tuple[str, pa.ChunkedArray]]:
    if not pa.types.is_struct(column.type):
        yield name, column
        return
    for number, field in enumerate(column.type):
        yield from _flat(f"{name}_{field.name}", pc.struct_field(column, [number]))


def _written(column: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A column that pyarrow can write, and that the source takes for the same values."""
    if pa.types.is_nested(column.type):
        values = column.to_pylist(maps_as_pydicts="strict")
        return _texts([None if value is None else as_json(value) for value in values])
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return _texts([None if value is None else _plain(value) for value in column.to_pylist()])
    if pa.types.is_duration(column.type):
        return _texts([None if value is None else _interval(value) for value in column.to_pylist()])
    return column


def interval_texts(rows: pa.Table) -> pa.Table:
    """The rows, with text in place of intervals, for those who have no such type."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_duration(field.type):
            rows = rows.set_column(place, field.name, _written(rows[field.name]))
    return rows


def _texts(values: list[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def _interval(value: dt.timedelta) -> str:
    """As Spark reads an INTERVAL DAY TO SECOND.

    >>> _interval(dt.timedelta(days=-1, microseconds=5))
    '-0 23:59:59.999995'
    """
    sign, value = ("-", -value) if value < dt.timedelta(0) else ("", value)
    minutes, seconds = divmod(value.seconds, 60)
    return f"{sign}{value.days} {minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}.{value.microseconds:06d}"


def as_json(value: Any) -> str:
    return json.dumps(_with_text_keys(value), default=_plain, ensure_ascii=False)


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key if isinstance(key, str | int | float) else _plain(key): _with_text_keys(item)
            for key, item in value.items()
        }
    return [_with_text_keys(item) for item in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """The JSON form of values that JSON has no form for: times in ISO 8601, bytes in base64, decimals as text."""
    if isinstance(value, dt.datetime):
        return (
            value.isoformat() if value.tzinfo is None else value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
        )
    if isinstance(value, dt.date):
        return value.isoformat()
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
