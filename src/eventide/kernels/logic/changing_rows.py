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
from eventide.kernels.vector.columns import Ints, Mask, column, combined_rank, dense_rank, ints, typed
from eventide.kernels.vector.pairing import paired

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


class ChangingRows(KeyedKernel):
    """`extra` are columns for what was emitted of a row: NULL until it was."""

    def __init__(self, kept: KeptRows, extra: tuple[pa.Field, ...], fingerprint: str, inputs: int) -> None:
        self._kept, self._extra = kept, extra
        self._schema = pa.schema([*_STATUS, *extra, *(pa.field(name, kind) for name, kind in kept.types)])
        self._counter = Codec(fingerprint, _COUNTER)
        super().__init__(inputs, KeyedTable("rows", self._schema, fingerprint, self._summary))

    @abstractmethod
    def _emitted(self, held: pa.Table, rows: pa.Table, output: Output) -> pa.Table:
        """Emit what changes when `rows` take the place of `held`; what to keep of them."""

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
        rows = rows.take(pa.array(np.argsort(ints(rows, SEQ), kind="stable")))
        fresh = self._fresh(rows, store)
        found = self._table.find(ints(fresh, HASH), directory, store)
        held = found.asked
        added, taken = fresh, fresh.slice(0, 0)
        if self._kept.changes is not None:
            is_added = ints(rows, self._kept.changes) > 0
            added, taken = fresh.filter(pa.array(is_added)), fresh.filter(pa.array(~is_added))
        left = self._with_newest(self._without(pa.concat_tables([held, added]), taken, output), held, fresh)
        kept = self._emitted(held, left, output)
        self._table.write(found.buckets, found.others, kept, directory, store)

    def _fresh(self, rows: pa.Table, store: Store) -> pa.Table:
        count, ts = rows.num_rows, ints(rows, TS)
        values = {name: typed(column(rows, name), kind) for name, kind in self._kept.types}
        blobs = store.read(_META, 0)
        arrived = int(ints(self._counter.decode(blobs[0]), "arrived")[0]) if blobs else 0
        counted = pa.Table.from_pydict({"arrived": [arrived + count]}, schema=_COUNTER)
        store.replace(_META, 0, self._counter.encode(counted))
        status: dict[str, Ints] = {
            START: np.arange(arrived, arrived + count),
            HASH: hashes_of([values[name] for name in self._kept.partition], count),
            **dict.fromkeys((TS, _NEWEST, TOLD), ts),
        }
        columns = [pa.array(status[field.name], field.type) for field in _STATUS]
        nothing = [pa.nulls(count, field.type) for field in self._extra]
        return pa.Table.from_arrays([*columns, *nothing, *values.values()], schema=self._schema)

    def _without(self, rows: pa.Table, taken: pa.Table, output: Output) -> pa.Table:
        """The rows without those that are taken back, of equal ones the first; one that is not there is not missed."""
        if taken.num_rows == 0:
            return rows
        both = pa.concat_tables([rows, taken])
        kinds = self._kinds(both, (TS, *(name for name, _ in self._kept.types)))
        goes, found = paired(kinds[: rows.num_rows], kinds[rows.num_rows :])
        output.events["not_there_to_take_back"] += taken.num_rows - len(found)
        keep = np.ones(rows.num_rows, np.bool_)
        keep[goes] = False
        return rows.filter(pa.array(keep))

    def _kinds(self, table: pa.Table, names: tuple[str, ...]) -> Ints:
        """A number for each row that is the same for rows that are equal in these columns."""
        return combined_rank([dense_rank(column(table, name)) for name in names], table.num_rows)

    def _with_newest(self, left: pa.Table, held: pa.Table, fresh: pa.Table) -> pa.Table:
        everything = pa.concat_tables([left, held, fresh])
        kinds = self._kinds(everything, self._kept.partition)
        newest = np.full(int(kinds.max(initial=0)) + 1, np.iinfo(np.int64).min)
        np.maximum.at(newest, kinds, ints(everything, _NEWEST))
        at = left.schema.get_field_index(_NEWEST)
        return left.set_column(at, left.schema.field(at), pa.array(newest[kinds[: left.num_rows]]))

    def _give_out(self, until: int, directory: Directory, store: Store, output: Output) -> None:
        """Nothing: every change has been emitted with its batch."""

    def _gauges(self, directory: Directory) -> dict[str, int]:
        return {"buffer_size": int(directory.rows.sum())}


def with_values(table: pa.Table, name: str, values: Ints | pa.Array) -> pa.Table:
    """The table with other values in one of its columns."""
    at = table.schema.get_field_index(name)
    field = table.schema.field(at)
    return table.set_column(at, field, values if isinstance(values, pa.Array) else pa.array(values, field.type))


def all_but(places: Ints, count: int) -> Mask:
    others = np.ones(count, np.bool_)
    others[places] = False
    return others
