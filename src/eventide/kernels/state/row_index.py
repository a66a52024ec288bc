"""Rows by time and key, for kernels that look up the rows of some keys within some range of time.

    rows -> slots of time -> parts by hash -> a log of blobs each

A slot is as wide as the index asks for, or wider while what is held spans a long time: there are never many of them.
The number of a slot's parts follows the number of its rows: a small batch reads and writes a few small blobs, however
much is held, and a large one pays a fraction of a microsecond per row. As long as a slot has only met large batches its
parts are larger: each costs a trip to the store. A small batch that suffers from it makes them small, for good. A
directory, one small blob, holds of each slot how many rows it has and their first and last time: a slot is forgotten
without being read.

Beside its rows a part may have notes on them, appended without rewriting the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import TS, Store
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.time_log import split
from eventide.kernels.vector.columns import Ints, Mask, ints

HASH = "hash"
PER_PART = 512  # rows, of a slot with few parts
_PER_LARGE_PART = 2048  # of one with many: each part costs a batch that touches them all a call of the store
_FEW_BITS, _MOST_BITS = 6, 12
_MOST_SLOTS = 128  # that rows may be spread over
_COARSER = 3  # bits that a slot of large batches does without
_WORTH_SPREADING = 8_192  # rows that a small batch would read in vain
_GROWTH = 2  # bits that a slot gets beyond what it needs, so that it need not be spread anew soon
_MOST_BLOBS = 8
_AT_ONCE = 1_000_000  # rows that are read
_FIELDS = ("number", "shift", "place", "bits", "rows", "first", "last")
_DIRECTORY_SCHEMA = pa.schema([(name, pa.int64()) for name in _FIELDS])


@dataclass
class Slot:
    """The rows whose time, shifted by `shift` bits, is `place`; in 2 ** `bits` parts below `number`."""

    number: int
    shift: int
    place: int
    bits: int
    rows: int = 0
    first: int = np.iinfo(np.int64).max
    last: int = np.iinfo(np.int64).min

    def parts_of(self, hashes: Ints) -> Ints:
        return (hashes >> (64 - self.bits)) + (1 << (self.bits - 1)) if self.bits else np.zeros(len(hashes), np.int64)

    def bucket(self, part: int) -> int:
        return self.number << _MOST_BITS | part


@dataclass
class Slots:
    """The directory."""

    slots: list[Slot] = field(default_factory=list)
    changed: bool = False

    @property
    def rows(self) -> int:
        return sum(slot.rows for slot in self.slots)

    def remove(self, gone: list[Slot]) -> None:
        self.slots = [slot for slot in self.slots if slot not in gone]
        self.changed = True


@dataclass(frozen=True)
class Found:
    """Rows, the notes of their parts, and which of the questions they may answer."""

    rows: pa.Table
    notes: pa.Table
    asked: Mask


class RowIndex:
    """Tables with at least the columns TS and HASH, in spaces that begin with `name`; a slot has at least `width`
    microseconds. Notes are tables of `notes` with the columns TS and HASH of the row that they are about.
    """

    def __init__(self, name: str, schema: pa.Schema, fingerprint: str, width: int, notes: pa.Schema) -> None:
        self._space, self._meta, self._note_space = name, f"{name}_slots", f"{name}_marks"  # as checkpoints call it
        self._codec, self._note_codec = Codec(fingerprint, schema), Codec(fingerprint, notes)
        self._directory_codec = Codec(fingerprint, _DIRECTORY_SCHEMA)
        self._least_shift = max(width - 1, 1).bit_length()

    def load(self, store: Store) -> Slots:
        blobs = store.read(self._meta, 0)
        if not blobs:
            return Slots()
        columns = [ints(self._directory_codec.decode(blobs[0]), name).tolist() for name in _FIELDS]
        return Slots([Slot(*values) for values in zip(*columns, strict=True)])

    def save(self, directory: Slots, store: Store) -> None:
        if not directory.changed:
            return
        if not directory.slots:
            store.delete(self._meta, 0)
            return
        columns = [pa.array([getattr(slot, name) for slot in directory.slots], pa.int64()) for name in _FIELDS]
        store.replace(
            self._meta, 0, self._directory_codec.encode(pa.Table.from_arrays(columns, schema=_DIRECTORY_SCHEMA))
        )

    def add(self, rows: pa.Table, directory: Slots, store: Store) -> None:
        if rows.num_rows == 0:
            return
        ts = ints(rows, TS)
        shift = self._shift(int(ts.min()), int(ts.max()), directory)
        by_place = {(slot.shift, slot.place): slot for slot in directory.slots}
        for place, part in split(rows, ts >> shift):
            slot = by_place.get((shift, place))
            if slot is None:
                number = max((slot.number for slot in directory.slots), default=-1) + 1
                slot = Slot(number, shift, place, _bits_for(part.num_rows, _COARSER))
                directory.slots.append(slot)
            self._put(slot, part, store)
        directory.changed = True

    def note(self, notes: pa.Table, directory: Slots, store: Store) -> None:
        """Put notes beside the rows that they are about."""
        ts, hashes = ints(notes, TS), ints(notes, HASH)
        for slot in directory.slots:
            within = ts >> slot.shift == slot.place
            if within.any():
                for part, some in split(notes.filter(pa.array(within)), slot.parts_of(hashes[within])):
                    store.append(self._note_space, slot.bucket(part), self._note_codec.encode(some))

    def probe(self, hashes: Ints, first: Ints, last: Ints, directory: Slots, store: Store) -> Iterator[Found]:
        """All rows that may have one of these hashes and a time between its `first` and `last`, and others; not too
        many at a time.
        """
        if len(hashes) == 0:
            return
        earliest, latest = int(first.min()), int(last.max())
        asked, rows, notes = np.zeros(len(hashes), np.bool_), list[pa.Table](), list[pa.Table]()
        is_large = _is_large(len(hashes), directory.rows)
        for slot in directory.slots:
            if slot.last < earliest or slot.first > latest:
                continue
            within = (last >= slot.first) & (first <= slot.last)
            questions = int(np.count_nonzero(within))
            if questions == 0:
                continue
            if not is_large and _read_in_vain(questions, slot) > _WORTH_SPREADING:
                self._append(slot, self._spread(slot, _bits_for(slot.rows) + _GROWTH, store), store)
                directory.changed = True
            parts = np.flatnonzero(np.bincount(slot.parts_of(hashes[within]))).tolist()
            rows += self._read(self._space, self._codec, slot, parts, store)
            notes += self._read(self._note_space, self._note_codec, slot, parts, store)
            asked |= within
            if sum(table.num_rows for table in rows) >= _AT_ONCE:
                yield self._found(rows, notes, asked)
                asked, rows, notes = np.zeros(len(hashes), np.bool_), [], []
        if rows:
            yield self._found(rows, notes, asked)

    def forget(self, is_over: Callable[[int], bool], directory: Slots, store: Store) -> int:
        """Delete, unread, the slots whose last time is over; how many rows they had."""
        gone = [slot for slot in directory.slots if is_over(slot.last)]
        for slot in gone:
            for part in range(1 << slot.bits):
                store.delete(self._space, slot.bucket(part))
                store.delete(self._note_space, slot.bucket(part))
        if gone:
            directory.remove(gone)
        return sum(slot.rows for slot in gone)

    def state_bytes(self, store: Store) -> int:
        spaces = (self._space, self._note_space)
        return sum(store.size(space, bucket)[1] for space in spaces for bucket in store.buckets(space))

    def _found(self, rows: list[pa.Table], notes: list[pa.Table], asked: Mask) -> Found:
        empty = self._note_codec.schema.empty_table()
        return Found(pa.concat_tables(rows).combine_chunks(), pa.concat_tables([empty, *notes]), asked)

    def _read(self, space: str, codec: Codec, slot: Slot, parts: list[int], store: Store) -> list[pa.Table]:
        buckets = [slot.bucket(part) for part in parts]
        return [
            codec.decode(blob)
            for bucket in buckets
            if store.size(space, bucket)[0]
            for blob in store.read(space, bucket)
        ]

    def _shift(self, first: int, last: int, directory: Slots) -> int:
        """How wide a slot must be for all rows to lie in few of them."""
        first = min([first, *[slot.first for slot in directory.slots]])
        last = max([last, *[slot.last for slot in directory.slots]])
        return max(self._least_shift, ((last - first) // _MOST_SLOTS).bit_length())

    def _put(self, slot: Slot, rows: pa.Table, store: Store) -> None:
        ts = ints(rows, TS)
        slot.rows += rows.num_rows
        slot.first, slot.last = min(slot.first, int(ts.min())), max(slot.last, int(ts.max()))
        is_large = _is_large(rows.num_rows, slot.rows)
        bits = _bits_for(slot.rows, _COARSER if is_large else 0)
        if slot.bits < bits:
            held = self._spread(slot, bits if is_large else bits + _GROWTH, store)
            rows = pa.concat_tables([held, rows]).combine_chunks()
        self._append(slot, rows, store)

    def _append(self, slot: Slot, rows: pa.Table, store: Store) -> None:
        for part, some in split(rows, slot.parts_of(ints(rows, HASH))):
            blobs = store.append(self._space, slot.bucket(part), self._codec.encode(some))
            if blobs > _MOST_BLOBS:
                whole = self._codec.decode_all(store.read(self._space, slot.bucket(part)))
                store.replace(self._space, slot.bucket(part), self._codec.encode(whole))

    def _spread(self, slot: Slot, bits: int, store: Store) -> pa.Table:
        """Give a slot more parts. Returns its rows, which must be appended anew; its notes have been."""
        parts = list(range(1 << slot.bits))
        rows = self._read(self._space, self._codec, slot, parts, store)
        notes = self._read(self._note_space, self._note_codec, slot, parts, store)
        for part in parts:
            store.delete(self._space, slot.bucket(part))
            store.delete(self._note_space, slot.bucket(part))
        slot.bits = min(bits, _MOST_BITS)
        if notes:
            self.note(pa.concat_tables(notes), Slots([slot]), store)
        return pa.concat_tables([self._codec.schema.empty_table(), *rows]).combine_chunks()


def _is_large(rows: int, held: int) -> bool:
    """Whether a batch of so many rows, or questions, touches every part of what is held, however small parts are."""
    return rows * PER_PART >= held


def _read_in_vain(questions: int, slot: Slot) -> int:
    """How many rows of a slot are read only since its parts are larger than those of small batches."""
    held, fine = (min(questions, 1 << bits) * slot.rows >> bits for bits in (slot.bits, _bits_for(slot.rows)))
    return held - fine


def _bits_for(rows: int, fewer: int = 0) -> int:
    fine, coarse = ((rows // size).bit_length() for size in (PER_PART, _PER_LARGE_PART))
    return max(min(fine, max(coarse, _FEW_BITS), _MOST_BITS) - fewer, 0)
