"""The place of each row among those of its partition, known when time has passed the rows: the best n of a window.

Rows wait as in ordered forwarding. A window's rows all have the time of its end, so they leave together, when no
further one can come on time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import ROWTIME, TS, USED, Batch, Clock, Gauges, Output, Store, united
from eventide.kernels.logic.row_spec import RowSpec
from eventide.kernels.side_rows import LATE_REASON
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.time_log import TimeLog
from eventide.kernels.stateful_kernel import StatefulKernel
from eventide.kernels.vector.columns import Ints, Mask, column, combined_rank, dense_rank, ints, timestamps, typed
from eventide.plan.modes import RankFunction

PLACE = "__place"
_META = "meta"
_PASSED = pa.schema([("passed", pa.int64()), ("earliest", pa.int64()), ("held", pa.int64())])


@dataclass(frozen=True)
class SortKey:
    """A packed column by which rows are put in order."""

    column: str
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class RankSpec(RowSpec):
    """Main rows are the original columns under the user's names, PLACE and ROWTIME.

    `partition` are packed columns; rows that agree in them are ranked together, by `order`.
    """

    function: RankFunction
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    originals: tuple[tuple[str, str], ...]
    types: tuple[pa.DataType, ...]
    key_types: tuple[tuple[str, pa.DataType], ...]  # of the packed columns in `partition` and `order`, each once
    lateness: int = 0
    sources: tuple[str, ...] = ("",)

    @property
    def horizon(self) -> int:
        return self.lateness

    @property
    def main_schema(self) -> pa.Schema:
        users = [pa.field(name, kind) for (name, _), kind in zip(self.originals, self.types, strict=True)]
        return pa.schema([*users, pa.field(PLACE, pa.int32()), pa.field(ROWTIME, pa.timestamp("us", tz="UTC"))])

    def output_watermark(self, watermark: int, gauges: Gauges) -> int | None:
        return watermark - self.lateness

    def fingerprint(self) -> str:
        keys = ",".join(f"{name}:{kind}" for name, kind in self.key_types)
        return f"rank/1;types={','.join(map(str, self.types))};keys={keys}"

    def build(self) -> Ranked:
        return Ranked(self)


@dataclass
class _Buffer:
    """How far time has let rows go, the earliest time that is held, and how many rows are."""

    passed: int | None = None
    earliest: int | None = None
    held: int = 0


class Ranked(StatefulKernel[_Buffer]):
    def __init__(self, spec: RankSpec) -> None:
        self._spec, self._side_rows = spec, spec.side_rows
        keys = [pa.field(name, kind) for name, kind in spec.key_types]
        users = [pa.field(f"v{number}", kind) for number, kind in enumerate(spec.types)]
        self._schema = pa.schema([pa.field(TS, pa.int64()), *keys, *users])
        self._rows = TimeLog("rows", Codec(spec.fingerprint(), self._schema), TS)
        self._codec = Codec(spec.fingerprint(), _PASSED)

    def _begin(self, clock: Clock, store: Store) -> tuple[_Buffer, Output]:
        blobs = store.read(_META, 0)
        buffer = _Buffer(**self._codec.decode(blobs[0]).to_pylist()[0]) if blobs else _Buffer()
        output = Output()
        if clock.watermark is not None:
            # A row at the last moment of a window leaves when the watermark has reached the window's end.
            self._release(clock.watermark - 1 - self._spec.lateness, buffer, store, output)
        return buffer, output

    def _take(self, batch: Batch, state: _Buffer, store: Store, output: Output) -> None:
        rows = united(batch, len(self._spec.sources))
        if state.passed is not None:
            rows = self._side_rows.put(output, rows, ints(rows, TS) <= state.passed, "late", LATE_REASON)
        output.counts[USED] += rows.num_rows
        if rows.num_rows:
            self._hold(rows, state, store)

    def _flush(self, until: int, state: _Buffer, store: Store, output: Output) -> None:
        self._release(until, state, store, output)

    def _hold(self, rows: pa.Table, buffer: _Buffer, store: Store) -> None:
        ts = ints(rows, TS)
        keys = [typed(column(rows, name), kind) for name, kind in self._spec.key_types]
        packed = zip(self._spec.originals, self._spec.types, strict=True)
        users = [typed(column(rows, name), kind) for (_, name), kind in packed]
        self._rows.add(pa.Table.from_arrays([pa.array(ts), *keys, *users], schema=self._schema), store)
        buffer.held += len(ts)
        buffer.earliest = min(int(ts.min()), int(ts.min()) if buffer.earliest is None else buffer.earliest)

    def _release(self, until: int, buffer: _Buffer, store: Store, output: Output) -> None:
        if buffer.passed is not None and until <= buffer.passed:
            return
        buffer.passed = until
        if buffer.earliest is None or buffer.earliest > until:
            return
        rows = self._rows.take(until, store)
        output.main.append(self._ranked(rows))
        output.events["rows_ranked"] += rows.num_rows
        buffer.held -= rows.num_rows
        buffer.earliest = until + 1 if buffer.held else None

    def _ranked(self, rows: pa.Table) -> pa.Table:
        """The rows by time, partition and place."""
        count = rows.num_rows
        group = ranks([ints(rows, TS), *[dense_rank(column(rows, name)) for name in self._spec.partition]], count)
        value = ranks([sort_rank(rows, key) for key in self._spec.order], count)
        order = np.lexsort((value, group))
        found = places(self._spec.function, group[order], value[order])
        sorted_rows = rows.take(pa.array(order))
        users = sorted_rows.columns[1 + len(self._spec.key_types) :]
        columns = [*users, pa.array(found, pa.int32()), timestamps(ints(sorted_rows, TS))]
        return pa.Table.from_arrays(columns, schema=self._spec.main_schema)

    def _finish(self, state: _Buffer, store: Store, output: Output) -> Output:
        if state.passed is not None or state.held:
            values = {"passed": state.passed, "earliest": state.earliest, "held": state.held}
            store.replace(_META, 0, self._codec.encode(pa.Table.from_pylist([values], schema=_PASSED)))
        output.wake_at = None if state.earliest is None else state.earliest + 1 + self._spec.lateness
        output.gauges.update(buffer_size=state.held, state_bytes=self._rows.state_bytes(store))
        return output


def ranks(columns: list[Ints], count: int) -> Ints:
    """The rank of rows by several columns of numbers, the first being the most significant."""
    return combined_rank([np.unique(rank, return_inverse=True)[1] for rank in columns], count)


def sort_rank(rows: pa.Table, key: SortKey) -> Ints:
    """Numbers that sort as the column should; a NULL comes with rank 0."""
    rank = dense_rank(column(rows, key.column))
    is_null = rank == 0
    ordered = -rank if key.descending else rank
    return np.where(is_null, np.iinfo(np.int64).min if key.nulls_first else np.iinfo(np.int64).max, ordered)


def _latest(flags: Mask, number: Ints) -> Ints:
    """The last row at or before each that is flagged; the first always is."""
    latest: Ints = np.maximum.accumulate(np.where(flags, number, 0))
    return latest


def places(function: RankFunction, group: Ints, value: Ints) -> Ints:
    """The place of each row; rows are sorted by group and value."""
    number = np.arange(len(group))
    begins = np.append(True, group[1:] != group[:-1])
    first = _latest(begins, number)
    if function is RankFunction.ROW_NUMBER:
        return number - first + 1
    changes = begins | np.append(True, value[1:] != value[:-1])
    before: Ints = np.cumsum(changes) if function is RankFunction.DENSE_RANK else _latest(changes, number)
    return before - before[first] + 1
