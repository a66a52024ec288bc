"""What the tasks of a batch have given, as the driver gets it: rows that came along, and names of what was written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame

from eventide.kernels.contract import SIDE_OUTPUT_SCHEMA
from eventide.spark.pack import ACCOUNT, SIDE, TAG, TAGGED_SCHEMA
from eventide.spark.task_output import PROPERTY, WRITTEN, Assignment, OutputForm, TaskOutput, Written, completed
from eventide.storage.parts import Part
from eventide.tasks.packing import NOT_READ, OVERDRAWN, UNDECODED, from_blob

Piece: TypeAlias = pa.Table | Written
_TAGGED = pa.schema([("tag", pa.string()), ("blob", pa.binary())])


@dataclass(frozen=True)
class Given:
    """What the operator gave in a batch, each kind in the order in which it came."""

    main: list[Piece]
    side: list[Piece]
    accounts: list[str]
    undecoded: str | None  # where a scan has met lines that only Spark can decode
    is_overdrawn: bool = False  # whether tasks let rows pass that limits do not admit
    lacks_originals: bool = False  # whether rows are put aside of which not all columns were read


def opened(table: pa.Table) -> Given:
    """From tagged blobs."""
    given = Given([], [], [], None)
    undecoded, is_overdrawn, lacks_originals = None, False, False
    for tag, blob in zip(table["tag"].to_pylist(), table["blob"], strict=True):
        content = blob.as_buffer()
        if tag == "account":
            given.accounts.append(bytes(content).decode())
        elif tag == UNDECODED:
            undecoded = undecoded or bytes(content).decode()
        elif tag == OVERDRAWN:
            is_overdrawn = True
        elif tag == NOT_READ:
            lacks_originals = True
        elif tag == WRITTEN:
            written = Written.from_blob(bytes(content))
            (given.main if written.kind == "main" else given.side).append(written)
        else:
            (given.main if tag == "main" else given.side).append(from_blob(content))
    return Given(given.main, given.side, given.accounts, undecoded, is_overdrawn, lacks_originals)


def assigned(frame: DataFrame, form: OutputForm, assignment: Assignment) -> DataFrame:
    """The frame of a batch with tagged blobs, whose tasks know what they are to write."""
    if frame.columns != _TAGGED.names:
        plain = frame.toDF(*[f"c{number}" for number in range(len(frame.columns))])  # mapInArrow takes no backticks
        return plain.mapInArrow(TaskWriter(form, assignment, tuple(frame.columns)), TAGGED_SCHEMA)
    context = getattr(frame.sparkSession, "sparkContext", None)  # which a remote session does not have
    if context is not None:
        context.setLocalProperty(PROPERTY, assignment.to_json())
    return frame


def divided(side: Sequence[Piece]) -> tuple[pa.Table, list[Written]]:
    """Side rows that came along, and what was written of them."""
    tables = [piece for piece in side if isinstance(piece, pa.Table)]
    own = pa.concat_tables(tables) if tables else SIDE_OUTPUT_SCHEMA.empty_table()
    return own, [piece for piece in side if isinstance(piece, Written)]


def stored(pieces: Sequence[Piece]) -> list[pa.Table | Part]:
    """What of them is kept with the stream."""
    found = [piece.part if isinstance(piece, Written) else piece for piece in pieces]
    return [each for each in found if each is not None]


def rows_of(piece: Piece) -> int:
    """How many rows of it are kept with the stream."""
    if isinstance(piece, Written):
        return 0 if piece.part is None else piece.part.rows
    rows: int = piece.num_rows
    return rows


def arranged(form: OutputForm, main: Sequence[Piece]) -> list[Piece]:
    """Main rows as they are stored, in the order in which they leave: of a change log, what is taken back in any shard
    comes first. What came along is one table, unless something written stands between.
    """
    tables = [piece for piece in main if isinstance(piece, pa.Table)]
    pieces: list[Piece] = [pa.concat_tables(tables)] if tables and len(tables) == len(main) else list(main)
    if not pieces:
        return [form.nothing]
    ranked: list[tuple[int, Piece]] = []
    for piece in pieces:
        parts = {piece.rank: piece} if isinstance(piece, Written) else form.stored(piece)
        ranked += [(rank or 0, part) for rank, part in parts.items()]
    found: list[Piece] = []
    for _, piece in sorted(ranked, key=lambda each: each[0]):
        if found and isinstance(piece, pa.Table) and isinstance(found[-1], pa.Table):
            found[-1] = pa.concat_tables([found[-1], piece])
        else:
            found.append(piece)
    return found


@dataclass(frozen=True)
class TaskWriter:
    """mapInArrow function behind the expressions that Spark evaluates: rows of all kinds → tagged blobs."""

    form: OutputForm
    assignment: Assignment
    names: tuple[str, ...]  # of the columns

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        output = TaskOutput(self.form, _partition(), self.assignment.reachable)
        began, watermark = None, None  # which an account says, and it comes first
        for batch in batches:
            table = pa.Table.from_batches([batch]).rename_columns(list(self.names))
            tags = table[TAG]
            for tag in ("account", UNDECODED, OVERDRAWN, NOT_READ):
                for text in table.filter(pc.equal(tags, tag))[ACCOUNT].to_pylist():
                    if tag == "account":
                        began, watermark = _times(text)
                    yield _tagged(tag, text.encode())
            output.add_main(table.filter(pc.equal(tags, "main")).drop_columns([TAG, SIDE, ACCOUNT]))
            side = table.filter(pc.equal(tags, "side"))
            if side.num_rows:
                output.add_side(completed(_fields(side[SIDE]), began, watermark))
        for tag, blob in output.end():
            yield _tagged(tag, blob)


def _times(account: str) -> tuple[int, int | None]:
    told = json.loads(account)
    return told["now"], told["watermark"]


def _partition() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _fields(side: pa.ChunkedArray) -> pa.Table:
    struct = side.combine_chunks()
    return pa.table({struct.type.field(i).name: column for i, column in enumerate(struct.flatten())})


def _tagged(tag: str, blob: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"tag": tag, "blob": blob}], _TAGGED)
