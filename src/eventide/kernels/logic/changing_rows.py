"""Rows of partitions that are kept because what is emitted of them may change: what comes in, is taken back, and is
forgotten.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import SEQ, TS, USED, Output, Store
from eventide.kernels.logic.keyed_kernel import KeyedKernel
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.keyed_table import HASH, NEVER, START, Directory, KeyedTable, Summary, hashes_of
from eventide.kernels.vector.columns import Ints, Mask, column, ints, typed
from eventide.kernels.vector.matching import key_numbers
from eventide.kernels.vector.pairing import paired_rows

TOLD = "told"  # the time with which the row was emitted
_NEWEST = "newest"  # the time of the newest row of the partition
_STATUS = (
    pa.field(START, pa.int64()),  # the number of the row, in the order of arrival
    pa.field(HASH, pa.int64()),  # of the partition
    pa.field(TS, pa.int64()),
    pa.field(_NEWEST, pa.int64()),
    pa.field(TOLD, pa.int64()),
)
_COUNTER = pa.schema([("arrived", pa.int64())])
_META = "meta"


@dataclass(frozen=True)
class KeptRows:
    """`partition` and `types` are packed columns: those that rows agree in, and all that are kept, with their types.

    `changes` is the one that says which rows of a change log are taken back. A partition is forgotten when the
    watermark is `ttl` past its newest row.
    """

    partition: tuple[str, ...]
    types: tuple[tuple[str, pa.DataType], ...]
    changes: str | None
    ttl: int | None


@dataclass(frozen=True)
class Change:
    """What a batch is about: `rows` are the first `held`, kept until now, and those that it brought, in the order of
    arrival within each partition; `partition` has a number for each, the same for those of one. `left` are the places
    of the rows that are there now, which is all but those that were taken back, and what took them back.
    """

    rows: pa.Table
    held: int
    partition: Ints
    left: Ints

    @property
    def before(self) -> pa.Table:
        return self.rows.slice(0, self.held)


class ChangingRows(KeyedKernel):
    """`extra` are columns for what was emitted of a row: NULL until it was."""

    def __init__(self, kept: KeptRows, extra: tuple[pa.Field, ...], fingerprint: str, inputs: int) -> None:
        self._kept, self._extra = kept, extra
        self._schema = pa.schema([*_STATUS, *extra, *(pa.field(name, kind) for name, kind in kept.types)])
        self._counter = Codec(fingerprint, _COUNTER)
        super().__init__(inputs, KeyedTable("rows", self._schema, fingerprint, self._summary))

    @abstractmethod
    def _emitted(self, change: Change, output: Output) -> pa.Table:
        """Emit what changes; what to keep of the rows that are left."""

    def _worth_keeping(self, rows: pa.Table, partition: Ints) -> Ints:
        """The places, ascending, of those rows of a batch that can make a difference."""
        return np.arange(rows.num_rows)

    def _summary(self, table: pa.Table) -> Summary:
        nothing = np.zeros(table.num_rows, np.int64)
        ttl = self._kept.ttl
        due = np.full(table.num_rows, NEVER) if ttl is None else ints(table, _NEWEST) + ttl
        return Summary(due, nothing, nothing)

    def _pass_time(self, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        if watermark is None:
            return
        buckets = np.flatnonzero(directory.due <= watermark)
        if len(buckets):
            table = self._table.read(buckets, directory, store)
            is_over = self._summary(table).due <= watermark
            output.events["rows_expired"] += int(is_over.sum())
            self._table.write(buckets, table.filter(pa.array(~is_over)), table.slice(0, 0), directory, store)

    def _take(self, rows: pa.Table, watermark: int | None, directory: Directory, store: Store, output: Output) -> None:
        output.counts[USED] += rows.num_rows
        seq = ints(rows, SEQ)
        if not (seq[1:] > seq[:-1]).all():
            rows = rows.take(pa.array(np.argsort(seq, kind="stable")))
        fresh, is_taken = self._fresh(rows, store)
        found = self._table.find(ints(fresh, HASH), directory, store)
        both = pa.concat_tables([found.asked, fresh])
        partition = key_numbers(ints(both, HASH), [column(both, name) for name in self._kept.partition])
        both = with_values(both, _NEWEST, _newest(partition, ints(both, _NEWEST)))
        left = self._left(both, np.append(np.zeros(found.asked.num_rows, np.bool_), is_taken), output)
        kept = self._emitted(Change(both, found.asked.num_rows, partition, left), output)
        self._table.write(found.buckets, found.others, kept, directory, store)

    def _fresh(self, rows: pa.Table, store: Store) -> tuple[pa.Table, Mask]:
        """The rows of a batch as they are kept, and which of them take others back."""
        count, changes = rows.num_rows, self._kept.changes
        values = pa.table({name: typed(column(rows, name), kind) for name, kind in self._kept.types})
        keys = [column(values, name) for name in self._kept.partition]
        hashes = hashes_of(keys, count)
        partition = key_numbers(hashes, keys)
        newest = _newest(partition, ints(rows, TS))
        chosen = self._worth_keeping(values, partition)
        ts = ints(rows, TS)[chosen]
        status = {START: self._arrived(count, store) + chosen, HASH: hashes[chosen], TS: ts, TOLD: ts}
        status[_NEWEST] = newest[chosen]
        columns = [pa.array(status[field.name], field.type) for field in _STATUS]
        nothing = [pa.nulls(len(chosen), field.type) for field in self._extra]
        kept = values if len(chosen) == count else values.take(pa.array(chosen))
        is_taken = np.zeros(count, np.bool_) if changes is None else ints(rows, changes) <= 0
        return pa.Table.from_arrays([*columns, *nothing, *kept.columns], schema=self._schema), is_taken[chosen]

    def _arrived(self, more: int, store: Store) -> int:
        """How many rows had come before these, which are counted with it."""
        blobs = store.read(_META, 0)
        arrived = int(ints(self._counter.decode(blobs[0]), "arrived")[0]) if blobs else 0
        counted = pa.Table.from_pydict({"arrived": [arrived + more]}, schema=_COUNTER)
        store.replace(_META, 0, self._counter.encode(counted))
        return arrived

    def _left(self, rows: pa.Table, is_taken: Mask, output: Output) -> Ints:
        """The rows without those that are taken back, of equal ones the first; one that is not there is not missed."""
        there, taken = np.flatnonzero(~is_taken), np.flatnonzero(is_taken)
        if len(taken) == 0:
            return there
        goes, found = paired_rows(rows, there, taken, (TS, *dict(self._kept.types)))
        output.events["not_there_to_take_back"] += len(taken) - len(found)
        return np.delete(there, goes)

    def _give_out(self, until: int, directory: Directory, store: Store, output: Output) -> None:
        """Nothing: every change has been emitted with its batch."""

    def _gauges(self, directory: Directory) -> dict[str, int]:
        return {"buffer_size": int(directory.rows.sum())}


def _newest(partition: Ints, times: Ints) -> Ints:
    """For each row the newest time in its partition."""
    newest = np.full(int(partition.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(newest, partition, times)
    return newest[partition]


def with_values(table: pa.Table, name: str, values: Ints | pa.Array) -> pa.Table:
    """The table with other values in one of its columns."""
    at = table.schema.get_field_index(name)
    field = table.schema.field(at)
    return table.set_column(at, field, values if isinstance(values, pa.Array) else pa.array(values, field.type))


def all_but(places: Ints, count: int) -> Mask:
    others = np.ones(count, np.bool_)
    others[places] = False
    return others
