"""The best rows of each partition without a window, as a change log: a row that is no longer among them is taken back.

Of rows that are never taken back themselves only those are kept that are among the best: others will never be. Of a
change log all are kept, since the next best comes up when one goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import CHANGE, ROWTIME, TS, Gauges, Output
from eventide.kernels.logic.changing_rows import TOLD, Change, ChangingRows, KeptRows, all_but, with_values
from eventide.kernels.logic.rank import PLACE, SortKey, places, ranks, sort_rank
from eventide.kernels.logic.row_spec import AlikeUnderEveryText
from eventide.kernels.state.keyed_table import HASH, START
from eventide.kernels.vector.columns import Ints, column, combined_rank, dense_rank, ints, order_by, timestamps
from eventide.kernels.vector.pairing import paired_rows
from eventide.plan.modes import RankFunction


@dataclass(frozen=True)
class RankChangesSpec(AlikeUnderEveryText):
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


class RankChanges(ChangingRows):
    def __init__(self, spec: RankChangesSpec) -> None:
        self._spec = spec
        kept = KeptRows(spec.partition, spec.types, spec.changes, spec.ttl)
        super().__init__(kept, (pa.field(PLACE, pa.int32()),), spec.fingerprint(), len(spec.sources))

    def _worth_keeping(self, rows: pa.Table, partition: Ints) -> Ints:
        """Of rows that are never taken back only the best of a batch can be among the best of all."""
        if self._spec.changes is not None:
            return super()._worth_keeping(rows, partition)
        order, place = self._ranked(rows, np.arange(rows.num_rows), partition)
        return np.sort(order[place <= self._spec.last])

    def _ranked(self, rows: pa.Table, some: Ints, partition: Ints) -> tuple[Ints, Ints]:
        """These rows, which are in the order of arrival, by partition and place; and their places."""
        spec = self._spec
        value, group = ranks([sort_rank(rows, key) for key in spec.order], rows.num_rows)[some], partition[some]
        if spec.latest_first:
            order = len(some) - 1 - order_by([group[::-1], value[::-1]])
        else:
            order = order_by([group, value])
        return some[order], places(spec.function, group[order], value[order])

    def _emitted(self, change: Change, output: Output) -> pa.Table:
        spec, rows = self._spec, change.rows
        kept, place = self._ranked(rows, change.left, change.partition)
        if spec.changes is None:
            kept, place = kept[place <= spec.last], place[place <= spec.last]
        is_told = (place >= spec.first) & (place <= spec.last)
        told = np.full(rows.num_rows, 0)
        told[kept[is_told]] = place[is_told]
        times = self._tell(change, kept[is_told], told, output)
        rows = with_values(rows, PLACE, pa.array(told, pa.int32(), mask=told == 0))
        return with_values(rows, TOLD, times).take(pa.array(kept))

    def _tell(self, change: Change, now: Ints, place: Ints, output: Output) -> Ints:
        """Emit what is no longer told, and what is told now; the time with which each row was told."""
        spec, rows = self._spec, change.rows
        told_place = column(rows, PLACE).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        before = np.flatnonzero(told_place)
        before = before[np.lexsort((ints(rows, START)[before], told_place[before], ints(rows, HASH)[before]))]
        kinds = [change.partition[before], change.partition[now]]
        if spec.shows_place:
            most = spec.last + 1
            kinds = [kinds[0] * most + told_place[before], kinds[1] * most + place[now]]
        old, new = paired_rows(rows, before, now, spec.shown, (kinds[0], kinds[1]))
        was_told = ints(rows, TOLD)
        times = ints(rows, TS).copy()
        times[now[new]] = was_told[before[old]]
        self._emit(rows, before[all_but(old, len(before))], -1, was_told, told_place, output)
        come = now[all_but(new, len(now))]
        self._emit(rows, self._by_partition(rows, come), 1, ints(rows, TS), place, output)
        return times

    def _by_partition(self, rows: pa.Table, some: Ints) -> Ints:
        """Rows that are in the order of their places, partition after partition."""
        keys = [dense_rank(column(rows, name).take(pa.array(some))) for name in self._spec.partition]
        return some[order_by([combined_rank(keys, len(some))])]

    def _emit(self, rows: pa.Table, chosen: Ints, op: int, times: Ints, place: Ints, output: Output) -> None:
        if len(chosen) == 0:
            return
        at = pa.array(chosen)
        users = [column(rows, packed).take(at) for _, packed in self._spec.originals]
        change = pa.repeat(pa.scalar(op, pa.int32()), len(chosen))
        columns = [*users, pa.array(place[chosen], pa.int32()), change, timestamps(times[chosen])]
        output.main.append(pa.Table.from_arrays(columns, schema=self._spec.main_schema))
