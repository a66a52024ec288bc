"""The fused scan: read, decode, resolve event time, filter, project and pack inside one task.

Rows then never cross from the JVM to Python one column at a time. Lines that only Spark can judge leave the scan
undecoded, for Spark to decode afterwards. In a plan in which Spark does not, the scan ends with a row that says so: the
batch is then repeated by a plan in which it does.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventide.eventtime.registry import EpochUnit, Iso8601, SparkTimestamp
from eventide.eventtime.resolution import (
    DECLARED,
    FROM_METADATA,
    FROM_PROCESSING,
    IS_FUTURE,
    IS_UNDECODABLE,
    IS_UNPARSEABLE,
    LEFT_OUT,
    ORDER,
)
from eventide.eventtime.time_range import EARLIEST_US, LATEST_US
from eventide.kernels.contract import DEDUP, DETAIL, SEQ, TS
from eventide.kernels.prefold import TimeBound
from eventide.kernels.vector.columns import column
from eventide.kernels.vector.text import is_readable, is_utf8, readable
from eventide.tasks.byte_ranges import FileRange
from eventide.tasks.csv_lines import CsvLines
from eventide.tasks.expressions import Expression, evaluate
from eventide.tasks.file_content import is_empty
from eventide.tasks.file_errors import naming_file
from eventide.tasks.iso_times import iso_times
from eventide.tasks.json_columns import Mask, Places
from eventide.tasks.json_lines import JsonLines, Piece, RawLines
from eventide.tasks.messages import Messages
from eventide.tasks.packing import (
    ARRIVED,
    HOW,
    KEPT,
    LANE,
    MOST_HELD,
    NOW,
    PACKED,
    PART,
    PRIORITY,
    UNDECODED,
    Forwarder,
    Packing,
    as_batch,
)
from eventide.tasks.partition_folders import InFolders
from eventide.tasks.row_groups import RowGroups
from eventide.tasks.table_lookup import TaskLookup
from eventide.tasks.tables import Tables

# What a scan returns: packed rows, and lines that Spark must decode.
ROW, RECEIVED = "row", "received"
SCANNED = pa.schema([*PACKED, (ROW, pa.binary()), (RECEIVED, pa.int64()), ("seq", pa.int64())])
_MOST_ROWS = 1_000_000  # that a task collects before it packs them
_MOST_FORWARDED = 131_072  # the same, where it is done with them then
_FILE_BITS = 44  # in an order of arrival: the place in the file is below them, the file's number above


Packed: TypeAlias = tuple[tuple[str, Expression], ...]
# When rows came, in microseconds: all at once, or each, if asked; None where nobody knows.
Received: TypeAlias = int | Callable[[], pa.Array] | None


@dataclass(frozen=True)
class Arrival:
    """Consecutive rows as they came: decoded, or as lines that only Spark can judge.

    `first` numbers the first of them in the order of arrival, and `places` the others from there on; without, they are
    consecutive. `where` says in words where they were found, `lane` from which partition they came. `beside` has
    columns that lines take with them. `whole` gives chosen rows with all columns, where `rows` lacks some. `runs` and
    `goes_on` are those of a `Piece`, as numbers in the order of arrival.
    """

    rows: pa.Table | None
    lines: Sequence[bytes | None]
    received: Received
    first: int
    where: str
    lane: str | None = None
    beside: pa.Table | None = None
    place: Callable[[int], str] | None = None  # of each row, in words, for one that has a problem
    places: Places | None = None
    whole: Callable[[Mask], pa.Table] | None = None
    runs: Places | int | None = None
    goes_on: bool = False

    @classmethod
    def of_piece(cls, piece: Piece, before: int, received: int, where: str) -> Arrival:
        """`before` is what comes before the piece's own places in the order of arrival."""
        return cls(
            piece.rows,
            piece.lines,
            received,
            before + (piece.at if piece.places is None else 0),
            where,
            beside=piece.beside,
            places=piece.places,
            whole=piece.whole,
            runs=None if piece.runs is None else before + piece.runs,
            goes_on=piece.goes_on,
        )

    def numbers(self, count: int) -> pa.Array:
        """The order of arrival."""
        return pa.array(np.arange(self.first, self.first + count) if self.places is None else self.first + self.places)


