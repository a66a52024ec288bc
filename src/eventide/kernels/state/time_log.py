"""Tables in the store by time: an append-only log per range of time, with coarse ranges for a batch that spans a long
time.

A batch appends one blob to each range it touches, in ranges wide enough that it touches few. When a range comes due,
those of its rows that are not due move to narrower ranges, as in a timer wheel: a row is rewritten at most once per
level.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import Store
from eventide.kernels.state.codec import Codec
from eventide.kernels.vector.columns import Ints, distinct, ints, stable_order

LEVELS = 6
BITS = 4  # a range on one level is 2 ** BITS ranges on the level below
_MOST_RANGES = 32


def level_for(places: Ints) -> int:
    """The finest level at which these places lie in few ranges."""
    first, last = (int(places.min()), int(places.max())) if len(places) else (0, 0)
    for level in range(LEVELS - 1):
        shift = BITS * level
        if (last >> shift) - (first >> shift) < _MOST_RANGES or len(distinct(places >> shift)) <= _MOST_RANGES:
            return level
    return LEVELS - 1


def split(table: pa.Table, buckets: Ints) -> Iterator[tuple[int, pa.Table]]:
    """(bucket, its rows in their original order), by ascending bucket."""
    if len(buckets) == 0:
        return
    if (buckets == buckets[0]).all():
        yield int(buckets[0]), table
        return
    order = stable_order(buckets)
    ordered = table.take(pa.array(order)).combine_chunks()
    sorted_buckets = buckets[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_buckets[1:] != sorted_buckets[:-1])))
    touched = sorted_buckets[starts]
    for bucket, start, end in zip(touched.tolist(), starts.tolist(), [*starts[1:].tolist(), len(buckets)], strict=True):
        yield bucket, ordered.slice(start, end - start)


class TimeLog:
    """Rows by an int64 column of microseconds, taken out as time passes; ranges of the finest level have 2 **
    `grain`.
    """

    def __init__(self, name: str, codec: Codec, column: str, grain: int = 16) -> None:
        self._codec, self._column, self._grain = codec, column, grain
        self._spaces = [f"{name}{level}" for level in range(LEVELS)]

    def add(self, table: pa.Table, store: Store) -> None:
        self._put(table, level_for(ints(table, self._column) >> self._grain), store)

    def take(self, until: int, store: Store) -> pa.Table:
        """Remove and return all rows up to and including this moment; within a range, in the order in which they were
        added.
        """
        found = [self._codec.schema.empty_table()]
        for level in reversed(range(LEVELS)):
            for bucket in store.buckets(self._spaces[level]):
                if bucket << (self._grain + BITS * level) > until:
                    break
                found.append(self._split_off(level, bucket, until, store))
        return pa.concat_tables(found)

    def earliest(self, store: Store) -> int | None:
        """A moment before which no row is, or None if there is none: the start of the first range, unread."""
        starts = (
            store.buckets(space)[0] << (self._grain + BITS * level)
            for level, space in enumerate(self._spaces)
            if store.buckets(space)
        )
        return min(starts, default=None)

    def state_bytes(self, store: Store) -> int:
        return sum(store.size(space, bucket)[1] for space in self._spaces for bucket in store.buckets(space))

    def _split_off(self, level: int, bucket: int, until: int, store: Store) -> pa.Table:
        table = self._codec.decode_all(store.read(self._spaces[level], bucket))
        store.delete(self._spaces[level], bucket)
        due = ints(table, self._column) <= until
        if not due.all():
            self._put(table.filter(pa.array(~due)), max(level - 1, 0), store)
        return table.filter(pa.array(due))

    def _put(self, table: pa.Table, level: int, store: Store) -> None:
        for bucket, part in split(table, ints(table, self._column) >> (self._grain + BITS * level)):
            store.append(self._spaces[level], bucket, self._codec.encode(part))
