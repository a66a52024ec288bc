"""The best rows of each partition without a window, as a change log: a row that is no longer among them is taken back.

Of rows that are never taken back themselves only those are kept that are among the best: others will never be. Of a
change log all are kept, since the next best comes up when one goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import (
    CHANGE,
    ROWTIME,
    SEQ,
    TS,
    USED,
    Gauges,
    Output,
    Store,
)
from eventide.kernels.logic.keyed_kernel import KeyedKernel
from eventide.kernels.logic.rank import PLACE, SortKey, places, ranks, sort_rank
from eventide.kernels.logic.row_spec import RowSpec
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.keyed_table import HASH, NEVER, START, Directory, KeyedTable, Summary, hashes_of
from eventide.kernels.vector.columns import Ints, Mask, column, combined_rank, dense_rank, ints, timestamps, typed
from eventide.kernels.vector.pairing import paired
from eventide.plan.modes import RankFunction

_NEWEST = "newest"  # the time of the newest row of the partition
_TOLD = "told"  # the time with which the row was told
_STATUS = (
    pa.field(START, pa.int64()),  # the number of the row, in the order of arrival
    pa.field(HASH, pa.int64()),  # of the partition
    pa.field(TS, pa.int64()),
    pa.field(_NEWEST, pa.int64()),
    pa.field(_TOLD, pa.int64()),
    pa.field(PLACE, pa.int32()),  # as it was told; 0: it was not
)
_COUNTER = pa.schema([("arrived", pa.int64())])
_META = "meta"


@dataclass(frozen=True)
class RankChangesSpec(RowSpec):
    """Main rows are the original columns under the user's names, PLACE, CHANGE and ROWTIME.

    Rows that agree in `partition` are ranked together, by `order`; of equal ones the first to come is the better, or
    the last if `latest_first`. Told are the places from `first` to `last`. If `shows_place`, a row whose place changes
    is told anew. Only originals in `shown` make a difference between rows. `changes` is the packed column that says
    which rows of a change log are taken back. A partition is forgotten when the watermark is `ttl` past its newest row.
    """

    function: RankFunction
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    originals: tuple[tuple[str, str], ...]
    types: tuple[tuple[str, pa.DataType], ...]  # of all packed columns that are kept
    first: int
    last: int
    shows_place: bool
    shown: tuple[str, ...]  # packed columns
    latest_first: bool = False
    changes: str | None = None
    ttl: int | None = None
    sources: tuple[str, ...] = ("",)

    @property
    def horizon(self) -> int:
        return 0

    @property
    def main_schema(self) -> pa.Schema:
        kinds = dict(self.types)
        users = [pa.field(name, kinds[packed]) for name, packed in self.originals]
        own = [pa.field(PLACE, pa.int32()), pa.field(CHANGE, pa.int32())]
        return pa.schema([*users, *own, pa.field(ROWTIME, pa.timestamp("us", tz="UTC"))])

    def output_watermark(self, watermark: int, gauges: Gauges) -> int | None:
        return watermark

    def fingerprint(self) -> str:
        kinds = ",".join(f"{name}:{kind}" for name, kind in self.types)
        order = ",".join(f"{key.column}:{key.descending}:{key.nulls_first}" for key in self.order)
        rules = f"{self.function.value};{self.first}-{self.last};by={','.join(self.partition)};order={order}"
        return f"rank_changes/1;{rules};of={self.changes};latest={self.latest_first};types={kinds}"

    def build(self) -> RankChanges:
        return RankChanges(self)


class RankChanges(KeyedKernel):
    def __init__(self, spec: RankChangesSpec) -> None:
        self._spec = spec
        self._values = tuple(name for name, _ in spec.types)
        schema = pa.schema([*_STATUS, *(pa.field(name, kind) for name, kind in spec.types)])
        self._schema = schema
        self._counter = Codec(spec.fingerprint(), _COUNTER)
        super().__init__(len(spec.sources), KeyedTable("rows", schema, spec.fingerprint(), self._summary))

    def _summary(self, table: pa.Table) -> Summary:
        nothing = np.zeros(table.num_rows, np.int64)
        ttl = self._spec.ttl
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
        if self._spec.changes is not None:
            is_added = ints(rows, self._spec.changes) > 0
            added, taken = fresh.filter(pa.array(is_added)), fresh.filter(pa.array(~is_added))
        left = self._with_newest(self._without(pa.concat_tables([held, added]), taken, output), held, fresh)
        left = self._told(held, self._ranked(left), output)
        self._table.write(found.buckets, found.others, left, directory, store)

    def _fresh(self, rows: pa.Table, store: Store) -> pa.Table:
        count, ts = rows.num_rows, ints(rows, TS)
        values = {name: typed(column(rows, name), kind) for name, kind in self._spec.types}
        blobs = store.read(_META, 0)
        arrived = int(ints(self._counter.decode(blobs[0]), "arrived")[0]) if blobs else 0
        counted = pa.Table.from_pydict({"arrived": [arrived + count]}, schema=_COUNTER)
        store.replace(_META, 0, self._counter.encode(counted))
        status: dict[str, Ints] = {
            START: np.arange(arrived, arrived + count),
            HASH: hashes_of([values[name] for name in self._spec.partition], count),
            **dict.fromkeys((TS, _NEWEST, _TOLD), ts),
            PLACE: np.zeros(count, np.int64),
        }
        columns = [pa.array(status[field.name], field.type) for field in _STATUS]
        return pa.Table.from_arrays([*columns, *values.values()], schema=self._schema)

    def _without(self, rows: pa.Table, taken: pa.Table, output: Output) -> pa.Table:
        """The rows without those that are taken back, of equal ones the first; one that is not there is not missed."""
        if taken.num_rows == 0:
            return rows
        both = pa.concat_tables([rows, taken])
        kinds = self._kinds(both, (TS, *self._values))
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
        kinds = self._kinds(everything, self._spec.partition)
        newest = np.full(int(kinds.max(initial=0)) + 1, np.iinfo(np.int64).min)
        np.maximum.at(newest, kinds, ints(everything, _NEWEST))
        at = left.schema.get_field_index(_NEWEST)
        return left.set_column(at, left.schema.field(at), pa.array(newest[kinds[: left.num_rows]]))

    def _ranked(self, rows: pa.Table) -> tuple[pa.Table, Ints]:
        """The rows that are kept, by partition and place, and their places."""
        spec, count = self._spec, rows.num_rows
        group = self._kinds(rows, spec.partition)
        value = ranks([sort_rank(rows, key) for key in spec.order], count)
        arrival = ints(rows, START)
        order = np.lexsort((-arrival if spec.latest_first else arrival, value, group))
        found = places(spec.function, group[order], value[order])
        if spec.changes is None:
            order, found = order[found <= spec.last], found[found <= spec.last]
        return rows.take(pa.array(order)), found

    def _told(self, held: pa.Table, ranked: tuple[pa.Table, Ints], output: Output) -> pa.Table:
        """Tell what changed; the rows with what was told of them."""
        rows, place = ranked
        place = np.where((place >= self._spec.first) & (place <= self._spec.last), place, 0)
        before = held.filter(pa.array(ints(held, PLACE) > 0))
        before = before.take(pa.array(np.lexsort((ints(before, START), ints(before, PLACE), ints(before, HASH)))))
        now = np.flatnonzero(place)
        after = _with(rows.take(pa.array(now)), PLACE, place[now])
        both = pa.concat_tables([before, after])
        kinds = self._kinds(
            both, (*self._spec.partition, *self._spec.shown, *([PLACE] if self._spec.shows_place else []))
        )
        old, new = paired(kinds[: before.num_rows], kinds[before.num_rows :])
        told = ints(rows, TS).copy()
        told[now[new]] = ints(before, _TOLD)[old]
        self._emit(before, _all_but(old, before.num_rows), -1, ints(before, _TOLD), output)
        self._emit(after, _all_but(new, after.num_rows), 1, ints(after, TS), output)
        return _with(_with(rows, PLACE, place), _TOLD, told)

    def _emit(self, rows: pa.Table, chosen: Mask, op: int, times: Ints, output: Output) -> None:
        if not chosen.any():
            return
        rows, times = rows.filter(pa.array(chosen)), times[chosen]
        users = [column(rows, packed) for _, packed in self._spec.originals]
        change = pa.repeat(pa.scalar(op, pa.int32()), rows.num_rows)
        columns = [*users, column(rows, PLACE), change, timestamps(times)]
        output.main.append(pa.Table.from_arrays(columns, schema=self._spec.main_schema))

    def _give_out(self, until: int, directory: Directory, store: Store, output: Output) -> None:
        """Nothing: what there is has been told with every batch."""

    def _gauges(self, directory: Directory) -> dict[str, int]:
        return {"buffer_size": int(directory.rows.sum())}


def _with(table: pa.Table, name: str, values: Ints) -> pa.Table:
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))


def _all_but(places: Ints, count: int) -> Mask:
    others = np.ones(count, np.bool_)
    others[places] = False
    return others
