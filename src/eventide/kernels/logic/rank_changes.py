"""The best rows of each partition without a window, as a change log: a row that is no longer among them is taken back.

Of rows that are never taken back themselves only those are kept that are among the best: others will never be. Of a
change log all are kept, since the next best comes up when one goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import CHANGE, ROWTIME, TS, Gauges, Output
from eventide.kernels.logic.changing_rows import TOLD, ChangingRows, KeptRows, all_but, with_values
from eventide.kernels.logic.rank import PLACE, SortKey, places, ranks, sort_rank
from eventide.kernels.logic.row_spec import AlikeUnderEveryText
from eventide.kernels.state.keyed_table import HASH, START
from eventide.kernels.vector.columns import Ints, Mask, column, ints, timestamps
from eventide.kernels.vector.pairing import paired
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

    def _emitted(self, held: pa.Table, rows: pa.Table, output: Output) -> pa.Table:
        return self._told(held, self._ranked(rows), output)

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
        before = held.filter(column(held, PLACE).is_valid())
        before = before.take(pa.array(np.lexsort((ints(before, START), ints(before, PLACE), ints(before, HASH)))))
        now = np.flatnonzero(place)
        after = with_values(rows.take(pa.array(now)), PLACE, place[now])
        both = pa.concat_tables([before, after])
        kinds = self._kinds(
            both, (*self._spec.partition, *self._spec.shown, *([PLACE] if self._spec.shows_place else []))
        )
        old, new = paired(kinds[: before.num_rows], kinds[before.num_rows :])
        told = ints(rows, TS).copy()
        told[now[new]] = ints(before, TOLD)[old]
        self._emit(before, all_but(old, before.num_rows), -1, ints(before, TOLD), output)
        self._emit(after, all_but(new, after.num_rows), 1, ints(after, TS), output)
        emitted = pa.array(place, pa.int32(), mask=place == 0)
        return with_values(with_values(rows, PLACE, emitted), TOLD, told)

    def _emit(self, rows: pa.Table, chosen: Mask, op: int, times: Ints, output: Output) -> None:
        if not chosen.any():
            return
        rows, times = rows.filter(pa.array(chosen)), times[chosen]
        users = [column(rows, packed) for _, packed in self._spec.originals]
        change = pa.repeat(pa.scalar(op, pa.int32()), rows.num_rows)
        columns = [*users, column(rows, PLACE), change, timestamps(times)]
        output.main.append(pa.Table.from_arrays(columns, schema=self._spec.main_schema))
