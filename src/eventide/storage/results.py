"""What a stream emitted: for each batch its rows, its side output and its account, all or nothing.

    NNNNNNNNNNNN.main.arrow   rows of the stream, if they came with the account
    NNNNNNNNNNNN.side.arrow   side-output payloads, likewise
    NNNNNNNNNNNN.parts/       rows and payloads that tasks have written, where they are many
    NNNNNNNNNNNN.json         account, totals and the names of those files; a batch counts once it is there
    NNNNNNNNNNNN-FFFFFFFFFFFF-L.json   the same of batches F to N that were put together; see `storage.compaction`

Totals accumulate over all batches, so the newest account has the sum of all.
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from eventide.errors import CheckpointError
from eventide.eventtime.lanes import Lanes
from eventide.storage.atomic import damaged, read_arrow, read_json, replacing, write_json
from eventide.storage.parts import Part, check_part, parts_folder
from eventide.storage.paths import AnyPath, listed, remove_tree

OUTPUT_OP = "__op"  # int32, of main rows of a change log: -1 for one that is taken back, which goes with it unseen
ROWS_OUT = "rows_out"  # an event: how many rows left the stream
OUTPUT_TIME = "__rowtime"  # int64, of main rows: the event time of a row that leaves, which goes with it unseen
KINDS = ("main", "side")
_LARGE = 1 << 20  # bytes of a table that several threads compress
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
    taken: int = 0  # the newest manifest of the inbox that was taken in
    files: dict[str, list[dict[str, Any]]] | None = None  # by kind, in their order; None: as 0.2 named them
    took: dict[str, int] = field(default_factory=dict)  # microseconds that the phases of the batch took, by name
    # by shard, where one key had most of the rows when many came last: its values, and its share of the rows
    busiest: dict[str, dict[str, Any]] = field(default_factory=dict)
    # the shard that the others waited for, if one took far longer: shard, spent, usual (microseconds)
    straggler: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, order=True)
class Unit:
    """Batches `first` to `last`, stored as one under the number of the last. `level` says how often they were put
    together.
    """

    last: int
    first: int
    level: int = 0

    @property
    def name(self) -> str:
        own = "" if self.level == 0 else f"-{self.first:012d}-{self.level}"
        return f"{self.last:012d}{own}.json"

    @classmethod
    def of(cls, path: AnyPath) -> Unit:
        last, *rest = map(int, path.stem.split("-"))
        return cls(last, *rest) if rest else cls(last, last)


class Results:
    """Safe for threads: one commits, one puts together, others read."""

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = threading.RLock()
        self._cache = _Cache()
        found = sorted(map(Unit.of, self.folder.glob("[0-9]*.json")), key=lambda unit: (unit.last, -unit.first))
        self._units: list[Unit] = []
        for unit in reversed(found):  # what was put together covers what it was made of
            if not self._units or unit.last < self._units[-1].first:
                self._units.append(unit)
        self._units.reverse()
        self._covered = sorted(set(found) - set(self._units))
        self._files: dict[int, Mapping[str, Sequence[Part]]] = {}
        self._latest = self._read_account(self._units[-1].last) if self._units else None

    def tidy(self) -> None:
        """Delete what failed attempts have left behind; for the process that has the checkpoint open."""
        for folder in self.folder.glob("[0-9]*.parts"):
            batch = int(folder.stem)
            if not self.has(batch):
                remove_tree(folder)
            elif self._latest is not None and batch == self._latest.batch:
                self._delete_unnamed(batch)
        for unit in self._covered:
            (self.folder / unit.name).unlink(missing_ok=True)
        if self._covered:
            self._delete_loose()
        self._covered = []
        for path in self.folder.glob(".*.tmp"):
            path.unlink(missing_ok=True)

    def _delete_loose(self) -> None:
        """Files that a crash has kept from being deleted when they were put together."""
        named = {part.name for unit in self._units for parts in self._parts(unit.last).values() for part in parts}
        for path in self.folder.glob("[0-9]*.arrow"):
            if path.name not in named:
                path.unlink(missing_ok=True)

    def has(self, batch: int) -> bool:
        return bool(self._units) and batch <= self._units[-1].last

    def units(self) -> list[Unit]:
        """What is stored, in order."""
        with self.lock:
            return list(self._units)

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
        unit = Unit(account.batch, account.batch)
        write_json(self.folder / unit.name, account.__dict__)
        with self.lock:
            self._units.append(unit)
            self._files[account.batch] = kept
            self._latest = account

    def replace(self, old: Sequence[Unit], new: Unit, files: Mapping[str, Sequence[Part]]) -> None:
        """Let `new`, which has the account of the last of them, stand for consecutive units; `files` are its rows.

        What was theirs is deleted. A crash leaves either the old ones, or the new one and what a `tidy` deletes.
        """
        account = self.account(new.last)
        account.files = {kind: [asdict(part) for part in parts] for kind, parts in files.items()}
        gone = {part.name for unit in old for parts in self._parts(unit.last).values() for part in parts}
        gone -= {part.name for parts in files.values() for part in parts}
        with self.lock:
            write_json(self.folder / new.name, account.__dict__)
            place = self._units.index(old[0])
            self._units[place : place + len(old)] = [new]
            for unit in old:
                self._files.pop(unit.last, None)
            self._files[new.last] = files
            for unit in old:
                if unit.name != new.name:
                    (self.folder / unit.name).unlink(missing_ok=True)
            for path in [self.folder / name for name in gone]:
                path.unlink(missing_ok=True)
                self._cache.forget(path)
            stays = {_folder_of(part.name) for parts in files.values() for part in parts}
            for folder in {_folder_of(name) for name in gone} - stays - {"."}:
                remove_tree(self.folder / folder)  # with what attempts have left after the batch

    def batches(self, after: int = -1) -> list[int]:
        """The stored batches later than `after`, in order; of batches that were put together the last."""
        return [unit.last for unit in self.units() if unit.last > after]

    def side(self, batch: int) -> pa.Table | None:
        """The payloads of one batch, read anew; None if it has none."""
        with self.lock:
            tables = list(self.pieces(batch, "side"))
        return pa.concat_tables(tables) if tables else None

    def pieces(self, batch: int, kind: str) -> Iterator[pa.Table]:
        """The rows of one batch, read anew, a file at a time."""
        for part in self.parts(batch, kind):
            yield read_arrow(self.folder / part.name)

    def parts(self, batch: int, kind: str) -> Sequence[Part]:
        """The files of a batch that is kept."""
        return self._parts(batch)[kind]

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
        while True:
            with self.lock:
                units = list(self._units)
                paths = [self.folder / part.name for unit in units for part in self._parts(unit.last)[kind]]
            try:
                tables = [fitted(self._cache.read(path), schema) for path in paths]
            except CheckpointError:
                if units == self.units():
                    raise
                continue  # something was put together meanwhile
            return pa.concat_tables([schema.empty_table(), *tables])

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
                parts.append(self.write_table(f"{batch:012d}.{kind}{own}.arrow", each))
        return parts

    def forget_parts(self, batch: int) -> None:
        """Delete what tasks have written for a batch whose account names none of it."""
        remove_tree(parts_folder(self.folder, batch))

    def _delete_unnamed(self, batch: int, kept: Mapping[str, Sequence[Part]] | None = None) -> None:
        """What attempts have written whose results did not count."""
        named = {part.name for parts in (kept or self._parts(batch)).values() for part in parts}
        with contextlib.suppress(FileNotFoundError):
            for path in listed(parts_folder(self.folder, batch), "*"):
                if f"{path.parent.name}/{path.name}" not in named:
                    path.unlink(missing_ok=True)

    def _read_account(self, batch: int) -> Account:
        """That of the unit which ends with it: a crash may have left that of the batch alone beside it."""
        with self.lock:
            place = bisect_left(self._units, batch, key=lambda unit: unit.last)
            unit = self._units[place] if place < len(self._units) else None
        if unit is None or unit.last != batch:
            return read_account(self.folder, batch)
        return _account_in(self.folder / unit.name)

    def write_table(self, name: str, table: pa.Table) -> Part:
        """A file of rows, durable when it returns; it counts once an account names it."""
        path = self.folder / name
        is_large = table.nbytes > _LARGE
        options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=is_large)  # else waiting for one takes longer
        with replacing(path) as temporary, pa.OSFile(str(temporary), "wb") as file:
            with pa.ipc.new_file(file, table.schema, options=options) as writer:
                writer.write_table(table)
            file.flush()
            size = temporary.stat().st_size
        return Part(name, table.num_rows, size)


class _Cache:
    """Tables by path, those that were asked for last, up to a number of bytes. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[AnyPath, pa.Table] = {}
        self._bytes = 0

    def read(self, path: AnyPath) -> pa.Table:
        with self._lock:
            table = self._tables.pop(path, None)
            if table is not None:
                self._tables[path] = table
                return table
        table = read_arrow(path)
        with self._lock:
            if path not in self._tables:
                self._bytes += table.nbytes
            self._tables[path] = table
            while self._bytes > _MOST_CACHED:
                self._bytes -= self._tables.pop(next(iter(self._tables))).nbytes
        return table

    def forget(self, path: AnyPath) -> None:
        with self._lock:
            table = self._tables.pop(path, None)
            self._bytes -= 0 if table is None else table.nbytes


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


