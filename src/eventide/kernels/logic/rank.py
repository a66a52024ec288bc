"""The place of each row among those of its partition, known when time has passed the rows: the best n of a window.

Rows wait as in ordered forwarding. A window's rows all have the time of its end, so they leave together, when no
further one can come on time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import ROWTIME, SEQ, TS, USED, WINDOW_START, Batch, Clock, Gauges, Output, Store, united
from eventide.kernels.logic.row_spec import RowSpec
from eventide.kernels.side_rows import LATE_REASON
from eventide.kernels.state.codec import Codec, unchanged
from eventide.kernels.state.past import NO_PAST, Past, StateLayout
from eventide.kernels.state.time_log import TimeLog
from eventide.kernels.state.waiting_rows import check_types, earlier_rows, parts_of
from eventide.kernels.stateful_kernel import StatefulKernel
from eventide.kernels.vector.columns import (
    Ints,
    Mask,
    column,
    combined_rank,
    dense_rank,
    in_one_number,
    ints,
    numbered,
    timestamps,
    typed,
)
from eventide.kernels.windows.row_windows import BOUND_FIELDS, bound_columns, last_moment_begun, windows_of_rows
from eventide.plan.modes import RankFunction
from eventide.plan.windows import Calendar, PanedWindow

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

    `partition` are packed columns; rows that agree in them are ranked together, by `order`. With `window` rows are
    ranked in every window that holds them, and main rows have the bounds of that in front; of equal rows the last to
    come is then the better if `latest_first`.
    """

    function: RankFunction
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    originals: tuple[tuple[str, str], ...]
    types: tuple[pa.DataType, ...]
    key_types: tuple[tuple[str, pa.DataType], ...]  # of the packed columns in `partition` and `order`, each once
    lateness: int = 0
    sources: tuple[str, ...] = ("",)
    past: Past = NO_PAST
    window: PanedWindow | Calendar | None = None
    latest_first: bool = False

    @property
    def horizon(self) -> int:
        match self.window:
            case None:
                return self.lateness
            case Calendar():
                return self.window.longest + self.lateness
            case _:
                return self.window.size + self.lateness

    @property
    def main_schema(self) -> pa.Schema:
        bounds = [] if self.window is None else BOUND_FIELDS
        place, rowtime = pa.field(PLACE, pa.int32()), pa.field(ROWTIME, pa.timestamp("us", tz="UTC"))
        return pa.schema([*bounds, *self.columns, place, rowtime])

    def output_watermark(self, watermark: int, gauges: Gauges) -> int | None:
        return watermark - self.lateness

    def fingerprint(self) -> str:
        keys = ",".join(f"{name}:{kind}" for name, kind in self.key_types)
        return f"rank/1{self._window};types={','.join(map(str, self.types))};keys={keys}{self.past.suffix}"

    @property
    def _window(self) -> str:
        return "" if self.window is None else f";window={self.window}"

    @property
    def columns(self) -> list[pa.Field]:
        return [pa.field(name, kind) for (name, _), kind in zip(self.originals, self.types, strict=True)]

    @property
    def layout(self) -> StateLayout:
        kinds = ",".join(str(kind) for _, kind in self.key_types)
        return StateLayout(self.fingerprint(), f"rank/1{self._window};keys={kinds}", parts_of(self.columns))

    def continuing(self, past: Past) -> RankSpec:
        check_types(past, self.columns)
        return replace(self, past=past)

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
        bounds = [] if spec.window is None else [pa.field(WINDOW_START, pa.int64())]
        head = [pa.field(TS, pa.int64()), *bounds, *keys]
        self._head = len(head)
        self._schema = pa.schema([*head, *users])
        earlier = earlier_rows(spec.past, head, spec.columns, self._schema.names)
        self._rows = TimeLog("rows", Codec(spec.fingerprint(), self._schema, earlier), TS)
        self._codec = Codec(spec.fingerprint(), _PASSED, unchanged([each.fingerprint for each in earlier], _PASSED))

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
            rows = self._side_rows.put(output, rows, self._late(ints(rows, TS), state.passed), "late", LATE_REASON)
        output.counts[USED] += rows.num_rows
        if rows.num_rows:
            self._hold(*self._in_windows(rows, state.passed), state, store)

    def _late(self, ts: Ints, passed: int) -> Mask:
        """Which rows have nothing that they could still be ranked in."""
        if self._spec.window is None:
            return ts <= passed
        late = np.ones(len(ts), np.bool_)
        late[windows_of_rows(self._spec.window, ts, passed).rows] = False
        return late

    def _in_windows(self, rows: pa.Table, passed: int | None) -> tuple[pa.Table, Ints, list[pa.Array]]:
        """Rows with the times at which they leave: their own, or the last moments of the windows that hold them, each
        once for each; and the starts of these.
        """
        if self._spec.window is None:
            return rows, ints(rows, TS), []
        rows = rows.take(pa.array(np.argsort(ints(rows, SEQ), kind="stable"))) if SEQ in rows.column_names else rows
        held = windows_of_rows(self._spec.window, ints(rows, TS), passed)
        return rows.take(pa.array(held.rows)), held.ends - 1, [pa.array(held.starts)]

    def _flush(self, until: int, state: _Buffer, store: Store, output: Output) -> None:
        window = self._spec.window
        self._release(until if window is None else last_moment_begun(window, until), state, store, output)

    def _hold(self, rows: pa.Table, ts: Ints, starts: list[pa.Array], buffer: _Buffer, store: Store) -> None:
        keys = [typed(column(rows, name), kind) for name, kind in self._spec.key_types]
        packed = zip(self._spec.originals, self._spec.types, strict=True)
        users = [typed(column(rows, name), kind) for (_, name), kind in packed]
        self._rows.add(pa.Table.from_arrays([pa.array(ts), *starts, *keys, *users], schema=self._schema), store)
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
        starts = [] if self._spec.window is None else [ints(rows, WINDOW_START)]
        keys = [dense_rank(column(rows, name)) for name in self._spec.partition]
        group = ranks([ints(rows, TS), *starts, *keys], count)
        value = ranks([sort_rank(rows, key) for key in self._spec.order], count)
        came = np.arange(count)
        order = np.lexsort((-came if self._spec.latest_first else came, value, group))
        found = places(self._spec.function, group[order], value[order])
        sorted_rows = rows.take(pa.array(order))
        users, ts = sorted_rows.columns[self._head :], ints(sorted_rows, TS)
        bounds = [] if self._spec.window is None else bound_columns(ints(sorted_rows, WINDOW_START), ts + 1)
        columns = [*bounds, *users, pa.array(found, pa.int32()), timestamps(ts)]
        return pa.Table.from_arrays(columns, schema=self._spec.main_schema)

    def _finish(self, state: _Buffer, store: Store, output: Output) -> Output:
        if state.passed is not None or state.held:
            values = {"passed": state.passed, "earliest": state.earliest, "held": state.held}
            store.replace(_META, 0, self._codec.encode(pa.Table.from_pylist([values], schema=_PASSED)))
        output.wake_at = None if state.earliest is None else state.earliest + 1 + self._spec.lateness
        output.gauges.update(buffer_size=state.held, state_bytes=self._rows.state_bytes(store))
        return output


def ranks(columns: list[Ints], count: int) -> Ints:
    """Numbers that sort rows by several columns of numbers, the first being the most significant."""
    if len(columns) == 1:
        return columns[0]
    code = in_one_number(columns) if columns else None
    return combined_rank([numbered(rank) for rank in columns], count) if code is None else code


def sort_rank(rows: pa.Table, key: SortKey) -> Ints:
    """Numbers that sort as the column should."""
    values = column(rows, key.column)
    if values.null_count == 0 and (pa.types.is_integer(values.type) or pa.types.is_timestamp(values.type)):
        plain: Ints = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return ~plain if key.descending else plain
    rank = dense_rank(values)  # of a NULL 0
    most = int(rank.max(initial=0)) + 1
    ordered = most - rank if key.descending else rank
    return np.where(rank == 0, 0 if key.nulls_first else most, ordered)


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
