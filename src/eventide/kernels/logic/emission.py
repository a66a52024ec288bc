"""What goes out: main tables, and the moments at which each emit mode emits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates import Aggregation
from eventide.kernels.contract import MAIN_FIELDS
from eventide.kernels.vector.columns import Ints, column, ints, timestamps
from eventide.plan.modes import EmitMode

_SORTED_OUTPUT = 20_000  # rows up to which a main table is sorted by key as well


@dataclass(frozen=True)
class EmitRules:
    """When a waiting row is emitted, besides at close, where what still waits is always emitted."""

    on_tick: bool = False
    on_change: bool = False  # in the batch that changed it
    at_end: bool = False  # when the watermark reaches the window's end, and with every change after that
    retract: bool = False  # the row that it replaces goes out first, with op -1; an unchanged result is not emitted
    all_at_close: bool = False  # also what does not wait: the last emission of a window says that it is the last


EMIT_RULES = {
    EmitMode.ON_WINDOW_CLOSE: EmitRules(),
    EmitMode.FINAL: EmitRules(),
    EmitMode.EVERY: EmitRules(on_tick=True, all_at_close=True),
    EmitMode.ON_WATERMARK: EmitRules(at_end=True),
    EmitMode.ON_UPDATE: EmitRules(on_change=True),
    EmitMode.CHANGES: EmitRules(on_change=True, retract=True),
}


def main_schema(aggregation: Aggregation) -> pa.Schema:
    return pa.schema([*MAIN_FIELDS, *aggregation.key_fields, *aggregation.result_fields])


def main_head(starts: Ints, ends: Ints, epochs: Ints, op: int) -> list[pa.Array]:
    """The columns MAIN_FIELDS."""
    return [timestamps(starts), timestamps(ends), pa.array(epochs), pa.repeat(pa.scalar(op, pa.int32()), len(starts))]


def main_table(aggregation: Aggregation, merged: pa.Table, starts: Ints, ends: Ints, epochs: Ints, op: int) -> pa.Table:
    """Finished rows of a merged partial."""
    keys = [column(merged, name) for name in aggregation.keys]
    return pa.Table.from_arrays(
        main_head(starts, ends, epochs, op) + keys + aggregation.results(merged), schema=main_schema(aggregation)
    )


def in_order(aggregation: Aggregation, merged: pa.Table) -> pa.Table:
    """Rows by the leading column, and by key where that is cheap."""
    if merged.num_rows <= _SORTED_OUTPUT:
        return aggregation.sort(merged)
    lead = ints(merged, aggregation.lead[0])
    return merged if (np.diff(lead) >= 0).all() else merged.take(pa.array(np.argsort(lead, kind="stable")))
