"""Late rows folded into windows that have closed: corrections of rows that were emitted before.

The late rows are aggregated by Spark as the stream would have, then merged with the last emitted row of the same group
and window. That is exact where an aggregate can be merged from its result alone; anything else is refused by name.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as F

from eventide.errors import OptionError
from eventide.kernels.contract import EMIT_EPOCH, OP, WINDOW_END, WINDOW_START
from eventide.kernels.windows.grid import Grid, grid_of
from eventide.plan.modes import EmitMode, LatePolicy
from eventide.plan.names import backticked
from eventide.plan.physical import AggregateWindows, JoinRows, PackedAggregate, Physical
from eventide.plan.side_output import REINJECT
from eventide.plan.windows import Hop, Tumble, Window
from eventide.spark.session import frame_of
from eventide.tasks.select_list import WindowIds

# What merges two results of an aggregate into one. Others need more than their result: avg its count, and so on.
MERGES = {
    "count": "sum",
    "sum": "sum",
    "min": "min",
    "max": "max",
    **dict.fromkeys(("bool_and", "every"), "bool_and"),
    **dict.fromkeys(("bool_or", "some", "any"), "bool_or"),
}
_REPEATS_ARE_HARMLESS = ("min", "max", "bool_and", "every", "bool_or", "some", "any")
_START, _ORDER, _LATE = "__start", "__order", "__late"
_MOMENT = pa.timestamp("us", tz="UTC")


def check_replayable(physical: Physical) -> None:
    """Raise what makes corrections of this stream impossible, and what to write instead."""
    name = physical.stream.name
    if isinstance(physical.operator, JoinRows):
        reasons = ["it is a join, and the rows that a late row would have met are no longer kept"]
    else:
        reasons = [*_shape(physical), *_columns(physical), *_aggregates(physical)]
    if reasons:
        listed = "\n".join(f"  - {reason}" for reason in reasons)
        raise OptionError(
            f"late rows of {name} cannot be replayed exactly:\n{listed}",
            help=f"read them with db.read('{name}$late'), or run the stream anew with a longer lag: eventide late "
            f"advise {name}",
        )


def _shape(physical: Physical) -> list[str]:
    reasons = []
    route = physical.stream.routes.get("late")
    if not isinstance(_window(physical), Tumble | Hop):
        reasons.append("only tumbling and hopping windows have closed windows that stay as they are")
    if physical.emit.mode in (EmitMode.FINAL, EmitMode.CHANGES):
        mode = physical.emit.mode.value.upper()
        reasons.append(
            f"EMIT {mode} keeps no late rows"
            if mode == "FINAL"
            else f"EMIT {mode} is a change log, which has no corrections"
        )
    if physical.options.late_policy is not LatePolicy.WINDOW:
        reasons.append(f"with late.policy {physical.options.late_policy.value} a late row's window may still be open")
    if physical.having is not None:
        reasons.append("HAVING may have held back the row that is to be corrected")
    if physical.options.max_groups is not None:
        reasons.append("max_groups may have turned rows of the group away")
    if route is not None and route.sink == REINJECT:
        reasons.append("its late rows are sent back to a source already")
    return reasons


def _columns(physical: Physical) -> list[str]:
    plain = {output.sql for output in physical.outputs}
    reasons = [
        f"the key {key.name} is not selected"
        for number, key in enumerate(physical.inputs[0].keys)
        if f"__k{number}" not in plain
    ]
    if not plain & {WINDOW_START, WINDOW_END}:
        reasons.append("neither window_start nor window_end is selected")
    return reasons


def _aggregates(physical: Physical) -> list[str]:
    plain = {output.sql for output in physical.outputs}
    reasons = []
    for call in _calls(physical):
        if call.function not in MERGES or (call.distinct and call.function not in _REPEATS_ARE_HARMLESS):
            reasons.append(
                f"{call.sql} cannot be merged from its result; of the built-in ones these can: "
                f"{', '.join(sorted(set(MERGES)))}"
            )
        elif call.name not in plain:
            reasons.append(f"{call.sql} is not selected by itself, only inside an expression")
    return reasons


def corrections(
    session: SparkSession, physical: Physical, late: pa.Table, times: pa.Array, before: pa.Table, outputs: pa.Schema
) -> pa.Table:
    """The new rows of the groups and windows that `late` belongs to, in the columns of `outputs`.

    `late` are original rows, `times` their event times, `before` everything that the stream has given so far, in order.
    """
    exploded = _with_windows(physical, late, times)
    named = {number: key.sql for number, key in enumerate(physical.inputs[0].keys)}
    packed = {column.name: column.sql for column in physical.inputs[0].packed}
    keys = [F.expr(packed[name]).alias(f"__k{number}") for number, name in named.items()]
    calls = [F.expr(call.sql).alias(call.name) for call in _calls(physical)]
    grouped = frame_of(session, exploded).groupBy(F.col(_START).alias(WINDOW_START), *keys)
    fresh = grouped.agg(*calls, F.lit(0).cast("bigint").alias(EMIT_EPOCH), F.lit(1).alias(_LATE))
    kept = fresh if before.num_rows == 0 else fresh.unionByName(_emitted(session, physical, before))
    merged = _merged(kept, physical).toArrow()
    return _finished(session, physical, merged).select(outputs.names).cast(outputs)


def _with_windows(physical: Physical, late: pa.Table, times: pa.Array) -> pa.Table:
    """Each row once per window that it is in, with that window's start."""
    grid = _grid(physical)
    slices = grid.slices_of(times.cast(pa.int64()).to_numpy(zero_copy_only=False))
    places, windows = grid.windows_of_each(slices, None)
    starts = pa.array(grid.starts(windows), pa.int64()).cast(_MOMENT)
    return late.take(pa.array(places, pa.int64())).append_column(_START, starts)


