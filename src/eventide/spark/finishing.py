"""What is left of a join's condition, HAVING and the select list, evaluated by Spark behind the operator.

A result for which one of them raises becomes an `error` payload, if guards are on. The rows that it was made of have
been used: the result is counted apart (`failed_results`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import DataType, DecimalType, LongType, StructField

from eventide.eventtime.resolution import FAILED, SUM_OVERFLOW
from eventide.kernels.contract import ROWTIME, SIDE_OUTPUT_SCHEMA, WINDOW_END, WINDOW_START
from eventide.plan.logical import Named
from eventide.plan.names import backticked
from eventide.plan.physical import AggregateWindows, JoinRows, Physical
from eventide.plan.windows import Slide, Unbounded
from eventide.spark.guard import Guard
from eventide.spark.pack import ACCOUNT, SIDE, TAG
from eventide.storage.results import OUTPUT_TIME
from eventide.tasks.packing import spark_ddl
from eventide.tasks.select_list import RANK

WIDE = DecimalType(38, 0)  # of sums on their way from the operator, where none may get lost
_LEAST, _MOST = str(-(2**63)), str(2**63 - 1)


def finished_by_spark(
    physical: Physical, condition: str | None, wide: DataFrame, sums: Sequence[str], guard: Guard
) -> DataFrame:
    """`condition` is what is left of a join's, `sums` are those of `checked_sums`; main rows only are evaluated."""
    for name in sums:
        wide = _with_checked_sum(physical, wide, name)
    for each in (condition, physical.having):
        if each is not None:
            wide, (keeps,) = _evaluated(physical, wide, (Named("condition", each),), guard)
            wide = guard.cleared(wide.where((F.col(TAG) != "main") | keeps))
    wide, values = _evaluated(physical, wide, physical.outputs, guard)
    outputs = [value.alias(named.name) for value, named in zip(values, physical.outputs, strict=True)]
    change = physical.change_column
    rank = F.lit(None).cast("int") if change is None else F.col(backticked(change)).cast("int")
    return wide.select(TAG, *outputs, SIDE, ACCOUNT, _time(physical).alias(OUTPUT_TIME), rank.alias(RANK))


def before_end(physical: Physical) -> int | None:
    """How long before its window's end the event time of an output row is; None where rows have a time of their own."""
    if not isinstance(physical.operator, AggregateWindows) or isinstance(physical.operator.window, Unbounded):
        return None
    window = physical.operator.window
    return (window.lookahead or 0) if isinstance(window, Slide) else 1


def _time(physical: Physical) -> Column:
    before = before_end(physical)
    return F.unix_micros(ROWTIME) if before is None else F.unix_micros(WINDOW_END) - F.lit(before)


def _evaluated(
    physical: Physical, wide: DataFrame, columns: tuple[Named, ...], guard: Guard
) -> tuple[DataFrame, list[Column]]:
    if not guard.is_on:
        return wide, [F.expr(column.sql) for column in columns]
    is_main = F.col(TAG) == "main"
    return guard.evaluated(wide, columns, is_main, partial(_marked_result, physical), _users_names(physical))


def checked_sums(physical: Physical, results: Mapping[str, StructField]) -> list[str]:
    """The aggregates that must not wrap around, by name; `results` are what aggregates return."""
    if not physical.options.checked_sums or not isinstance(physical.operator, AggregateWindows):
        return []
    sums = (call.name for call in physical.operator.aggregates if call.function == "sum")
    return [name for name in sums if isinstance(results[name].dataType, LongType)]


def _with_checked_sum(physical: Physical, wide: DataFrame, name: str) -> DataFrame:
    """A sum that the operator gives as a decimal as BIGINT; a result with one that does not fit is an error."""
    total, call = F.col(name), _users_names(physical)[name]
    why = F.concat(F.lit(f"{call} is "), total.cast("string"), F.lit(", which BIGINT cannot hold"))
    is_beyond = (F.col(TAG) == "main") & ~total.between(F.lit(_LEAST).cast(WIDE), F.lit(_MOST).cast(WIDE))
    marked = _marked_result(physical, wide, F.coalesce(is_beyond, F.lit(False)), why, SUM_OVERFLOW)
    return marked.withColumn(name, total.cast("bigint"))


def _marked_result(physical: Physical, wide: DataFrame, failed: Column, why: Column, reason: str = FAILED) -> DataFrame:
    """A result that failed becomes a side row; what only the batch knows of it the router adds."""
    has_window = WINDOW_START in wide.columns
    known = {
        "kind": F.lit("error"),
        "reason": F.lit(reason),
        "event_time": F.timestamp_micros(_time(physical)),
        "window_start": F.col(WINDOW_START) if has_window else F.lit(None),
        "window_end": F.col(WINDOW_END) if has_window else F.lit(None),
        "group_key": _keys(physical),
        "original_event": _result(physical, wide),
        "error_detail": why,
        "plan_id": F.lit(physical.plan_id),
    }
    type = DataType.fromDDL(spark_ddl(SIDE_OUTPUT_SCHEMA))
    fields = [known.get(name, F.lit(None)).alias(name) for name in SIDE_OUTPUT_SCHEMA.names]
    side = F.when(failed, F.struct(*fields).cast(type)).otherwise(F.col(SIDE))
    return wide.withColumns({TAG: F.when(failed, F.lit("side")).otherwise(F.col(TAG)), SIDE: side})


def _keys(physical: Physical) -> Column:
    if not isinstance(physical.operator, AggregateWindows):
        return F.lit("{}")
    keys = [F.col(f"__k{place}").alias(key.name) for place, key in enumerate(physical.inputs[0].keys)]
    return _json(keys)


def _result(physical: Physical, wide: DataFrame) -> Column:
    """The result as JSON, with the names that its columns have for the user; of a pair each side apart."""
    names = _users_names(physical)
    match physical.operator:
        case AggregateWindows():
            return _json([F.col(column).alias(name) for column, name in names.items()])
        case JoinRows(left=left, right=right):
            sides = [
                F.struct(*[F.col(column.name).alias(names[column.name].partition(".")[2]) for column in columns])
                for columns in (left, right)
                if columns
            ]
            given = [side for side, columns in (("left", left), ("right", right)) if columns]
            return _json([side.alias(name) for side, name in zip(sides, given, strict=True)])
        case _:
            shown = [column for column in wide.columns if not column.startswith("__")]
            return _json([F.col(backticked(column)) for column in shown])


def _json(columns: list[Column]) -> Column:
    if not columns:
        return F.lit("{}")
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})


def _users_names(physical: Physical) -> dict[str, str]:
    """What the user calls the columns that the operator gives."""
    first = physical.inputs[0]
    match physical.operator:
        case AggregateWindows(aggregates=aggregates):
            keys = {f"__k{place}": key.name for place, key in enumerate(first.keys)}
            return keys | {call.name: call.sql for call in aggregates}
        case JoinRows(left=left, right=right):
            found: dict[str, str] = {}
            for number, (side, columns) in enumerate((("left", left), ("right", right))):
                own = next(input for input in physical.inputs if input.side == number)
                users = {original.sql: original.name for original in own.originals}
                found |= {column.name: f"{side}.{users[column.sql]}" for column in columns}
            return found
        case _:
            return {}
