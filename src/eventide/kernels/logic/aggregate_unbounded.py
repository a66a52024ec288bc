"""Groups without a window: the value of every group is at hand, and told anew when it changes.

With a time to live a group is forgotten when the watermark is that far past its newest row; a row that comes later
begins it anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates.base import present
from eventide.kernels.contract import TS, USED, Output, Store
from eventide.kernels.logic.emission import main_schema
from eventide.kernels.logic.open_groups import OpenGroupsKernel
from eventide.kernels.state.keyed_table import EPOCH, GROUP_STATUS, HASH, NEVER, Directory, hashes_of
from eventide.kernels.vector.columns import Ints, column, ints
from eventide.kernels.vector.grouping import group_rows
from eventide.plan.windows import Unbounded

if TYPE_CHECKING:
    from eventide.kernels.logic.windowed import WindowedAggregation

_ALL = "all"  # a leading column that is the same for all rows: an aggregation has at least one
_EXPIRES = pa.field("expires", pa.int64())


class AggregateUnbounded(OpenGroupsKernel):
    STATUS = (*GROUP_STATUS, _EXPIRES)

    def __init__(self, spec: WindowedAggregation, window: Unbounded) -> None:
        super().__init__(spec, spec.aggregation((_ALL,)))
        self._ttl = window.ttl

    def _take(self, rows: pa.Table, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        output.counts[USED] += rows.num_rows
        fresh = self._fresh(rows)
        bucket_rows = self._table.find(ints(fresh, HASH), directory, store)
        held = bucket_rows.asked
        merged = self._merge(held, held, fresh, watermark, output)
        output.events["groups_opened"] += merged.num_rows - held.num_rows
        self._table.write(bucket_rows.buckets, bucket_rows.others, merged, directory, store)

    def _fresh(self, rows: pa.Table) -> pa.Table:
        """The rows of a batch folded by group, each with the time at which the group may be forgotten."""
        everything = pa.array(np.zeros(rows.num_rows, np.int64))
        folded = self._folded.fold(rows, [everything])
        count = folded.num_rows
        keys = [column(folded, name) for name in self._folded.keys]
        bounds = [pa.array(np.zeros(count, np.int64)), pa.array(np.full(count, NEVER))]
        values = {HASH: hashes_of(keys, count), _EXPIRES.name: self._expiry(rows, everything, count)}
        status = [pa.array(values.get(field.name, np.zeros(count, np.int64)), field.type) for field in self.STATUS]
        columns = [*bounds, *folded.drop_columns([_ALL]).columns, *status]
        return pa.Table.from_arrays(columns, schema=self._aggregation.schema)

    def _expiry(self, rows: pa.Table, everything: pa.Array, count: int) -> Ints:
        if self._ttl is None:
            return np.full(count, NEVER)
        # `fold` numbers the groups of the rows in the same way, so that group n is row n of what it gives.
        groups = present(group_rows([everything, *self._folded.key_columns(rows)], [], segments=True).segments)
        newest = np.full(count, np.iinfo(np.int64).min)
        np.maximum.at(newest, groups.group, ints(rows, TS))
        return newest + self._ttl

    def _closes_at(self, table: pa.Table) -> Ints:
        return ints(table, _EXPIRES.name)

    def _forget(self, closed: pa.Table, watermark: int | None, directory: Directory, output: Output) -> None:
        output.events["groups_expired"] += closed.num_rows

    def _give_out(self, until: int, directory: Directory, store: Store, output: Output) -> None:
        """Nothing: what there is has been told with every batch."""

    def _flushed(self, table: pa.Table, directory: Directory, output: Output) -> pa.Table:
        return table

    def _main(self, rows: pa.Table, op: int) -> pa.Table:
        """As for windows, without bounds."""
        count, aggregation = rows.num_rows, self._aggregation
        unknown = pa.nulls(count, pa.timestamp("us", tz="UTC"))
        head = [unknown, unknown, pa.array(ints(rows, EPOCH)), pa.repeat(pa.scalar(op, pa.int32()), count)]
        keys = [column(rows, name) for name in aggregation.keys]
        return pa.Table.from_arrays([*head, *keys, *aggregation.results(rows)], schema=main_schema(aggregation))

    def _open_windows(self, directory: Directory) -> int:
        return 0
