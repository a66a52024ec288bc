"""Where the store keeps the partials of slices: in logs by slice, or by a coarser range of time when there are many.

A batch appends one blob to each bucket it touches. If it touches more than 32 slices (a backfill), it writes to buckets
of 16, 256, ... slices instead, so that the number of round trips stays small; when such a range comes due, those of its
rows that are not due move one level down, as in a timer wheel. A row is rewritten at most once per level.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates import Aggregation
from eventide.kernels.contract import Store
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.time_log import BITS, LEVELS, level_for, split
from eventide.kernels.vector.columns import Ints, ints

SLICE = "slice"
_FEW_BLOBS, _MANY_BLOBS, _LARGE = 8, 64, 1 << 20


def space(level: int) -> str:
    return f"slices{level}"


class SliceLog:
    """The partials of all slices that have rows, as tables with the leading column SLICE."""

    def __init__(self, aggregation: Aggregation, codec: Codec) -> None:
        self._aggregation = aggregation
        self._codec = codec

    def add(self, partial: pa.Table, store: Store) -> None:
        """Append a batch's partial."""
        self._spread(partial, level_for(ints(partial, SLICE)), store)

    def take(self, wanted: Ints, keep_from: int, store: Store) -> pa.Table:
        """All rows of these ascending slices, possibly several per group; slices before `keep_from` are forgotten."""
        found = [self._codec.schema.empty_table()]
        last = int(wanted[-1]) if len(wanted) else keep_from - 1
        for level in reversed(range(1, LEVELS)):
            for bucket in store.buckets(space(level)):
                if bucket << (BITS * level) > max(last, keep_from - 1):
                    break
                found.append(self._from_range(level, bucket, wanted, keep_from, store))
        held = store.buckets(space(0))
        found += [self._read(bucket, keep_from, store) for bucket in np.intersect1d(wanted, held).tolist()]
        for bucket in held:
            if bucket < keep_from:
                store.delete(space(0), bucket)
        return pa.concat_tables(found)

    def everything(self, store: Store) -> pa.Table:
        """All rows of all slices, possibly several per group."""
        levels = ((space(level), bucket) for level in range(LEVELS) for bucket in store.buckets(space(level)))
        return self._codec.decode_all(blob for place in levels for blob in store.read(*place))

    def state_bytes(self, store: Store) -> int:
        return sum(
            store.size(space(level), bucket)[1] for level in range(LEVELS) for bucket in store.buckets(space(level))
        )

    def _read(self, bucket: int, keep_from: int, store: Store) -> pa.Table:
        """A slice's rows; its log becomes one blob if it will be read again."""
        blobs = store.read(space(0), bucket)
        table = self._codec.decode_all(blobs)
        if bucket >= keep_from and len(blobs) > 1:
            table = self._compacted(table)
            store.replace(space(0), bucket, self._codec.encode(table))
        return table

    def _from_range(self, level: int, bucket: int, wanted: Ints, keep_from: int, store: Store) -> pa.Table:
        """Rows that are needed for the last time; later ones move one level down, where they are read when needed."""
        table = self._codec.decode_all(store.read(space(level), bucket))
        store.delete(space(level), bucket)
        slices = ints(table, SLICE)
        kept = table.filter(pa.array(slices >= keep_from))
        if kept.num_rows:
            self._spread(kept, level - 1, store)
        return table.filter(pa.array((slices < keep_from) & np.isin(slices, wanted)))

    def _spread(self, partial: pa.Table, level: int, store: Store) -> None:
        for bucket, part in split(partial, ints(partial, SLICE) >> (BITS * level)):
            self._append(level, bucket, part, store)

    def _append(self, level: int, bucket: int, partial: pa.Table, store: Store) -> None:
        blobs = store.append(space(level), bucket, self._codec.encode(partial))
        if blobs <= _FEW_BLOBS:
            return
        if blobs > _MANY_BLOBS or store.size(space(level), bucket)[1] < _LARGE:
            table = self._compacted(self._codec.decode_all(store.read(space(level), bucket)))
            store.replace(space(level), bucket, self._codec.encode(table))

    def _compacted(self, table: pa.Table) -> pa.Table:
        return self._aggregation.sort(self._aggregation.merge(table))
