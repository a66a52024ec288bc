"""Running aggregates: every row with the aggregates over a frame of rows that come before it in event time.

Rows wait until the watermark passes them, and come out in event-time order. Behind the watermark a row is late: frames
that hold it have come out without it. What later frames reach back to is kept as partials, by key: of a range of time
one for every moment, of a number of rows one for each row, of everything one for each key.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.aggregates import AggregateSpec, Aggregation
from eventide.kernels.aggregates.base import present
from eventide.kernels.contract import ROWTIME, SEQ, TS, Gauges, Output, Store
from eventide.kernels.logic.row_spec import AlikeUnderEveryText
from eventide.kernels.logic.waiting_rows import WaitingRows
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.keyed_table import HASH, NEVER, START, Directory, KeyedTable, Summary, hashes_of
from eventide.kernels.state.range_tree import merged_ranges
from eventide.kernels.state.time_log import TimeLog
from eventide.kernels.vector.columns import Ints, column, ints, timestamps, typed
from eventide.kernels.vector.grouping import group_rows
from eventide.kernels.vector.intervals import by_group_and_time, last_at_or_before
from eventide.plan.windows import Frame, LagFrame, RangeFrame, RowsFrame

_META, _ARRIVAL = "meta", "arrival"
_NEWEST = pa.field("newest", pa.int64())  # the time of the newest row
_STATUS = (pa.field(HASH, pa.int64()), _NEWEST)
_BUFFER_SCHEMA = pa.schema([(name, pa.int64()) for name in ("held", "arrived", "given", "earliest", "flushed")])
_FRAME = "frame"


@dataclass(frozen=True)
class OverSpec(AlikeUnderEveryText):
    """Main rows are the original columns under the user's names, the results, and ROWTIME. Times in microseconds.

    A key is forgotten when the watermark is `ttl` past its newest row; with a frame of time that is not needed.
    """

    frame: Frame
    keys: tuple[str, ...]
    originals: tuple[tuple[str, str], ...]
    types: tuple[tuple[str, pa.DataType], ...]  # of all packed columns that are needed
    aggregates: tuple[AggregateSpec, ...]
    ttl: int | None = None
    sources: tuple[str, ...] = ("",)

    @property
    def horizon(self) -> int:
        return 0

    @property
    def main_schema(self) -> pa.Schema:
        kinds = dict(self.types)
        users = [pa.field(name, kinds[packed]) for name, packed in self.originals]
        results = [pa.field(spec.name, spec.result_type) for spec in self.aggregates]
        return pa.schema([*users, *results, pa.field(ROWTIME, pa.timestamp("us", tz="UTC"))])

    def output_watermark(self, watermark: int, gauges: Gauges) -> int | None:
        return watermark

    def fingerprint(self) -> str:
        kinds = ",".join(f"{name}:{kind}" for name, kind in self.types)
        aggregates = ",".join(spec.describe() for spec in self.aggregates)
        return f"over/1;{self.frame};keys={','.join(self.keys)};types={kinds};aggregates={aggregates}"

    def build(self) -> Over:
        return Over(self)


@dataclass
class _Buffer:
    """Rows that wait, rows that ever came and that ever came out, the earliest time that waits, and the time up to
    which a flush has let rows go.
    """

    held: int = 0
    arrived: int = 0
    given: int = 0
    earliest: int | None = None
    flushed: int | None = None


class Over(WaitingRows[_Buffer]):
    def __init__(self, spec: OverSpec) -> None:
        super().__init__(len(spec.sources), spec.side_rows)
        self._spec = spec
        kinds = dict(spec.types)
        head = [pa.field(TS, pa.int64()), pa.field(_ARRIVAL, pa.int64())]
        self._schema = pa.schema([*head, *(pa.field(name, kind) for name, kind in spec.types)])
        self._rows = TimeLog("rows", Codec(spec.fingerprint(), self._schema), TS)
        self._codec = Codec(spec.fingerprint(), _BUFFER_SCHEMA)
        self._past = Aggregation((START,), spec.keys, [kinds[key] for key in spec.keys], spec.aggregates, _STATUS)
        self._frames = Aggregation((_FRAME,), (), (), spec.aggregates)
        self._table = KeyedTable("past", self._past.schema, spec.fingerprint(), self._summary)

    def _hold(self, rows: pa.Table, buffer: _Buffer, store: Store) -> None:
        ts, count = ints(rows, TS), rows.num_rows
        seq = ints(rows, SEQ) if SEQ in rows.column_names else np.arange(count)
        arrival = np.empty(count, np.int64)
        arrival[np.argsort(seq, kind="stable")] = buffer.arrived + np.arange(count)
        values = [typed(column(rows, name), kind) for name, kind in self._spec.types]
        held = pa.Table.from_arrays([pa.array(ts), pa.array(arrival), *values], schema=self._schema)
        self._rows.add(held, store)
        buffer.held += count
        buffer.arrived += count
        earliest = int(ts.min())
        buffer.earliest = earliest if buffer.earliest is None else min(buffer.earliest, earliest)

    def _release(self, until: int | None, buffer: _Buffer, store: Store, output: Output) -> None:
        if until is None:
            return
        directory = self._table.load(store)
        if buffer.earliest is not None and buffer.earliest <= until:
            rows = self._rows.take(until, store)
            rows = rows.take(pa.array(np.lexsort((ints(rows, _ARRIVAL), ints(rows, TS))))).combine_chunks()
            if rows.num_rows:
                self._give(rows, until, buffer, directory, store, output)
            buffer.held -= rows.num_rows
            buffer.earliest = until + 1 if buffer.held else None
        self._forget(until, directory, store)
        self._table.save(directory, store)

    def _give(
        self, rows: pa.Table, until: int, buffer: _Buffer, directory: Directory, store: Store, output: Output
    ) -> None:
        by_row = isinstance(self._spec.frame, RowsFrame)
        number = buffer.given + np.arange(rows.num_rows) if by_row else ints(rows, TS)
        buffer.given += rows.num_rows
        fresh = self._fresh(rows, number)
        # `fold` numbers the groups of the rows in the same way, so that group n is row n of what it gives.
        by = [pa.array(number), *self._past.key_columns(rows)]
        index = present(group_rows(by, [], segments=True).segments).group
        found = self._table.find(ints(fresh, HASH), directory, store)
        past = pa.concat_tables([found.asked, fresh]).combine_chunks()
        group = self._groups(past)
        results = self._results(past, group, found.asked.num_rows)
        columns = [
            *[column(rows, packed) for _, packed in self._spec.originals],
            *[values.take(pa.array(index)) for values in results],
            timestamps(ints(rows, TS)),
        ]
        output.main.append(pa.Table.from_arrays(columns, schema=self._spec.main_schema))
        output.events["watermark_emitted_count"] += rows.num_rows
        kept = self._needed(past, group, until)
        self._table.write(found.buckets, found.others, kept, directory, store)

    def _fresh(self, rows: pa.Table, number: Ints) -> pa.Table:
        """Partials of the rows by number and key."""
        folded = self._past.fold(rows, [pa.array(number)])
        hashes = hashes_of([column(folded, name) for name in self._past.keys], folded.num_rows)
        newest = ints(folded, START)
        if isinstance(self._spec.frame, RowsFrame):
            newest = ints(rows, TS)[newest - number[0]]
        for name, values in ((HASH, hashes), (_NEWEST.name, newest)):
            folded = folded.set_column(
                folded.schema.get_field_index(name), self._past.schema.field(name), pa.array(values)
            )
        return folded

    def _groups(self, past: pa.Table) -> Ints:
        keys = [column(past, name) for name in self._past.keys]
        if not keys:
            return np.zeros(past.num_rows, np.int64)
        return present(group_rows(keys, [], segments=True).segments).group

    def _results(self, past: pa.Table, group: Ints, fresh_from: int) -> list[pa.Array]:
        """The aggregates over the frames of the rows from `fresh_from` on; NULL where a frame has no row."""
        start = ints(past, START)
        order = by_group_and_time(group, start)
        groups, starts = group[order], start[order]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        place, own = place[fresh_from:], group[fresh_from:]
        first, behind, empty = np.searchsorted(groups, own), place + 1, None
        match self._spec.frame:
            case LagFrame(preceding=count) if count is not None:
                empty = place - count < first
                first = np.where(empty, place, place - count)
                behind = first + 1
            case RangeFrame(preceding=span) if span is not None:
                before = last_at_or_before(groups, starts, own, start[fresh_from:] - span - 1)
                first = np.where(before < 0, first, before + 1)
            case RowsFrame(preceding=count) if count is not None:
                first = np.maximum(first, place - count)
        states = [column(past, name) for name in self._frames.schema.names[1:]]
        partials = pa.Table.from_arrays([pa.array(start), *states], schema=self._frames.schema).take(pa.array(order))
        results = self._frames.results(merged_ranges(self._frames, partials, first, behind))
        return results if empty is None else [pc.if_else(pa.array(~empty), each, None) for each in results]

    def _needed(self, past: pa.Table, group: Ints, until: int) -> pa.Table:
        """What frames of rows later than `until` reach back to."""
        match self._spec.frame:
            case RangeFrame(preceding=span) if span is not None:
                return past.filter(pa.array(ints(past, START) > until - span))
            case RowsFrame(preceding=count) if count is not None:
                order = by_group_and_time(group, ints(past, START))
                behind = np.searchsorted(group[order], group[order], "right")
                kept = order[behind - np.arange(len(order)) <= count]
                return self._with_newest(past, group).take(pa.array(kept))
        last = np.full(int(group.max()) + 1, np.iinfo(np.int64).min)
        np.maximum.at(last, group, ints(past, START))
        return self._past.merge(past.set_column(0, self._past.schema.field(0), pa.array(last[group])))

    def _with_newest(self, past: pa.Table, group: Ints) -> pa.Table:
        newest = np.full(int(group.max()) + 1, np.iinfo(np.int64).min)
        np.maximum.at(newest, group, ints(past, _NEWEST.name))
        return past.set_column(past.schema.get_field_index(_NEWEST.name), _NEWEST, pa.array(newest[group]))

    def _summary(self, table: pa.Table) -> Summary:
        """Partials of a range are due some time after they have become useless, to read less often."""
        nothing = np.zeros(table.num_rows, np.int64)
        match self._spec.frame:
            case RangeFrame(preceding=span) if span is not None:
                return Summary(ints(table, START) + 2 * span + 1, nothing, nothing)
        ttl = self._spec.ttl
        due = np.full(table.num_rows, NEVER) if ttl is None else ints(table, _NEWEST.name) + ttl
        return Summary(due, nothing, nothing)

    def _forget(self, until: int, directory: Directory, store: Store) -> None:
        buckets = np.flatnonzero(directory.due <= until)
        if len(buckets) == 0:
            return
        table = self._table.read(buckets, directory, store)
        frame = self._spec.frame
        if isinstance(frame, RangeFrame) and frame.preceding is not None:
            kept = table.filter(pa.array(ints(table, START) > until - frame.preceding))
        else:
            kept = table.filter(pa.array(self._summary(table).due > until))
        self._table.write(buckets, kept, table.slice(0, 0), directory, store)

    def _load(self, store: Store) -> _Buffer:
        blobs = store.read(_META, 0)
        return _Buffer(**self._codec.decode(blobs[0]).to_pylist()[0]) if blobs else _Buffer()

    def _save(self, buffer: _Buffer, store: Store, output: Output) -> Output:
        if buffer.arrived or buffer.flushed is not None:
            store.replace(_META, 0, self._codec.encode(pa.Table.from_pylist([asdict(buffer)], schema=_BUFFER_SCHEMA)))
        due = self._table.load(store).next_due
        output.wake_at = min((moment for moment in (buffer.earliest, due) if moment is not None), default=None)
        output.gauges.update(
            buffer_size=buffer.held, state_bytes=self._rows.state_bytes(store) + self._table.state_bytes(store)
        )
        return output