def read_batch(folder: AnyPath, batch: int, kind: str) -> Iterator[pa.Table]:
    """The rows of `kind` of one batch as they were stored, a file at a time."""
    for part in _named_by(folder, read_account(folder, batch))[kind]:
        yield read_arrow(folder / part.name)


def read_account(folder: AnyPath, batch: int) -> Account:
    return _account_in(_account_path(folder, batch))


def _account_in(path: AnyPath) -> Account:
    try:
        value: dict[str, Any] | None = read_json(path)
        if value is None:
            raise FileNotFoundError("no such file")
        return Account(**value)
    except (TypeError, FileNotFoundError) as error:
        raise damaged(path, error) from None


def _named_by(folder: AnyPath, account: Account) -> Mapping[str, Sequence[Part]]:
    """The files of a batch by kind; an account of release 0.2 or before names none."""
    if account.files is not None:
        return {kind: [Part(**part) for part in account.files[kind]] for kind in KINDS}
    names = {kind: f"{account.batch:012d}.{kind}.arrow" for kind in KINDS}
    return {
        kind: [Part(name, -1, (folder / name).stat().st_size)] if (folder / name).exists() else []
        for kind, name in names.items()
    }


def _account_path(folder: AnyPath, batch: int) -> AnyPath:
    """Of a batch, or of several that were put together up to it."""
    path = folder / f"{batch:012d}.json"
    return path if path.exists() else next(iter(listed(folder, f"{batch:012d}-*.json")), path)


def _folder_of(part: str) -> str:
    return str(PurePosixPath(part).parent)


def add_counts(*counts: dict[str, int]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
