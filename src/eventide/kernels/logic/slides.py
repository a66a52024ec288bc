"""Data-triggered sliding windows: every row at t asks for the aggregate over [t - lookback, t + lookahead] of its
group.

Both ends belong to the range. Without lookahead the answer leaves in the batch that brings the row, over all rows
received so far, those of the same batch included; with it, when the watermark has reached t + lookahead (and allowed
lateness). The window of a row is the one that it triggers: a row is late when that one is closed, and is then in no
other either.

The partials per group and moment are stored in buckets by key (see `keyed_table`) as long as some trigger needs them.
The number of rows of a moment minus its emissions is the number of triggers that wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates import AggregateSpec, Aggregation
from eventide.kernels.aggregates.base import present
from eventide.kernels.contract import TS, USED, Output, Store
from eventide.kernels.logic.emission import main_head
from eventide.kernels.logic.keyed_kernel import KeyedKernel
from eventide.kernels.logic.open_groups import with_column
from eventide.kernels.side_rows import LATE_REASON
from eventide.kernels.state.keyed_table import EPOCH, HASH, START, Directory, KeyedTable, Summary, hashes_of
from eventide.kernels.state.range_tree import merged_ranges
from eventide.kernels.vector.columns import Ints, Mask, column, ints
from eventide.kernels.vector.grouping import group_rows
from eventide.kernels.vector.intervals import by_group_and_time, last_at_or_before
from eventide.plan.windows import Slide

_STATUS = (pa.field(EPOCH, pa.int32()), pa.field(HASH, pa.int64()))
_ROWS = AggregateSpec("rows", "count", (), (), pa.int64())  # after the user's aggregates: how many rows a moment has
_RANGE = "range"

if TYPE_CHECKING:
    from eventide.kernels.logic.windowed import WindowedAggregation


class Slides(KeyedKernel):
    def __init__(self, spec: WindowedAggregation, window: Slide) -> None:
        self._lookback, self._lookahead = window.lookback, window.lookahead or 0
        self._at_once, self._horizon = window.lookahead is None, spec.horizon
        self._lateness, self._past = spec.allowed_lateness, spec.past
        self._side_rows = spec.side_rows
        keys = [packed for _, packed in spec.keys]
        self._stored = Aggregation((START,), keys, spec.key_types, (*spec.aggregates, _ROWS), _STATUS)
        self._ranges = Aggregation((_RANGE,), (), (), spec.aggregates)
        self._rows_column = f"s{len(spec.aggregates)}_0"
        self._schema = spec.main_schema
        earlier = self._stored.earlier(spec.past.with_part(self._stored.parts[-1]))
        super().__init__(
            len(spec.sources),
            KeyedTable("moments", self._stored.schema, spec.fingerprint(), self._summary, earlier=earlier),
        )

    def _take(self, rows: pa.Table, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        if watermark is not None:
            rows = self._without_late(rows, watermark, output)
        output.counts[USED] += rows.num_rows
        output.events["windows_opened"] += rows.num_rows
        if rows.num_rows:
            self._hold(rows, watermark, directory, store, output)

    def _give_out(self, until: int, directory: Directory, store: Store, output: Output) -> None:
        """Rows stay for triggers to come."""
        buckets = np.flatnonzero(directory.waiting)
        if len(buckets):
            table = self._table.read(buckets, directory, store)
            table = self._emit(table, ints(table, START) <= until, output)
            self._table.write(buckets, table, table.slice(0, 0), directory, store)

    def _without_late(self, rows: pa.Table, watermark: int, output: Output) -> pa.Table:
        ts = ints(rows, TS)
        late = ts + self._lookahead <= self._past.reached(watermark, self._lateness)
        return self._side_rows.put(
            output,
            rows,
            late,
            "late",
            LATE_REASON,
            windows=lambda: (ts[late] - self._lookback, ts[late] + self._lookahead),
        )

    def _hold(self, rows: pa.Table, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        fresh = self._stored.fold(rows, [column(rows, TS)])
        hashes = hashes_of([column(fresh, name) for name in self._stored.keys], fresh.num_rows)
        bucket_rows = self._table.find(hashes, directory, store)
        held, others = (
            self._still_needed(bucket_rows.asked, watermark),
            self._still_needed(bucket_rows.others, watermark),
        )
        merged = self._stored.merge(pa.concat_tables([held, with_column(fresh, HASH, hashes)]))
        if self._at_once:
            merged = self._emit(merged, np.ones(merged.num_rows, np.bool_), output)
        self._table.write(bucket_rows.buckets, others, merged, directory, store)

    def _pass_time(self, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        if watermark is None:
            return
        buckets = np.flatnonzero(directory.due <= watermark)
        if len(buckets) == 0:
            return
        table = self._table.read(buckets, directory, store)
        table = self._emit(table, ints(table, START) + self._horizon <= watermark, output)
        self._table.write(buckets, self._still_needed(table, watermark), table.slice(0, 0), directory, store)

    def _still_needed(self, table: pa.Table, watermark: int | None) -> pa.Table:
        """Rows that some trigger, waiting or to come, can reach back to."""
        if watermark is None:
            return table
        return table.filter(pa.array(ints(table, START) + self._lookback + self._horizon > watermark))

    def _emit(self, table: pa.Table, due: Mask, output: Output) -> pa.Table:
        """One main row for each trigger that waits in the due rows; the table, which holds all rows of its groups, with
        those triggers noted as emitted."""
        rows, epoch = ints(table, self._rows_column), ints(table, EPOCH)
        waits = due & (rows > epoch)
        if not waits.any():
            return table
        place = np.flatnonzero(waits)
        merged = self._over_ranges(table, place)
        copies = rows[place] - epoch[place]
        source = np.repeat(np.arange(len(place)), copies)
        epochs = np.repeat(epoch[place] - (np.cumsum(copies) - copies), copies) + np.arange(len(source))
        order = np.argsort(ints(table, START)[place][source], kind="stable")
        output.main.append(self._main(table, place, merged, source[order], epochs[order]))
        output.events["windows_closed"] += len(source)
        return with_column(table, EPOCH, np.where(waits, rows, epoch))

    def _over_ranges(self, table: pa.Table, place: Ints) -> pa.Table:
        """The partials over the ranges of the rows at these places."""
        start = ints(table, START)
        keys = [column(table, name) for name in self._stored.keys]
        group = present(group_rows(keys, [], segments=True).segments).group if keys else np.zeros(len(start), np.int64)
        order = by_group_and_time(group, start)
        groups, starts = group[order], start[order]
        first_of_group = np.searchsorted(groups, group[place])
        before = last_at_or_before(groups, starts, group[place], start[place] - self._lookback - 1)
        last = last_at_or_before(groups, starts, group[place], start[place] + self._lookahead)
        states = [column(table, name) for name in self._ranges.schema.names[1:]]
        partials = pa.Table.from_arrays([pa.array(start), *states], schema=self._ranges.schema).take(pa.array(order))
        return merged_ranges(self._ranges, partials, np.where(before < 0, first_of_group, before + 1), last + 1)

    def _main(self, table: pa.Table, place: Ints, merged: pa.Table, source: Ints, epochs: Ints) -> pa.Table:
        moment = ints(table, START)[place][source]
        head = main_head(moment - self._lookback, moment + self._lookahead, epochs, 1)
        keys = [column(table, name).take(pa.array(place[source])) for name in self._stored.keys]
        results = [values.take(pa.array(source)) for values in self._ranges.results(merged)]
        return pa.Table.from_arrays(head + keys + results, schema=self._schema)

    def _summary(self, table: pa.Table) -> Summary:
        """Rows that wait are due at their deadline; others some time after they have become useless, to read less
        often.
        """
        start = ints(table, START)
        waiting = ints(table, self._rows_column) - ints(table, EPOCH)
        useless = start + self._horizon + 2 * self._lookback
        return Summary(np.where(waiting > 0, start + self._horizon, useless), waiting, np.zeros(len(start), np.int64))

    def _gauges(self, directory: Directory) -> dict[str, int]:
        return {"open_windows": int(directory.waiting.sum()), "buffer_size": int(directory.rows.sum())}
