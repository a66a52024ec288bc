"""Running aggregates over rows that may be taken back, as a change log: a row whose frame changes is emitted again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates import AggregateSpec, Aggregation
from eventide.kernels.contract import CHANGE, ROWTIME, TS, Gauges, Output
from eventide.kernels.logic.changing_rows import TOLD, Change, ChangingRows, KeptRows, all_but, with_values
from eventide.kernels.logic.rank import SortKey, ranks, sort_rank
from eventide.kernels.logic.row_spec import AlikeUnderEveryText
from eventide.kernels.state.keyed_table import HASH, START
from eventide.kernels.state.range_tree import merged_ranges
from eventide.kernels.vector.columns import Ints, Mask, column, combined_rank, dense_rank, ints, timestamps
from eventide.kernels.vector.intervals import last_at_or_before
from eventide.kernels.vector.pairing import paired_rows
from eventide.plan.windows import Frame, RangeFrame, RowsFrame

_FRAME = "frame"


@dataclass(frozen=True)
class OverChangesSpec(AlikeUnderEveryText):
    """Main rows are the original columns under the user's names, the results, CHANGE and ROWTIME.

    Rows that agree in `partition` are put in the order of `order`, and of arrival; a range of time goes by event time,
    which is then the order. Only originals in `shown`, and the results, make a difference between rows.
    """

    frame: Frame
    partition: tuple[str, ...]
    order: tuple[SortKey, ...]
    originals: tuple[tuple[str, str], ...]
    types: tuple[tuple[str, pa.DataType], ...]  # of all packed columns that are kept
    aggregates: tuple[AggregateSpec, ...]
    shown: tuple[str, ...]
    changes: str | None = None
    ttl: int | None = None
    sources: tuple[str, ...] = ("",)

    @property
    def horizon(self) -> int:
        return 0

    @property
    def results(self) -> tuple[pa.Field, ...]:
        return tuple(pa.field(spec.name, spec.result_type) for spec in self.aggregates)

    @property
    def main_schema(self) -> pa.Schema:
        kinds = dict(self.types)
        users = [pa.field(name, kinds[packed]) for name, packed in self.originals]
        own = [pa.field(CHANGE, pa.int32()), pa.field(ROWTIME, pa.timestamp("us", tz="UTC"))]
        return pa.schema([*users, *self.results, *own])

    def output_watermark(self, watermark: int, gauges: Gauges) -> int | None:
        return watermark

    def fingerprint(self) -> str:
        kinds = ",".join(f"{name}:{kind}" for name, kind in self.types)
        order = ",".join(f"{key.column}:{key.descending}:{key.nulls_first}" for key in self.order)
        aggregates = ",".join(spec.describe() for spec in self.aggregates)
        rules = f"{self.frame};by={','.join(self.partition)};order={order};of={self.changes}"
        return f"over_changes/1;{rules};types={kinds};aggregates={aggregates}"

    def build(self) -> OverChanges:
        return OverChanges(self)


class OverChanges(ChangingRows):
    def __init__(self, spec: OverChangesSpec) -> None:
        self._spec = spec
        self._frames = Aggregation((_FRAME,), (), (), spec.aggregates)
        kept = KeptRows(spec.partition, spec.types, spec.changes, spec.ttl)
        super().__init__(kept, spec.results, spec.fingerprint(), len(spec.sources))

    def _emitted(self, change: Change, output: Output) -> pa.Table:
        rows, held = self._with_results(change.rows.take(pa.array(change.left))), change.before
        before = held.take(pa.array(np.lexsort((ints(held, START), ints(held, HASH)))))
        both = pa.concat_tables([before, rows])
        shown = (*self._spec.partition, *self._spec.shown, *(field.name for field in self._spec.results))
        old, new = paired_rows(both, np.arange(before.num_rows), before.num_rows + np.arange(rows.num_rows), shown)
        told = ints(rows, TS).copy()
        told[new] = ints(before, TOLD)[old]
        self._emit(before, all_but(old, before.num_rows), -1, ints(before, TOLD), output)
        self._emit(rows, all_but(new, rows.num_rows), 1, ints(rows, TS), output)
        return with_values(rows, TOLD, told)

    def _with_results(self, rows: pa.Table) -> pa.Table:
        """The rows by partition and order, with the aggregates over their frames."""
        group = combined_rank([dense_rank(column(rows, name)) for name in self._spec.partition], rows.num_rows)
        value = ranks([sort_rank(rows, key) for key in self._spec.order], rows.num_rows)
        order = np.lexsort((ints(rows, START), value, group))
        rows, group, value = rows.take(pa.array(order)).combine_chunks(), group[order], value[order]
        count = rows.num_rows
        if count == 0:
            return rows
        partials = self._frames.fold(rows, [pa.array(np.arange(count))])
        partials = partials.take(pa.array(np.argsort(ints(partials, _FRAME))))
        first, behind = self._bounds(rows, group, value)
        results = self._frames.results(merged_ranges(self._frames, partials, first, behind))
        for field, values in zip(self._spec.results, results, strict=True):
            rows = with_values(rows, field.name, values)
        return rows

    def _bounds(self, rows: pa.Table, group: Ints, value: Ints) -> tuple[Ints, Ints]:
        """The first row of each frame, and the one behind its last."""
        place, first = np.arange(len(group)), np.searchsorted(group, group)
        match self._spec.frame:
            case RowsFrame(preceding=count):
                return (first if count is None else np.maximum(first, place - count)), place + 1
            case RangeFrame(preceding=span) if span is not None:
                ts = ints(rows, TS)
                before = last_at_or_before(group, ts, group, ts - span - 1)
                first = np.where(before < 0, first, before + 1)
        changes = np.append((group[1:] != group[:-1]) | (value[1:] != value[:-1]), True)
        last_peers = np.flatnonzero(changes)
        return first, last_peers[np.searchsorted(last_peers, place)] + 1

    def _emit(self, rows: pa.Table, chosen: Mask, op: int, times: Ints, output: Output) -> None:
        if not chosen.any():
            return
        rows, times = rows.filter(pa.array(chosen)), times[chosen]
        users = [column(rows, packed) for _, packed in self._spec.originals]
        results = [column(rows, field.name) for field in self._spec.results]
        change = pa.repeat(pa.scalar(op, pa.int32()), rows.num_rows)
        columns = [*users, *results, change, timestamps(times)]
        output.main.append(pa.Table.from_arrays(columns, schema=self._spec.main_schema))
