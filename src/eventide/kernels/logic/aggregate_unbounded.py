"""Groups without a window: the value of every group is at hand, and told anew when it changes.

With a time to live a group is forgotten when the watermark is that far past its newest row; a row that comes later
begins it anew. What is told of a group has the time of its newest row; when that is taken back, the time that it was
told with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import TS, USED, Output, Store
from eventide.kernels.logic.open_groups import OpenGroupsKernel, with_column
from eventide.kernels.state.keyed_table import EPOCH, GROUP_STATUS, HASH, NEVER, Directory, hashes_of
from eventide.kernels.vector.columns import Ints, Mask, column, ints, timestamps
from eventide.kernels.vector.grouping import Reduction, group_rows
from eventide.plan.windows import Unbounded

if TYPE_CHECKING:
    from eventide.kernels.logic.windowed import WindowedAggregation

_ALL = "all"  # a leading column that is the same for all rows: an aggregation has at least one
_NEWEST = pa.field("newest", pa.int64())  # the time of the newest row
_TOLD = pa.field("told", pa.int64())  # that of the last emission


class AggregateUnbounded(OpenGroupsKernel):
    STATUS = (*GROUP_STATUS, _NEWEST, _TOLD)

    def __init__(self, spec: WindowedAggregation, window: Unbounded) -> None:
        super().__init__(spec, spec.aggregation((_ALL,)))
        self._main_schema = spec.main_schema
        self._ttl, self._has_keys, self._has_values = window.ttl, bool(spec.keys), bool(spec.aggregates)

    def _take(self, rows: pa.Table, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        output.counts[USED] += rows.num_rows
        fresh = self._fresh(rows)
        bucket_rows = self._table.find(ints(fresh, HASH), directory, store)
        held = bucket_rows.asked
        merged = self._merge(held, held, fresh, watermark, output)
        output.events["groups_opened"] += max(merged.num_rows - held.num_rows, 0)
        self._table.write(bucket_rows.buckets, bucket_rows.others, merged, directory, store)

    def _fresh(self, rows: pa.Table) -> pa.Table:
        """The rows of a batch folded by group, each with the time of its newest row."""
        everything = pa.array(np.zeros(rows.num_rows, np.int64))
        folded = self._folded.fold(rows, [everything])
        count = folded.num_rows
        keys = [column(folded, name) for name in self._folded.keys]
        bounds = [pa.array(np.zeros(count, np.int64)), pa.array(np.full(count, NEVER))]
        values = {HASH: hashes_of(keys, count), _NEWEST.name: self._newest(rows, everything)}
        values[_TOLD.name] = np.full(count, np.iinfo(np.int64).min)
        status = [pa.array(values.get(field.name, np.zeros(count, np.int64)), field.type) for field in self.STATUS]
        columns = [*bounds, *folded.drop_columns([_ALL]).columns, *status]
        return pa.Table.from_arrays(columns, schema=self._aggregation.schema)

    def _newest(self, rows: pa.Table, everything: pa.Array) -> Ints:
        # `fold` numbers the groups of the rows in the same way, so that group n is row n of what it gives.
        by = [everything, *self._folded.key_columns(rows)]
        newest = group_rows(by, [Reduction("max", column(rows, TS))], segments=False).reduced[0]
        return np.asarray(newest.to_numpy(zero_copy_only=False), np.int64)

    def _closes_at(self, table: pa.Table) -> Ints:
        return np.full(table.num_rows, NEVER) if self._ttl is None else ints(table, _NEWEST.name) + self._ttl

    def _emptied(self, merged: pa.Table) -> Mask:
        """A query without keys has its one group even if that is empty."""
        return super()._emptied(merged) & self._has_keys

    def _emit(self, table: pa.Table, chosen: Mask, output: Output) -> pa.Table:
        if not self._has_values:  # a group that has nothing but its keys never changes: it is told once
            chosen = chosen & (ints(table, EPOCH) == 0)
        emitted = super()._emit(table, chosen, output)
        return with_column(
            emitted, _TOLD.name, np.where(chosen, ints(emitted, _NEWEST.name), ints(emitted, _TOLD.name))
        )

    def _forget(self, closed: pa.Table, watermark: int | None, directory: Directory, output: Output) -> None:
        output.events["groups_expired"] += closed.num_rows

    def _give_out(self, until: int, directory: Directory, store: Store, output: Output) -> None:
        """Nothing: what there is has been told with every batch."""

    def _flushed(self, table: pa.Table, directory: Directory, output: Output) -> pa.Table:
        return table

    def _main(self, rows: pa.Table, op: int) -> pa.Table:
        """As for windows, without bounds, and with a time."""
        count, aggregation = rows.num_rows, self._aggregation
        unknown = pa.nulls(count, pa.timestamp("us", tz="UTC"))
        head = [unknown, unknown, pa.array(ints(rows, EPOCH)), pa.repeat(pa.scalar(op, pa.int32()), count)]
        keys = [column(rows, name) for name in aggregation.keys]
        time = timestamps(ints(rows, (_TOLD if op < 0 else _NEWEST).name))
        return pa.Table.from_arrays([*head, *keys, *aggregation.results(rows), time], schema=self._main_schema)

    def _open_windows(self, directory: Directory) -> int:
        return 0