def _window(physical: Physical) -> Window | None:
    return physical.operator.window if isinstance(physical.operator, AggregateWindows) else None


def _calls(physical: Physical) -> tuple[PackedAggregate, ...]:
    return physical.operator.aggregates if isinstance(physical.operator, AggregateWindows) else ()


def _grid(physical: Physical) -> Grid:
    window = _window(physical)
    if not isinstance(window, Tumble | Hop):
        raise OptionError("only tumbling and hopping windows can be replayed")
    return grid_of(window, 0)


def _emitted(session: SparkSession, physical: Physical, before: pa.Table) -> DataFrame:
    """The last row that was emitted of each group and window, and how many there were."""
    plain = {output.sql: output.name for output in physical.outputs}
    size = _grid(physical).size
    rows = before.append_column(_ORDER, pa.array(np.arange(before.num_rows)))
    frame = frame_of(session, rows)
    if WINDOW_START in plain:
        start: Column = F.col(backticked(plain[WINDOW_START]))
    else:
        start = F.timestamp_micros(F.unix_micros(F.col(backticked(plain[WINDOW_END]))) - F.lit(size))
    numbers = range(len(physical.inputs[0].keys))
    keys = [F.col(backticked(plain[f"__k{number}"])).alias(f"__k{number}") for number in numbers]
    values = [
        F.max_by(F.col(backticked(plain[call.name])), F.col(_ORDER)).alias(call.name) for call in _calls(physical)
    ]
    grouped = frame.groupBy(start.alias(WINDOW_START), *keys)
    return grouped.agg(*values, F.count(F.lit(1)).alias(EMIT_EPOCH), F.lit(0).alias(_LATE))


def _merged(rows: DataFrame, physical: Physical) -> DataFrame:
    """One row per group and window that late rows belong to."""
    keys = [f"__k{number}" for number in range(len(physical.inputs[0].keys))]
    types = {field.name: field.dataType for field in rows.schema.fields}
    values = [
        F.expr(f"{MERGES[call.function]}({call.name})").cast(types[call.name]).alias(call.name)
        for call in _calls(physical)
    ]
    grouped = rows.groupBy(WINDOW_START, *keys).agg(
        *values, F.sum(EMIT_EPOCH).alias(EMIT_EPOCH), F.max(_LATE).alias(_LATE)
    )
    return grouped.where(F.col(_LATE) == 1).drop(_LATE).orderBy(WINDOW_START, *keys)


def _finished(session: SparkSession, physical: Physical, merged: pa.Table) -> pa.Table:
    """The select list over the merged groups, as for rows that leave the operator."""
    starts = merged[WINDOW_START].cast(pa.int64()).to_numpy()
    ends = pa.array(starts + _grid(physical).size, pa.int64()).cast(_MOMENT)
    wide = merged.append_column(WINDOW_END, ends).append_column(
        OP, pa.repeat(pa.scalar(1, pa.int32()), merged.num_rows)
    )
    frame = frame_of(session, WindowIds(physical.plan_id)(wide))
    chosen = [F.expr(output.sql).alias(output.name) for output in physical.outputs]
    return frame.select(*chosen).toArrow()