@dataclass(frozen=True)
class Resolution:
    """Where the event time is; without a column, the time of the batch counts."""

    column: str | None = None
    parser: EpochUnit | Iso8601 | SparkTimestamp | None = None
    max_future_skew: int = 0

    @property
    def iso(self) -> str | None:
        """The column, if it must hold ISO 8601 times."""
        return self.column if isinstance(self.parser, Iso8601) else None

    def resolved(self, rows: pa.Table, received: Received, at: int) -> tuple[pa.Array, pa.Array, pa.Array]:
        """TS, HOW and DETAIL. `received` is what the source knows about the rows' time, `at` is the time of the
        batch.
        """
        count = rows.num_rows
        if self.column is None:
            return _all(at, count), _all(DECLARED, count, np.int8), pa.nulls(count, pa.string())
        values = column(rows, self.column)
        declared = self._micros(values)
        missing = values.null_count > 0
        unparseable = declared.null_count > values.null_count
        latest = pc.max(declared).as_py()
        if not missing and not unparseable and latest is not None and latest <= at + self.max_future_skew:
            return declared, _all(DECLARED, count, np.int8), pa.nulls(count, pa.string())
        is_bad = pc.and_(values.is_valid(), declared.is_null())
        is_future = pc.fill_null(pc.greater(declared, at + self.max_future_skew), False)
        is_there = {IS_UNPARSEABLE: is_bad, IS_FUTURE: is_future, DECLARED: values.is_valid()}
        how = _judged(is_there if received is None else {**is_there, FROM_METADATA: True})
        ts = pc.if_else(values.is_null(), _each(at if received is None else received, count), declared)
        detail = pc.if_else(pc.or_(is_bad, is_future), _as_text(values), pa.scalar(None, pa.string()))
        return ts, how, detail

    def _micros(self, values: pa.Array) -> pa.Array:
        match self.parser:
            case EpochUnit() if self.parser.micros_denominator == 1:
                factor = self.parser.micros_numerator
                values = values.cast(pa.int64())
                return pc.multiply(_within(values, EARLIEST_US // factor, LATEST_US // factor), factor)
            case EpochUnit():
                numbers = values.cast(pa.int64())
                parts = pc.fill_null(numbers, 0).to_numpy() // self.parser.micros_denominator
                return _within(pa.array(parts, mask=np.asarray(numbers.is_null())), EARLIEST_US, LATEST_US)
            case Iso8601():
                times = iso_times(values)
                if times is None:
                    raise ValueError(f"{self.column} holds text that the reader should have left to Spark")
                return _within(times.cast(pa.int64()), EARLIEST_US, LATEST_US)
            case _:
                return _within(values.cast(pa.int64()), EARLIEST_US, LATEST_US)


@dataclass(frozen=True)
class FusedScan:
    """Everything between files, or messages, and the operator for one source. `identity` recognises a redelivered
    row.
    """

    reader: JsonLines | RawLines | CsvLines | RowGroups | InFolders | Messages | Tables
    resolution: Resolution
    condition: Expression | None
    packed: Packed
    packing: Packing
    identity: Expression | None = None
    numbered: bool = False  # whether the kernel must know the order in which rows arrived
    leaves_lines: bool = True  # whether Spark decodes, after the scan, what the scan does not
    scanned: pa.Schema = field(default_factory=lambda: SCANNED)  # what it gives
    lookup: TaskLookup | None = None  # what rows that `condition` keeps are joined with

    def read(
        self, ranges: Iterable[FileRange], at: int, task: int, bound: TimeBound | None = None
    ) -> Iterator[pa.RecordBatch]:
        """What is in files; see `packed_arrivals`."""
        yield from self.packed_arrivals(self.arrivals(ranges), at, task, bound)

    def packed_arrivals(
        self, arrivals: Iterable[Arrival], at: int, task: int, bound: TimeBound | None = None
    ) -> Iterator[pa.RecordBatch]:
        run = self.begin(at, task, bound)
        for arrival in arrivals:
            yield from run.take(arrival)
            if run.is_over:
                return
        yield from run.end()

    def begin(self, at: int, task: int, bound: TimeBound | None) -> ScanRun:
        """`at` is the batch's own time, which Spark logs, in microseconds. With a `bound`, rows may be folded."""
        lookup = None if self.lookup is None else self.lookup.opened()
        return ScanRun(replace(self, packing=self.packing.at(at), lookup=lookup), at, task, bound)

    def told(self, lanes: Mapping[str, Mapping[str, int]]) -> pa.RecordBatch:
        """What is known of the partitions of the source beside their rows."""
        return as_batch([self.packing.of_lanes(lanes)], self.scanned)

    def arrivals(self, ranges: Iterable[FileRange]) -> Iterator[Arrival]:
        for file in ranges:
            received = file.modified // 1000 * 1000  # as precise as Spark tells it
            for piece in naming_file(file.path, self._pieces(file)):
                where = f"{file.path}, from byte {piece.at}"
                yield Arrival.of_piece(piece, file.number << _FILE_BITS, received, where)

    def _pieces(self, file: FileRange) -> Iterator[Piece]:
        if not is_empty(file) and not isinstance(self.reader, Messages | Tables):  # an empty file has no rows
            yield from self.reader.read(file)

    def rows_of(self, rows: pa.Table, arrival: Arrival, at: int, bound: TimeBound | None) -> Iterator[pa.Table]:
        """The rows that pass the filters, with the columns that the operator gets; of a source with limits all rows.

        Those that cannot be late come without the columns that only late rows need.
        """
        undecodable = _not_utf8(rows)
        rows = rows if undecodable is None else readable(rows)
        ts, how, detail = self.resolution.resolved(rows, arrival.received, at)
        if undecodable is not None:
            is_bad = undecodable.is_valid()
            ts, how = pc.if_else(is_bad, None, ts), pc.if_else(is_bad, IS_UNDECODABLE, how).cast(pa.int8())
            detail = pc.coalesce(undecodable, detail)
        if arrival.place is not None and detail.null_count < len(detail):
            detail = _with_places(detail, arrival.place)
        columns = {TS: ts, HOW: how, DETAIL: detail}
        if self.numbered:
            columns[SEQ] = arrival.numbers(rows.num_rows)
        if self.packing.surveying is not None:
            columns[ARRIVED] = _each(arrival.received, rows.num_rows)
            if arrival.runs is not None:
                runs = arrival.runs
                columns[PART] = _all(runs, rows.num_rows) if isinstance(runs, int) else pa.array(runs)
        if self.packing.lanes:
            columns[LANE] = pa.repeat(pa.scalar(arrival.lane), rows.num_rows)
        known = pa.table(columns)
        needy = self.packing.needs_originals(known, bound)
        if needy is None:
            if arrival.whole is not None:
                rows = arrival.whole(np.ones(rows.num_rows, np.bool_))
            yield self.kept_rows(rows, known, undecodable, at, self.packed)
            return
        if not needy.all():
            chosen = None if not needy.any() else pa.array(~needy)
            sparing = tuple(each for each in self.packed if each[0] not in self.packing.late_only)
            yield self.kept_rows(*_chosen(chosen, rows, known, undecodable), at, sparing)
        if needy.any():
            chosen = None if needy.all() and arrival.whole is None else pa.array(needy)
            some, known, undecodable = _chosen(chosen, rows, known, undecodable)
            yield self.kept_rows(
                some if arrival.whole is None else arrival.whole(needy), known, undecodable, at, self.packed
            )

    def kept_rows(
        self, rows: pa.Table, known: pa.Table, undecodable: pa.Array | None, at: int, packed: Packed
    ) -> pa.Table:
        """What is known of rows, and what is packed of them; those that the filters keep."""
        passes = None if undecodable is None else undecodable.is_valid()
        keeps = None if self.condition is None else evaluate(self.condition, rows)
        if keeps is not None and passes is not None:
            keeps = pc.or_kleene(keeps, passes)
        if self.lookup is not None:
            rows, known, keeps = self.lookup.joined(rows, known, keeps, passes)
        if self.packing.surveying is not None:
            columns = self._columns(rows, known, packed)
            columns[KEPT] = pa.repeat(pa.scalar(True), rows.num_rows) if keeps is None else pc.fill_null(keeps, False)
            if NOW in self.packing.surveying.columns:
                columns[NOW], columns[PRIORITY] = _all(at, rows.num_rows), pa.nulls(rows.num_rows)
            return pa.table(columns)
        if keeps is not None and rows.num_columns and 2 * (pc.sum(keeps).as_py() or 0) < rows.num_rows:
            known, rows, keeps = *_kept(known, rows, keeps), None  # of few rows, what is packed is cheap
        arrivals = pa.table(self._columns(rows, known, packed))
        return arrivals if keeps is None else _kept(arrivals, rows.select([]), keeps)[0]

    def _columns(self, rows: pa.Table, known: pa.Table, packed: Packed) -> dict[str, pa.Array]:
        columns = {name: column(known, name) for name in known.column_names}
        if self.identity is not None:
            columns[DEDUP] = evaluate(self.identity, rows)
        return columns | {name: evaluate(expression, rows) for name, expression in packed}

    def undecoded(self, where: str) -> pa.RecordBatch:
        """Tells that there are lines that only Spark can judge, and nobody behind the scan to do it."""
        told = {"shard": self.packing.numbers[0], "input": self.packing.input, "control": UNDECODED, "facts": where}
        return as_batch([told], self.scanned)

    def left_to_spark(self, arrival: Arrival) -> pa.RecordBatch:
        count = len(arrival.lines)
        columns = {
            ROW: pa.array(arrival.lines, pa.binary()),
            RECEIVED: _each(arrival.received, count),
            "seq": arrival.numbers(count),
        }
        if arrival.beside is not None:
            columns.update({name: column(arrival.beside, name) for name in arrival.beside.column_names})
        arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in self.scanned]
        return pa.RecordBatch.from_arrays(arrays, schema=self.scanned)

    def packed_rows(
        self, held: list[pa.Table], task: int, bound: TimeBound | None, place: int, forwarder: Forwarder | None
    ) -> pa.RecordBatch:
        """Rows with all columns, and rows without those that only late ones need, apart."""
        whole = [rows for rows in held if rows.num_columns == max(each.num_columns for each in held)]
        sparing = [rows for rows in held if rows.num_columns < whole[0].num_columns]
        packed = self.packing.pack(pa.concat_tables(whole).combine_chunks(), task, bound, place, forwarder)
        if sparing:
            behind = place + sum(rows.num_rows for rows in whole)
            packed += self.packing.pack(pa.concat_tables(sparing).combine_chunks(), task, bound, behind, forwarder)
        return as_batch(packed, self.scanned)


class ScanRun:
    """A scan in a task, which takes what arrives piece by piece. It `is_over` when it meets lines that only Spark can
    judge, and there is nobody behind it to do that.
    """

    def __init__(self, scan: FusedScan, at: int, task: int, bound: TimeBound | None) -> None:
        self._scan, self._at, self._task, self._bound = scan, at, task, bound
        self._forwarder = None if scan.packing.forwarding is None else scan.packing.forwarding.begin(task)
        self._most = _MOST_ROWS if self._forwarder is None else _MOST_FORWARDED
        self._held: list[pa.Table] = []
        self._count = self._bytes = self._place = 0
        self.is_over = False

    def take(self, arrival: Arrival) -> Iterator[pa.RecordBatch]:
        if arrival.rows is None:
            self.is_over = not self._scan.leaves_lines
            yield self._scan.undecoded(arrival.where) if self.is_over else self._scan.left_to_spark(arrival)
            return
        for rows in self._scan.rows_of(arrival.rows, arrival, self._at, self._bound):
            self._held.append(rows)
            self._count += rows.num_rows
            self._bytes += rows.nbytes
        if (self._count >= self._most or self._bytes >= MOST_HELD) and not arrival.goes_on:
            yield self._packed()

    def end(self) -> Iterator[pa.RecordBatch]:
        if self._count:
            yield self._packed()
        if self._forwarder is not None:
            yield as_batch(self._scan.packing.forwarded(self._forwarder, self._task), self._scan.scanned)

    def _packed(self) -> pa.RecordBatch:
        packed = self._scan.packed_rows(self._held, self._task, self._bound, self._place, self._forwarder)
        self._held, self._count, self._bytes, self._place = [], 0, 0, self._place + self._count
        return packed


def _chosen(
    chosen: pa.Array | None, rows: pa.Table, known: pa.Table, undecodable: pa.Array | None
) -> tuple[pa.Table, pa.Table, pa.Array | None]:
    if chosen is None:
        return rows, known, undecodable
    return rows.filter(chosen), known.filter(chosen), None if undecodable is None else undecodable.filter(chosen)


def _kept(known: pa.Table, rows: pa.Table, keeps: pa.Array) -> tuple[pa.Table, pa.Table]:
    """What the filters keep of rows and of what is known of them, and the newest of the others if it is newer: its time
    counts all the same.
    """
    times, how = column(known, TS), column(known, HOW)
    places = np.flatnonzero(np.asarray(pc.fill_null(keeps, False)))
    kept = known.take(pa.array(places))
    is_declared = pc.equal(how, DECLARED)
    newest = pc.max(times.filter(is_declared)).as_py()
    if newest is not None and newest != pc.max(times.filter(pc.and_kleene(is_declared, keeps))).as_py():
        places = np.append(places, pc.index(times, newest).as_py())
        left_out = known.slice(int(places[-1]), 1)
        mark, place_of_how = pa.array([LEFT_OUT], how.type), known.column_names.index(HOW)
        kept = pa.concat_tables([kept, left_out.set_column(place_of_how, known.schema.field(HOW), mark)])
    return kept, rows.take(pa.array(places)) if rows.num_columns else rows


def _judged(applies: Mapping[int, pa.Array | bool]) -> pa.Array:
    """The number of `eventtime.resolution` for each row."""
    how: pa.Array | pa.Scalar = pa.scalar(FROM_PROCESSING, pa.int8())
    for code in reversed(ORDER):
        if code in applies:
            how = pc.if_else(applies[code], pa.scalar(code, pa.int8()), how)
    return how


def _not_utf8(rows: pa.Table) -> pa.Array | None:
    """What is wrong with each row whose texts are not UTF-8, NULL where they are; None if all are."""
    wrong = [name for name in rows.column_names if not is_readable(rows[name])]
    if not wrong:
        return None
    details = [
        pa.array(
            [
                None
                if text is None or is_utf8(text)
                else f"column {name} is not UTF-8: {text.decode(errors='replace')}"
                for text in rows[name].cast(pa.binary()).to_pylist()
            ],
            pa.string(),
        )
        for name in wrong
    ]
    return pc.coalesce(*details)


def _all(value: int, count: int, type: npt.DTypeLike = np.int64) -> pa.Array:
    """Much faster than pa.repeat."""
    return pa.array(np.full(count, value, type))


def _with_places(details: pa.Array, place: Callable[[int], str]) -> pa.Array:
    told = enumerate(details.to_pylist())
    return pa.array([None if each is None else f"{place(number)}: {each}" for number, each in told], pa.string())


def _each(received: Received, count: int) -> pa.Array:
    if received is None:
        return pa.nulls(count, pa.int64())
    return _all(received, count) if isinstance(received, int) else received()


def _within(values: pa.Array, low: int, high: int) -> pa.Array:
    """The values, with NULL for those out of range."""
    bounds = pc.min_max(values).as_py()
    if bounds["min"] is None or (low <= bounds["min"] and bounds["max"] <= high):
        return values
    return pc.if_else(
        pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)), values, pa.scalar(None, values.type)
    )


def _as_text(values: pa.Array) -> pa.Array:
    """As Spark casts a value to text."""
    if not pa.types.is_timestamp(values.type):
        return values.cast(pa.string())
    return pa.array([None if value is None else _time_text(value) for value in values.to_pylist()], pa.string())


def _time_text(time: dt.datetime) -> str:
    text = time.replace(tzinfo=None, microsecond=0).isoformat(" ")
    return f"{text}.{time.microsecond:06d}".rstrip("0") if time.microsecond else text
