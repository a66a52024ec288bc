"""What a stream emitted: for each batch its rows, its side output and its account, all or nothing.

    NNNNNNNNNNNN.main.arrow   rows of the stream, if they came with the account
    NNNNNNNNNNNN.side.arrow   side-output payloads, likewise
    NNNNNNNNNNNN.parts/       rows and payloads that tasks have written, where they are many
    NNNNNNNNNNNN.json         account, totals and the names of those files; a batch counts once it is there

Totals accumulate over all batches, so the newest account has the sum of all.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from eventide.eventtime.lanes import Lanes
from eventide.storage.atomic import damaged, read_arrow, read_json, replacing, write_json
from eventide.storage.parts import Part, check_part, parts_folder

OUTPUT_OP = "__op"  # int32, of main rows of a change log: -1 for one that is taken back, which goes with it unseen
ROWS_OUT = "rows_out"  # an event: how many rows left the stream
OUTPUT_TIME = "__rowtime"  # int64, of main rows: the event time of a row that leaves, which goes with it unseen
KINDS = ("main", "side")
_MOST_CACHED = 64 << 20  # bytes of rows that were read before


@dataclass
class Account:
    """One batch, and everything up to it. Times in microseconds since the epoch."""

    batch: int
    counts: dict[str, int]
    totals: dict[str, int]
    events: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, int] = field(default_factory=dict)
    watermark: int | None = None
    # by name: watermark, max_timestamp_seen, rows (how many came so far), …
    sources: dict[str, dict[str, int]] = field(default_factory=dict)
    # by name of a source with limits: how many rows so far were admitted and rejected, tokens left
    admission: dict[str, dict[str, float]] = field(default_factory=dict)
    began: int | None = None  # when the batch did
    lanes: dict[str, Lanes] = field(default_factory=dict)  # by name of a source whose partitions have watermarks
    files: dict[str, list[dict[str, Any]]] | None = None  # by kind, in their order; None: as 0.2 named them
    took: dict[str, int] = field(default_factory=dict)  # microseconds that the phases of the batch took, by name


class Results:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self._cache = _Cache()
        self._batches = sorted(int(path.stem) for path in self.folder.glob("[0-9]*.json"))
        self._files: dict[int, Mapping[str, Sequence[Part]]] = {}
        self._latest = self._read_account(self._batches[-1]) if self._batches else None

    def tidy(self) -> None:
        """Delete what failed attempts have left behind; for the process that has the checkpoint open."""
        for folder in self.folder.glob("[0-9]*.parts"):
            batch = int(folder.stem)
            if not self.has(batch):
                shutil.rmtree(folder, ignore_errors=True)
            elif self._latest is not None and batch == self._latest.batch:
                self._delete_unnamed(batch)
        for path in self.folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)

    def has(self, batch: int) -> bool:
        return bool(self._batches) and batch <= self._batches[-1]

    def write(self, main: pa.Table, side: pa.Table, account: Account) -> None:
        """Keep a batch that the driver has in its hands."""
        self.commit([main], [side], account)

    def commit(self, main: Sequence[pa.Table | Part], side: Sequence[pa.Table | Part], account: Account) -> None:
        """Keep a batch: rows as tables, or as parts that tasks have written, in their order. Repeating it is harmless:
        the account, written last, decides.
        """
        kept = {kind: self._stored(account.batch, kind, rows) for kind, rows in zip(KINDS, (main, side), strict=True)}
        account.files = {kind: [asdict(part) for part in parts] for kind, parts in kept.items()}
        if any(isinstance(rows, Part) for rows in (*main, *side)):
            self._delete_unnamed(account.batch, kept)
        write_json(self._account_path(account.batch), account.__dict__)
        self._batches.append(account.batch)
        self._files[account.batch] = kept
        self._latest = account

    def batches(self, after: int = -1) -> list[int]:
        """The stored batches later than `after`, in order."""
        return [batch for batch in list(self._batches) if batch > after]

    def side(self, batch: int) -> pa.Table | None:
        """The payloads of one batch, read anew; None if it has none."""
        tables = list(self.pieces(batch, "side"))
        return pa.concat_tables(tables) if tables else None

    def pieces(self, batch: int, kind: str) -> Iterator[pa.Table]:
        """The rows of one batch, read anew, a file at a time."""
        for part in self._parts(batch)[kind]:
            yield read_arrow(self.folder / part.name)

    def part(self, part: Part) -> pa.Table:
        """What a task has written."""
        return read_arrow(self.folder / part.name)

    def account(self, batch: int) -> Account:
        """The account of a batch that is kept."""
        return self._latest if self._latest is not None and self._latest.batch == batch else self._read_account(batch)

    def has_rows(self, batch: int, kind: str) -> bool:
        return bool(self._parts(batch)[kind])

    def bytes(self, batch: int, kind: str) -> int:
        """How long the stored rows of `kind` are; 0 if there are none."""
        return sum(part.bytes for part in self._parts(batch)[kind])

    def latest(self) -> Account | None:
        return self._latest

    def read(self, kind: str, schema: pa.Schema) -> pa.Table:
        """All rows of `kind` ("main" or "side") with the columns of `schema`, in the order of the batches."""
        paths = [self.folder / part.name for batch in list(self._batches) for part in self._parts(batch)[kind]]
        return pa.concat_tables([schema.empty_table(), *(fitted(self._cache.read(path), schema) for path in paths)])

    def _parts(self, batch: int) -> Mapping[str, Sequence[Part]]:
        if batch not in self._files:
            self._files[batch] = _named_by(self.folder, self.account(batch))
        return self._files[batch]

    def _stored(self, batch: int, kind: str, rows: Sequence[pa.Table | Part]) -> list[Part]:
        given = [each for each in rows if isinstance(each, Part) or each.num_rows]
        parts = []
        for number, each in enumerate(given):
            if isinstance(each, Part):
                check_part(self.folder, each)
                parts.append(each)
            else:
                own = "" if len(given) == 1 else f"-{number}"
                parts.append(self._write_table(f"{batch:012d}.{kind}{own}.arrow", each))
        return parts

    def _delete_unnamed(self, batch: int, kept: Mapping[str, Sequence[Part]] | None = None) -> None:
        """What attempts have written whose results did not count."""
        named = {part.name for parts in (kept or self._parts(batch)).values() for part in parts}
        with contextlib.suppress(FileNotFoundError):
            for path in parts_folder(self.folder, batch).iterdir():
                if f"{path.parent.name}/{path.name}" not in named:
                    path.unlink(missing_ok=True)

    def _read_account(self, batch: int) -> Account:
        return read_account(self.folder, batch)

    def _write_table(self, name: str, table: pa.Table) -> Part:
        path = self.folder / name
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with replacing(path) as temporary, pa.OSFile(str(temporary), "wb") as file:
            with pa.ipc.new_file(file, table.schema, options=options) as writer:
                writer.write_table(table)
        return Part(name, table.num_rows, path.stat().st_size)

    def _account_path(self, batch: int) -> Path:
        return _account_path(self.folder, batch)


class _Cache:
    """Tables by path, those that were asked for last, up to a number of bytes."""

    def __init__(self) -> None:
        self._tables: dict[Path, pa.Table] = {}
        self._bytes = 0

    def read(self, path: Path) -> pa.Table:
        table = self._tables.pop(path, None)
        if table is None:
            table = read_arrow(path)
            self._bytes += table.nbytes
        self._tables[path] = table
        while self._bytes > _MOST_CACHED:
            self._bytes -= self._tables.pop(next(iter(self._tables))).nbytes
        return table


def fitted(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows that an earlier text of the stream, or an earlier release, has given, with the columns of today.

    What was not there then, or cannot be shown in today's type, is NULL.
    """
    columns = [
        _fitted(table[field.name], field.type) if field.name in table.column_names else _nulls(table, field)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _fitted(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.chunked_array([pa.nulls(len(values), kind)])


def _nulls(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(table.num_rows, field.type)])


def read_batch(folder: Path, batch: int, kind: str) -> Iterator[pa.Table]:
    """The rows of `kind` of one batch as they were stored, a file at a time."""
    for part in _named_by(folder, read_account(folder, batch))[kind]:
        yield read_arrow(folder / part.name)


def read_account(folder: Path, batch: int) -> Account:
    path = _account_path(folder, batch)
    try:
        value: dict[str, Any] | None = read_json(path)
        if value is None:
            raise FileNotFoundError("no such file")
        return Account(**value)
    except (TypeError, FileNotFoundError) as error:
        raise damaged(path, error) from None


def _named_by(folder: Path, account: Account) -> Mapping[str, Sequence[Part]]:
    """The files of a batch by kind; an account of release 0.2 or before names none."""
    if account.files is not None:
        return {kind: [Part(**part) for part in account.files[kind]] for kind in KINDS}
    names = {kind: f"{account.batch:012d}.{kind}.arrow" for kind in KINDS}
    return {
        kind: [Part(name, -1, (folder / name).stat().st_size)] if (folder / name).exists() else []
        for kind, name in names.items()
    }


def _account_path(folder: Path, batch: int) -> Path:
    return folder / f"{batch:012d}.json"


def add_counts(*counts: dict[str, int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
