"""Open windows by group, in buckets by the hash of the group's key, for kernels that look groups up.

A bucket is one blob: the rows of its groups, sorted by hash and window start, so that equal contents are equal bytes. The number
of buckets is a power of two that follows the number of rows (about a thousand a bucket): a small batch then reads and
writes a few small blobs, and a large one pays a fraction of a microsecond per row. A directory, one small blob, holds
for each bucket how many rows it has, when the next one is due and whether some wait to be emitted: so closing reads
only buckets that have something to close.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates import Aggregation
from eventide.kernels.codec import Codec
from eventide.kernels.columns import Ints, column, ints
from eventide.kernels.contract import Store
from eventide.kernels.hashing import Hashes, hash_rows

START, END = "start", "end"
EPOCH = "epoch"  # how often this group and window was emitted
FRESH = "fresh"  # CLEAN, WAITING or CHANGED
GONE = "gone"  # 1: a flush has emitted this window; it takes no more rows
MARKS = (EPOCH, FRESH, GONE)
CLEAN, WAITING, CHANGED = 0, 1, 2  # emitted as it is; changed since; changed by this very batch
NEVER = np.iinfo(np.int64).max

SPACE, META = "groups", "meta"
_PER_BUCKET = 1024
_BITS, _BUCKET, _WINDOW, _FLUSHED = 0, 1, 2, 3
_DIRECTORY_SCHEMA = pa.schema([("what", pa.int8()), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())])


@dataclass
class Directory:
    """What is known without reading buckets. `windows` and `groups` (per window) are for kernels whose windows many groups share."""

    bits: int = 0
    rows: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    due: Ints = field(default_factory=lambda: np.full(1, NEVER))
    waiting: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    windows: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    groups: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    flushed: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def next_due(self) -> int | None:
        due = int(self.due.min())
        return None if due == NEVER else due

    def resize(self, bits: int) -> None:
        self.bits = bits
        self.rows, self.waiting = np.zeros(1 << bits, np.int64), np.zeros(1 << bits, np.int64)
        self.due = np.full(1 << bits, NEVER)


class KeyedTable:
    """Tables with the leading columns START and END and the marks MARKS; `due_of` says when a row is next looked at."""

    def __init__(self, aggregation: Aggregation, fingerprint: str, due_of: Callable[[pa.Table], Ints]) -> None:
        self._aggregation = aggregation
        self._codec = Codec(fingerprint, aggregation.schema)
        self._directory_codec = Codec(fingerprint, _DIRECTORY_SCHEMA)
        self._due_of = due_of

    def load(self, store: Store) -> Directory:
        blobs = store.read(META, 0)
        if not blobs:
            return Directory()
        table = self._directory_codec.decode(blobs[0])
        what, a, b, c = (ints(table, name) for name in ("what", "a", "b", "c"))
        bucket, window = what == _BUCKET, what == _WINDOW
        return Directory(int(a[0]), a[bucket], b[bucket], c[bucket], a[window], b[window], a[what == _FLUSHED])

    def save(self, directory: Directory, store: Store) -> None:
        if not directory.rows.any() and not len(directory.flushed):
            store.delete(META, 0)
            return
        parts = [
            (_BITS, np.array([directory.bits]), None, None),
            (_BUCKET, directory.rows, directory.due, directory.waiting),
            (_WINDOW, directory.windows, directory.groups, None),
            (_FLUSHED, directory.flushed, None, None),
        ]
        what = np.concatenate([np.full(len(first), kind, np.int8) for kind, first, _, _ in parts])
        columns = [np.concatenate([np.zeros(len(part[1]), np.int64) if part[n] is None else part[n] for part in parts]) for n in (1, 2, 3)]
        table = pa.Table.from_arrays([pa.array(what), *map(pa.array, columns)], schema=_DIRECTORY_SCHEMA)
        store.replace(META, 0, self._directory_codec.encode(table))

    def buckets_of(self, keys: list[pa.Array], length: int, directory: Directory) -> Ints:
        """The buckets, ascending, in which rows with these keys lie."""
        return np.unique(_buckets(hash_rows(keys, length), directory.bits))

    def make_room(self, more: int, directory: Directory, store: Store) -> None:
        """Choose a fitting number of buckets, with `more` rows about to come, before any bucket is read."""
        held = int(directory.rows.sum())
        wanted = max(0, (held + more) // _PER_BUCKET).bit_length()
        if directory.bits - 3 <= wanted <= directory.bits:
            return
        everything = self.read(np.flatnonzero(directory.rows), directory, store)
        for bucket in store.buckets(SPACE):
            store.delete(SPACE, bucket)
        directory.resize(wanted)
        if held:
            self.write(np.arange(1 << wanted), everything, directory, store)

    def read(self, buckets: Ints, directory: Directory, store: Store) -> pa.Table:
        """All rows of some buckets."""
        blobs = [blob for bucket in buckets if directory.rows[bucket] for blob in store.read(SPACE, int(bucket))]
        return self._codec.decode_all(blobs)

    def write(self, buckets: Ints, table: pa.Table, directory: Directory, store: Store) -> None:
        """Put these rows in the place of all rows of some ascending buckets, to which all of them must belong."""
        hashes = hash_rows([column(table, name) for name in self._aggregation.keys], table.num_rows)
        order = np.lexsort((ints(table, START), hashes))
        table = table.take(pa.array(order)).combine_chunks()
        numbers = _buckets(hashes[order], directory.bits)
        starts, ends = np.searchsorted(numbers, buckets), np.searchsorted(numbers, buckets, side="right")
        due, waiting = self._due_of(table), ints(table, FRESH) != CLEAN
        for bucket, start, end in zip(buckets.tolist(), starts.tolist(), ends.tolist(), strict=True):
            if start < end:
                store.replace(SPACE, bucket, self._codec.encode(table.slice(start, end - start)))
            elif directory.rows[bucket]:
                store.delete(SPACE, bucket)
            directory.rows[bucket] = end - start
            directory.due[bucket] = due[start:end].min(initial=NEVER)
            directory.waiting[bucket] = waiting[start:end].sum()

    def state_bytes(self, store: Store) -> int:
        return sum(store.size(SPACE, bucket)[1] for bucket in store.buckets(SPACE))


def _buckets(hashes: Hashes, bits: int) -> Ints:
    """The upper bits of each hash, so that rows sorted by hash are sorted by bucket."""
    if bits == 0:
        return np.zeros(len(hashes), np.int64)
    return (hashes >> np.uint64(64 - bits)).astype(np.int64)
