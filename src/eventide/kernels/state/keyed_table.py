"""Open windows by group, in buckets by the hash of the group's key, for kernels that look up groups.

A bucket is one blob: the rows of its groups, sorted by hash and window, so that equal contents have equal bytes. The
number of buckets is a power of two that grows with the number of rows (a few hundred per bucket): a small batch then
reads and writes a few small blobs, and a large one pays a fraction of a microsecond per row. As long as all batches are
large ones buckets are larger too: each costs a trip to the store. The first small batch makes them small, for good. A
directory, one small
blob, says for each bucket how many rows it has, when the next one is due and whether any are waiting to be emitted, so
closing reads only buckets that have something to close.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import Store
from eventide.kernels.state.codec import Codec, Earlier, unchanged
from eventide.kernels.vector.columns import Ints, Mask, distinct, ints, ties_broken
from eventide.kernels.vector.hashing import hash_rows
from eventide.kernels.vector.intervals import by_group_and_time

START, END = "start", "end"
EPOCH = "epoch"  # how often this group and window was emitted
FRESH = "fresh"  # CLEAN, WAITING or CHANGED
GONE = "gone"  # 1: a flush has emitted this window; it takes no more rows
HASH = "hash"  # of the keys; stored, so that text need not be hashed again
GROUP_STATUS = (
    pa.field(EPOCH, pa.int32()),
    pa.field(FRESH, pa.int8()),
    pa.field(GONE, pa.int8()),
    pa.field(HASH, pa.int64()),
)
CLEAN, WAITING, CHANGED = 0, 1, 2  # unchanged since it was emitted; changed since; changed in this very batch
NEVER = np.iinfo(np.int64).max

_LARGE_PART = 128  # who asks for more than one key per so many rows touches every bucket, however small it is
_COARSER = 8  # so many times larger are buckets as long as everybody does
_GROWTH = 2  # bits that they may lack meanwhile: it costs as much to spread all rows anew as it gains
_MOST_BLOBS = 8  # of a bucket to which rows are only added

_BITS, _BUCKET, _WINDOW, _FLUSHED = 0, 1, 2, 3
_DIRECTORY_SCHEMA = pa.schema(
    [("what", pa.int8()), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64()), ("d", pa.int64())]
)


@dataclass
class Directory:
    """What is known without reading buckets. `windows` and `groups` (per window) are for kernels in which many groups
    share a window.
    """

    bits: int = 0
    rows: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    due: Ints = field(default_factory=lambda: np.full(1, NEVER))
    waiting: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    gone: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    windows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    groups: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    flushed: int | None = None  # the last window that a flush has closed
    changed: bool = False
    unsaved: dict[int, pa.Table] = field(default_factory=dict)  # buckets as they will be, of which some are empty

    @property
    def next_due(self) -> int | None:
        due = int(self.due.min())
        return None if due == NEVER else due

    @property
    def open_groups(self) -> int:
        return int(self.rows.sum() - self.gone.sum())

    def resize(self, bits: int) -> None:
        self.bits = bits
        self.rows, self.waiting, self.gone = (np.zeros(1 << bits, np.int64) for _ in range(3))
        self.due = np.full(1 << bits, NEVER)


@dataclass(frozen=True)
class Summary:
    """For each row: when it is next due, 1 if it is waiting to be emitted, and 1 if it is gone."""

    due: Ints
    waiting: Ints
    gone: Ints


@dataclass(frozen=True)
class BucketRows:
    """Rows of some buckets: those with the requested keys, and the others."""

    buckets: Ints
    asked: pa.Table
    others: pa.Table


class KeyedTable:
    """Tables with at least the columns START and HASH, in spaces that begin with `name`.

    `summary` says of each row what the directory sums up; a bucket is due with the first of its rows, or with the last
    if `due` is np.maximum. `waiting` adds up what the summary calls so, or is np.minimum for a kernel that notes there
    what its rows go back to. A bucket should have about `per_bucket` rows. `earlier` is what earlier texts wrote.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        fingerprint: str,
        summary: Callable[[pa.Table], Summary],
        due: np.ufunc = np.minimum,
        per_bucket: int = 512,
        waiting: np.ufunc = np.add,
        earlier: Sequence[Earlier] = (),
    ) -> None:
        self._space, self._meta = name, f"{name}_directory"
        self._codec = Codec(fingerprint, schema, earlier)
        fingerprints = [each.fingerprint for each in earlier]
        self._directory_codec = Codec(fingerprint, _DIRECTORY_SCHEMA, unchanged(fingerprints, _DIRECTORY_SCHEMA))
        self._summary, self._due, self._per_bucket, self._waiting = summary, due, per_bucket, waiting

    def load(self, store: Store) -> Directory:
        blobs = store.read(self._meta, 0)
        if not blobs:
            return Directory()
        table = self._directory_codec.decode(blobs[0])
        what, a, b, c, d = (ints(table, name) for name in _DIRECTORY_SCHEMA.names)
        bucket, window = what == _BUCKET, what == _WINDOW
        flushed = a[what == _FLUSHED]
        last_flushed = int(flushed[-1]) if len(flushed) else None
        found = Directory(int(a[0]), a[bucket], b[bucket], c[bucket], d[bucket], a[window], b[window], last_flushed)
        if self._directory_codec.is_earlier(blobs[0]):
            self._renew(found, store)
        return found

    def _renew(self, directory: Directory, store: Store) -> None:
        """Sum up all rows anew: what is due when, and what waits, another text may see in another way."""
        held = np.flatnonzero(directory.rows)
        table = self.read(held, directory, store)
        self.write(held, table, table.slice(0, 0), directory, store)

    def save(self, directory: Directory, store: Store) -> None:
        """Write back what has changed; an empty table leaves nothing in the store."""
        if not directory.changed:
            return
        for bucket, table in sorted(directory.unsaved.items()):
            if table.num_rows:
                store.replace(self._space, bucket, self._codec.encode(table))
            else:
                store.delete(self._space, bucket)
        directory.unsaved.clear()
        if not directory.rows.any() and directory.flushed is None:
            store.delete(self._meta, 0)
            return
        parts: list[tuple[int, list[Ints]]] = [
            (_BITS, [np.array([directory.bits])]),
            (_BUCKET, [directory.rows, directory.due, directory.waiting, directory.gone]),
            (_WINDOW, [directory.windows, directory.groups]),
            (_FLUSHED, [np.array([] if directory.flushed is None else [directory.flushed], np.int64)]),
        ]
        what = np.concatenate([np.full(len(columns[0]), kind, np.int8) for kind, columns in parts])
        padded = [columns + [np.zeros(len(columns[0]), np.int64)] * (4 - len(columns)) for _, columns in parts]
        values = [pa.array(np.concatenate(columns)) for columns in zip(*padded, strict=True)]
        table = pa.Table.from_arrays([pa.array(what), *values], schema=_DIRECTORY_SCHEMA)
        store.replace(self._meta, 0, self._directory_codec.encode(table))

    def find(self, hashes: Ints, directory: Directory, store: Store) -> BucketRows:
        """What is held for keys with these hashes, in buckets of a size that leaves room for a row for each."""
        wanted = distinct(hashes)
        self.make_room(len(wanted), directory, store)
        buckets = distinct(_buckets(wanted, directory.bits))
        table = self.read(buckets, directory, store)
        hit = _hit(table, wanted)
        return BucketRows(buckets, table.filter(pa.array(hit)), table.filter(pa.array(~hit)))

    def look_up(self, hashes: Ints, directory: Directory, store: Store) -> pa.Table:
        """What is held for keys with these hashes, for who will not write it back; sorted by hash and start."""
        if len(hashes) == 0:
            return self._codec.schema.empty_table()
        wanted = distinct(hashes)
        buckets = distinct(_buckets(wanted, directory.bits))
        tables = [table.filter(pa.array(_hit(table, wanted))) for table in self._blobs(buckets, directory, store)]
        return _in_order(pa.concat_tables([self._codec.schema.empty_table(), *tables]))

    def add(self, rows: pa.Table, directory: Directory, store: Store) -> None:
        """Put rows beside those that are held, without reading these; there should be room for them."""
        if rows.num_rows == 0:
            return
        rows = rows.take(pa.array(_order(rows))).combine_chunks()
        numbers = _buckets(ints(rows, HASH), directory.bits)
        buckets = distinct(numbers)
        bounds = np.append(np.searchsorted(numbers, buckets), len(numbers))
        for bucket, start, end in zip(buckets.tolist(), bounds.tolist(), bounds[1:].tolist(), strict=False):
            self._append(bucket, rows.slice(start, end - start), directory, store)
        self._sum_up_more(buckets, bounds[:-1], self._summary(rows), directory)
        directory.rows[buckets] += np.diff(bounds)

    def _append(self, bucket: int, rows: pa.Table, directory: Directory, store: Store) -> None:
        unsaved = directory.unsaved.get(bucket)
        if unsaved is not None:
            directory.unsaved[bucket] = _in_order(pa.concat_tables([unsaved, rows]))
        elif store.append(self._space, bucket, self._codec.encode(rows)) > _MOST_BLOBS:
            directory.unsaved[bucket] = self.read(np.array([bucket]), directory, store)

    def _sum_up_more(self, buckets: Ints, starts: Ints, rows: Summary, directory: Directory) -> None:
        """What the directory says of buckets that get these rows, too."""
        directory.changed = True
        is_new = directory.rows[buckets] == 0
        for held, more, reduction in (
            (directory.due, rows.due, self._due),
            (directory.waiting, rows.waiting, self._waiting),
            (directory.gone, rows.gone, np.add),
        ):
            found = reduction.reduceat(more, starts)
            held[buckets] = np.where(is_new, found, reduction(held[buckets], found))

    def read(self, buckets: Ints, directory: Directory, store: Store) -> pa.Table:
        """All rows of some ascending buckets, sorted by hash and start."""
        blobs = self._blobs(buckets, directory, store)
        table = pa.concat_tables([self._codec.schema.empty_table(), *blobs])
        return table if len(blobs) <= np.count_nonzero(directory.rows[buckets]) else _in_order(table)

    def _blobs(self, buckets: Ints, directory: Directory, store: Store) -> list[pa.Table]:
        """The rows of some buckets, blob by blob."""
        tables = []
        for bucket in buckets[directory.rows[buckets] > 0].tolist():
            unsaved = directory.unsaved.get(bucket)
            if unsaved is None:
                tables += [self._codec.decode(blob) for blob in store.read(self._space, bucket)]
            else:
                tables.append(unsaved)
        return tables

    def write(self, buckets: Ints, kept: pa.Table, changed: pa.Table, directory: Directory, store: Store) -> None:
        """Replace all rows of some ascending buckets with these rows, all of which must belong to those buckets. They
        reach the store with `save`: who closes windows and then takes rows of the same groups writes them once.

        `kept` must be sorted as `read` returns it, and have no hash in common with `changed`.
        """
        table = kept
        if changed.num_rows:
            table = pa.concat_tables([kept, changed])
            in_turn = np.concatenate((np.arange(kept.num_rows), kept.num_rows + _order(changed)))
            table = table.take(pa.array(in_turn[np.argsort(ints(table, HASH)[in_turn], kind="stable")]))
        table = table.combine_chunks()
        numbers = _buckets(ints(table, HASH), directory.bits)
        bounds = np.searchsorted(numbers, np.append(buckets, NEVER))
        for bucket, start, end in zip(buckets.tolist(), bounds.tolist(), bounds[1:].tolist(), strict=False):
            if start < end or directory.rows[bucket]:
                directory.unsaved[bucket] = table.slice(start, end - start)
        self._summarise(buckets, bounds, self._summary(table), directory)

    def _summarise(self, buckets: Ints, bounds: Ints, rows: Summary, directory: Directory) -> None:
        directory.changed = True
        directory.rows[buckets] = np.diff(bounds)
        directory.due[buckets], directory.waiting[buckets], directory.gone[buckets] = NEVER, 0, 0
        full, starts = buckets[np.diff(bounds) > 0], bounds[:-1][np.diff(bounds) > 0]
        if len(full):
            directory.due[full] = self._due.reduceat(rows.due, starts)
            directory.waiting[full] = self._waiting.reduceat(rows.waiting, starts)
            directory.gone[full] = np.add.reduceat(rows.gone, starts)

    def everything(self, directory: Directory, store: Store) -> pa.Table:
        return self.read(np.flatnonzero(directory.rows), directory, store)

    def fill(self, rows: pa.Table, directory: Directory, store: Store) -> None:
        """Put rows into a table that is empty."""
        self.make_room(rows.num_rows, directory, store)
        self.write(np.arange(1 << directory.bits), rows.slice(0, 0), rows, directory, store)

    def make_room(self, more: int, directory: Directory, store: Store) -> None:
        """Choose a number of buckets that suits a batch of so many keys or rows, before any is read."""
        held = int(directory.rows.sum())
        is_large = more * _LARGE_PART >= held
        wanted = (max(held, more) // (self._per_bucket * (_COARSER if is_large else 1))).bit_length()
        if directory.bits - 3 <= wanted <= directory.bits + (_GROWTH if is_large else 0):
            return
        everything = self.everything(directory, store)
        for bucket in store.buckets(self._space):
            store.delete(self._space, bucket)
        directory.unsaved.clear()
        directory.resize(wanted)
        if held:
            self.write(np.arange(1 << wanted), everything, everything.slice(0, 0), directory, store)

    def state_bytes(self, store: Store) -> int:
        return sum(store.size(self._space, bucket)[1] for bucket in store.buckets(self._space))


def hashes_of(keys: list[pa.Array], length: int) -> Ints:
    """The hash of each row's keys, as in the column HASH."""
    return hash_rows(keys, length).view(np.int64)


def new_groups(columns: list[pa.Array], hashes: Ints, schema: pa.Schema) -> pa.Table:
    """A table of groups that were never emitted: these columns, then a status that is zero but for the hash."""
    status = [
        pa.array(hashes if field.name == HASH else np.zeros(len(hashes), np.int64), field.type)
        for field in GROUP_STATUS
    ]
    return pa.Table.from_arrays([*columns, *status], schema=schema)


def _hit(table: pa.Table, wanted: Ints) -> Mask:
    """Which rows have one of these ascending hashes."""
    held = ints(table, HASH)
    hit: Mask = wanted[np.minimum(np.searchsorted(wanted, held), len(wanted) - 1)] == held
    return hit


def _in_order(table: pa.Table) -> pa.Table:
    return table.take(pa.array(_order(table)))


def _order(table: pa.Table) -> Ints:
    """By HASH, START and END, as far as there are such; then as before."""
    by = [ints(table, name) for name in (END, START, HASH) if name in table.column_names]
    hashes = by[-1]
    if START not in table.column_names:
        return np.lexsort(by)
    start = by[-2]
    order = np.argsort(hashes)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(np.concatenate(([0], hashes[order[1:]] != hashes[order[:-1]])))
    order = by_group_and_time(number, start)
    one, next_one = order[:-1], order[1:]
    is_equal = (number[one] == number[next_one]) & (start[one] == start[next_one])
    return ties_broken(order, is_equal, by)


def _buckets(hashes: Ints, bits: int) -> Ints:
    """The upper bits of each hash, shifted to start at 0: rows sorted by hash are sorted by bucket."""
    return (hashes >> (64 - bits)) + (1 << (bits - 1)) if bits else np.zeros(len(hashes), np.int64)
