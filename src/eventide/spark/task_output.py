"""What a task gives of a batch: little travels with the account, as blobs; of much only the names of the files travel
that the task has written, to the results of the stream and for those of its sinks that are folders of files.

The driver tells the tasks of a batch by a local property of Spark what to write and where. A task that finds none, or
does not see the driver's disk, sends everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from eventide.connectors.files.write import FileTarget, StagedFile
from eventide.kernels.vector.text import readable
from eventide.plan.side_output import Route
from eventide.spark.side_output import kept
from eventide.storage.parts import Part, PartWriter, is_shared
from eventide.storage.paths import AnyPath, path_in
from eventide.storage.payloads import late_rows, to_payloads
from eventide.storage.results import OUTPUT_OP, OUTPUT_TIME
from eventide.storage.stores import Store
from eventide.tasks.packing import to_blob
from eventide.tasks.select_list import RANK

PROPERTY = "eventide.assignment"
WRITTEN = "written"  # the tag of what a task has written by itself
MOST_BYTES = 512 << 10  # of a kind of rows that travel, per call of the operator

Tagged: TypeAlias = tuple[str, bytes]


@dataclass(frozen=True)
class Assignment:
    """What the tasks of a batch write: parts below `results`, and files of sinks."""

    batch: int
    results: str
    sinks: tuple[FileTarget, ...] = ()
    late_sinks: tuple[FileTarget, ...] = ()
    side: bool = True  # whether payloads may be written: not where the driver needs all of them
    store: Store | None = None  # in which the results are; None: they are files of this machine

    @property
    def folder(self) -> AnyPath:
        return path_in(self.results, self.store)

    def to_json(self) -> str:
        """Without the store: Spark shows local properties, and a store may have credentials."""
        return json.dumps(asdict(replace(self, store=None)))

    @classmethod
    def from_json(cls, text: str, store: Store | None) -> Assignment:
        told: dict[str, Any] = json.loads(text)
        targets = {
            name: tuple(
                FileTarget(**{**target, "json_columns": tuple(target["json_columns"])}) for target in told[name]
            )
            for name in ("sinks", "late_sinks")
        }
        return cls(**{**told, **targets, "store": store})

    @classmethod
    def of_task(cls, store: Store | None) -> Assignment | None:
        """That of the task which runs here, if it can write where the driver reads."""
        context = TaskContext.get()
        text = None if context is None else context.getLocalProperty(PROPERTY)
        if text is None:
            return None
        return cls.from_json(text, store).reachable()

    def reachable(self) -> Assignment | None:
        """What of it can be written here; None if nothing."""
        if not is_shared(self.folder):
            return None
        seen, seen_late = (
            tuple(target for target in targets if target.is_seen) for targets in (self.sinks, self.late_sinks)
        )
        return replace(self, sinks=seen, late_sinks=seen_late, side=self.side and seen_late == self.late_sinks)


@dataclass(frozen=True)
class Written:
    """What a task tells of rows that it has written. `staged` are files, by the key of the sink that they are for."""

    kind: str
    rank: int | None  # of a change log: -1 for rows that are taken back
    part: Part | None  # None: nothing of it is stored
    staged: Mapping[str, str | None]  # None: nothing of it is for that sink
    failed: int = 0  # how many of them are results that could not be finished

    def to_blob(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_blob(cls, blob: bytes) -> Written:
        told = json.loads(blob)
        return cls(**{**told, "part": None if told["part"] is None else Part(**told["part"])})


@dataclass(frozen=True)
class OutputForm:
    """The rows of a stream as they are stored and given to sinks."""

    outputs: pa.Schema
    originals: tuple[pa.Schema, ...]
    routes: Mapping[str, Route] = field(default_factory=dict)
    store: Store | None = None  # in which the checkpoint is, if it is not a folder

    @property
    def nothing(self) -> pa.Table:
        return self._timed.empty_table()

    @property
    def _timed(self) -> pa.Schema:
        return self.outputs.append(pa.field(OUTPUT_TIME, pa.int64()))

    def stored(self, main: pa.Table) -> dict[int | None, pa.Table]:
        """Finished rows by rank, those that leave first first; with OUTPUT_TIME and, of a change log, OUTPUT_OP."""
        schema = self._timed
        if main.num_rows == 0 or main[RANK].null_count:
            return {None: _with_schema(main, schema)}
        schema = schema.append(pa.field(OUTPUT_OP, pa.int32()))
        main = main.append_column(OUTPUT_OP, main[RANK])
        ranks = sorted(pc.unique(main[RANK]).to_pylist())
        if len(ranks) == 1:
            return {ranks[0]: _with_schema(main, schema)}
        return {rank: _with_schema(main.filter(pc.equal(main[RANK], rank)), schema) for rank in ranks}


def _with_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        rows[field.name] if rows[field.name].type == field.type else rows[field.name].cast(field.type)
        for field in schema
    ]
    return readable(pa.Table.from_arrays(columns, schema=schema))


def completed(side: pa.Table, began: int | None, watermark: int | None) -> pa.Table:
    """Side rows; those of results that failed with what is known of the batch."""
    known = {"processing_time": began, "watermark": watermark}
    for name, value in known.items() if side["shard"].null_count else ():
        place = side.schema.get_field_index(name)
        filled = pc.coalesce(side[name], pa.scalar(value, pa.int64()).cast(side[name].type))
        side = side.set_column(place, side.schema.field(place), filled)
    return side


class TaskOutput:
    """Collects what one call of the operator gives, or one task behind it, and says in tagged blobs what there is."""

    def __init__(self, form: OutputForm, shard: int, assignment: Callable[[], Assignment | None]) -> None:
        self._form = form
        self._shard = shard
        self._find = assignment
        self._main = _Rows("main")
        self._side = _Rows("side")

    def add_main(self, table: pa.Table) -> None:
        """Finished rows."""
        if self._main.add(table) > MOST_BYTES:
            self._pour(self._main, self._write_main)

    def add_side(self, table: pa.Table) -> None:
        """Side rows that say of what batch and shard they are."""
        if self._side.add(table) > MOST_BYTES:
            self._pour(self._side, self._write_side)

    def end(self) -> Iterator[Tagged]:
        for rows, write in ((self._main, self._write_main), (self._side, self._write_side)):
            if rows.files:
                self._pour(rows, write)
                yield from ((WRITTEN, file.close().to_blob()) for _, file in sorted(rows.files.items()))
            else:
                yield from ((rows.kind, to_blob(table)) for table in rows.held)

    def _pour(self, rows: _Rows, write: Callable[[Assignment, pa.Table], None]) -> None:
        """Write what is held, if a file can be written here."""
        assignment = self._assignment()
        if assignment is not None and rows.held and (rows.kind == "main" or assignment.side):
            for table in rows.held:
                write(assignment, table)
            rows.held, rows.bytes = [], 0

    def _assignment(self) -> Assignment | None:
        if not hasattr(self, "_found"):
            self._found = self._find()
        return self._found

    def _write_main(self, assignment: Assignment, table: pa.Table) -> None:
        for rank, stored in self._form.stored(table).items():
            file = self._main.file(rank, assignment, assignment.sinks, self._shard)
            file.write(stored, stored.select(self._form.outputs.names))

    def _write_side(self, assignment: Assignment, table: pa.Table) -> None:
        payloads = to_payloads(table)
        file = self._side.file(None, assignment, assignment.late_sinks, self._shard)
        late = late_rows(payloads, self._form.originals) if assignment.late_sinks else None
        file.write(kept(self._form.routes, payloads), late, table["shard"].null_count)


@dataclass
class _Rows:
    """Rows of one kind: held, or in files by rank."""

    kind: str
    held: list[pa.Table] = field(default_factory=list)
    bytes: int = 0
    files: dict[int, _Files] = field(default_factory=dict)

    def add(self, table: pa.Table) -> int:
        """Hold rows; returns the bytes that are held."""
        if table.num_rows:
            self.held.append(table)
            self.bytes += table.nbytes
        return self.bytes

    def file(self, rank: int | None, to: Assignment, targets: tuple[FileTarget, ...], shard: int) -> _Files:
        if (rank or 0) not in self.files:
            self.files[rank or 0] = _Files(self.kind, rank, to, targets, shard)
        return self.files[rank or 0]


class _Files:
    """The files of rows that have the same rank: that of the results, and one for each sink."""

    def __init__(
        self, kind: str, rank: int | None, to: Assignment, targets: tuple[FileTarget, ...], shard: int
    ) -> None:
        context = TaskContext.get()
        self._place = (to.batch, shard, 0 if context is None else context.taskAttemptId())
        self._kind, self._rank, self._failed = kind, rank, 0
        self._results, self._targets = to.folder, targets
        self._part: PartWriter | None = None
        self._staged: dict[str, StagedFile] = {}

    def write(self, stored: pa.Table, given: pa.Table | None, failed: int = 0) -> None:
        """`stored` goes to the results, `given` to sinks."""
        self._failed += failed
        if stored.num_rows:
            self._part = self._part or PartWriter(self._results, self._kind, *self._place)
            self._part.write(stored)
        if given is not None and given.num_rows:
            for target in self._targets:
                if target.key not in self._staged:
                    self._staged[target.key] = StagedFile(target, *self._place)
                self._staged[target.key].write(given)

    def close(self) -> Written:
        nothing = {target.key: None for target in self._targets}
        staged = nothing | {key: file.close() for key, file in self._staged.items()}
        part = None if self._part is None else self._part.close()
        return Written(self._kind, self._rank, part, staged, self._failed)
