"""Queries without a window: rows as they come, or in event-time order as the watermark passes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import (
    ROWTIME,
    SEQ,
    TS,
    USED,
    Batch,
    Clock,
    Gauges,
    Kernel,
    Output,
    Store,
)
from eventide.kernels.logic.row_spec import RowSpec
from eventide.kernels.logic.waiting_rows import WaitingRows
from eventide.kernels.state.codec import Codec, unchanged
from eventide.kernels.state.holding import Holding
from eventide.kernels.state.past import NO_PAST, Past, StateLayout
from eventide.kernels.state.time_log import TimeLog
from eventide.kernels.state.waiting_rows import check_types, earlier_rows, parts_of
from eventide.kernels.vector.columns import Ints, Mask, column, ints, timestamps, typed
from eventide.kernels.windows.row_windows import BOUND_FIELDS, bound_columns, windows_of_rows
from eventide.plan.windows import Calendar, PanedWindow

META = "meta"
_BUFFER_SCHEMA = pa.schema([(name, pa.int64()) for name in ("held", "newest", "batches", "earliest", "flushed")])
_ARRIVAL = "arrival"


@dataclass(frozen=True)
class ForwardSpec(RowSpec):
    """Main rows are the original columns under the user's names, and ROWTIME; with `ordered` in event-time order.

    Rows with equal timestamps leave in the order of their batches, and within a batch in the order of SEQ. With
    `window` a row leaves once for every window that holds it, with the bounds of that in front.
    """

    originals: tuple[tuple[str, str], ...]
    types: tuple[pa.DataType, ...]
    ordered: bool = False
    sources: tuple[str, ...] = ("",)
    past: Past = NO_PAST
    window: PanedWindow | Calendar | None = None

    @property
    def horizon(self) -> int:
        return 0

    @property
    def main_schema(self) -> pa.Schema:
        bounds = [] if self.window is None else BOUND_FIELDS
        return pa.schema([*bounds, *self.columns, pa.field(ROWTIME, pa.timestamp("us", tz="UTC"))])

    def main(self, columns: list[pa.Array], ts: Ints) -> pa.Table:
        """Main rows of the original columns of rows with these times."""
        if self.window is None:
            return pa.Table.from_arrays([*columns, timestamps(ts)], schema=self.main_schema)
        held = windows_of_rows(self.window, ts)
        places = pa.array(held.rows)
        repeated = [each.take(places) for each in (*columns, timestamps(ts))]
        bounds = bound_columns(held.starts, held.ends)
        return pa.Table.from_arrays([*bounds, *repeated], schema=self.main_schema)

    @property
    def columns(self) -> list[pa.Field]:
        return [pa.field(name, kind) for (name, _), kind in zip(self.originals, self.types, strict=True)]

    def output_watermark(self, watermark: int, gauges: Gauges) -> int | None:
        return watermark

    def fingerprint(self) -> str:
        return f"forward/1;ordered={self.ordered};types={','.join(map(str, self.types))}{self.past.suffix}"

    @property
    def layout(self) -> StateLayout:
        return StateLayout(self.fingerprint(), "forward/1", parts_of(self.columns))

    def continuing(self, past: Past) -> ForwardSpec:
        check_types(past, self.columns)
        return replace(self, past=past)

    def build(self) -> Kernel:
        return OrderedForward(self) if self.ordered else Forward(self)

    def values(self, rows: pa.Table) -> list[pa.Array]:
        """The original columns of packed rows."""
        return [typed(column(rows, packed), kind) for (_, packed), kind in zip(self.originals, self.types, strict=True)]


class Forward:
    """Rows leave in the batch that brings them; no state of their own."""

    def __init__(self, spec: ForwardSpec) -> None:
        self._spec = spec

    def on_rows(self, batch: Batch, clock: Clock, store: Store) -> Output:
        output = Output()
        for rows in batch.values():
            output.counts[USED] += rows.num_rows
            if rows.num_rows:
                output.main.append(self._spec.main(self._spec.values(rows), ints(rows, TS)))
        return output

    def on_time(self, clock: Clock, store: Store) -> Output:
        return Output()

    def on_tick(self, clock: Clock, store: Store) -> Output:
        return Output()

    def on_flush(self, until: int, clock: Clock, store: Store) -> Output:
        return Output()

    def holding(self, store: Store) -> Holding:
        return Holding(pa.table({}))

    def hold(self, holding: Holding, store: Store) -> None:
        pass


@dataclass
class _Buffer:
    """What the buffer holds: rows, the newest timestamp ever seen, batches so far, the earliest timestamp held, and the
    time up to which a flush has let rows go before their time: nothing older may follow."""

    held: int = 0
    newest: int | None = None
    batches: int = 0
    earliest: int | None = None
    flushed: int | None = None


class OrderedForward(WaitingRows[_Buffer]):
    """Rows wait in the store until the watermark passes them. Always strict: what comes behind the watermark is
    late.
    """

    def __init__(self, spec: ForwardSpec) -> None:
        super().__init__(len(spec.sources), spec.side_rows)
        self._spec = spec
        head = [pa.field(TS, pa.int64()), pa.field(_ARRIVAL, pa.int64())]
        self._schema = pa.schema(head + spec.columns)
        earlier = earlier_rows(spec.past, head, spec.columns)
        self._rows = TimeLog("rows", Codec(spec.fingerprint(), self._schema, earlier), TS)
        fingerprints = [each.fingerprint for each in earlier]
        self._codec = Codec(spec.fingerprint(), _BUFFER_SCHEMA, unchanged(fingerprints, _BUFFER_SCHEMA))

    def _without_late(self, rows: pa.Table, late: Mask, output: Output) -> pa.Table:
        output.events["late_dropped_count"] += int(late.sum())
        return super()._without_late(rows, late, output)

    def _hold(self, rows: pa.Table, buffer: _Buffer, store: Store) -> None:
        ts = ints(rows, TS)
        seq = ints(rows, SEQ) if SEQ in rows.column_names else np.arange(len(ts))
        order = np.argsort(seq, kind="stable")
        arrival = np.empty(len(ts), np.int64)
        arrival[order] = buffer.batches * (1 << 32) + np.arange(len(ts))  # no batch has four billion rows
        head = [pa.array(ts), pa.array(arrival)]
        self._rows.add(pa.Table.from_arrays(head + self._spec.values(rows), schema=self._schema), store)
        buffer.held += len(ts)
        buffer.batches += 1
        newest, earliest = int(ts.max()), int(ts.min())
        buffer.newest = newest if buffer.newest is None else max(buffer.newest, newest)
        buffer.earliest = earliest if buffer.earliest is None else min(buffer.earliest, earliest)

    def _release(self, until: int | None, buffer: _Buffer, store: Store, output: Output) -> None:
        if until is None or buffer.earliest is None or buffer.earliest > until:
            return
        rows = self._rows.take(until, store)
        order = np.lexsort((ints(rows, _ARRIVAL), ints(rows, TS)))
        leaving = rows.take(pa.array(order))
        output.main.append(self._spec.main(leaving.columns[2:], ints(leaving, TS)))
        output.events["watermark_emitted_count"] += rows.num_rows
        buffer.held -= rows.num_rows
        buffer.earliest = until + 1 if buffer.held else None

    def _load(self, store: Store) -> _Buffer:
        blobs = store.read(META, 0)
        return _Buffer(**self._codec.decode(blobs[0]).to_pylist()[0]) if blobs else _Buffer()

    def _save(self, buffer: _Buffer, store: Store, output: Output) -> Output:
        if buffer.batches or buffer.flushed is not None:
            store.replace(META, 0, self._codec.encode(pa.Table.from_pylist([asdict(buffer)], schema=_BUFFER_SCHEMA)))
        output.wake_at = buffer.earliest
        output.gauges.update(buffer_size=buffer.held, state_bytes=self._rows.state_bytes(store))
        if buffer.newest is not None:
            output.gauges["max_timestamp_seen"] = buffer.newest
        return output
