"""The event time of each row, and what is wrong with it: the resolution chain of a scan.

    SQL override -> the column that the source declares -> what the source knows of the row -> the time of the batch

A value that is there but does not parse, or lies too far in the future, makes the row an `error`; a row that did not
decode is one already. `current_timestamp()` is the batch's own time, which Spark logs: a replay resolves the same.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StructType

from eventide.eventtime.registry import event_time_types
from eventide.kernels.contract import DEDUP, DETAIL, PROBLEM, SEQ, TS
from eventide.plan.logical import Source
from eventide.spark.eventtime import micros, timestamp_micros
from eventide.spark.pack import AT, KIND
from eventide.spark.processor import VIA
from eventide.spark.sources.common import CORRUPT, RECEIVED

UNPARSEABLE, FUTURE, UNDECODABLE = "event_time_unparseable", "future_timestamp", "row_undecodable"
CARRIED = (KIND, AT, SEQ, TS, VIA, PROBLEM, DETAIL, DEDUP)


def resolve_scan(frame: DataFrame, source: Source, schema: StructType, event_time: bool) -> DataFrame:
    """`frame` with the user's columns and CARRIED; `event_time` False gives processing time whatever is declared."""
    now = F.unix_micros(F.current_timestamp())
    is_corrupt = F.col(CORRUPT).isNotNull()
    value: Column | None = None
    declared: Column = F.lit(None).cast("bigint")
    if event_time and source.event_time is not None:
        name = source.event_time.column
        field = next(f for f in schema.fields if f.name.lower() == name.lower())
        value = F.col(f"`{field.name}`")
        parser = event_time_types.resolve(source.event_time.type)
        declared = micros(value, field.dataType, parser, f"source {source.name}: EVENT TIME {name}")
    own = F.col(RECEIVED) if event_time else F.lit(None).cast("bigint")
    time = F.coalesce(declared, own, now)
    via = F.when(declared.isNotNull(), 0).when(own.isNotNull(), 1).otherwise(2)
    unparseable = F.lit(False) if value is None else value.isNotNull() & declared.isNull()
    future = F.lit(False) if value is None else declared > now + F.lit(source.max_future_skew)
    problem = F.when(is_corrupt, UNDECODABLE).when(unparseable, UNPARSEABLE).when(future, FUTURE)
    detail = F.when(is_corrupt, F.col(CORRUPT)).when(unparseable | future, F.lit(None) if value is None else value.cast("string"))
    users = [F.col(f"`{f.name}`") for f in schema.fields]
    return frame.select(
        *users,
        KIND,
        AT,
        SEQ,
        F.when(~(is_corrupt | unparseable), time).alias(TS),
        F.when(problem.isNull(), via).cast("tinyint").alias(VIA),
        F.when(F.col(KIND) == "rows", problem).alias(PROBLEM),
        detail.alias(DETAIL),
        _identity(source).alias(DEDUP),
    )


def _identity(source: Source) -> Column:
    """What tells a row from its re-delivery, as text; NULL where there is nothing to tell."""
    if source.dedup is None:
        return F.lit(None).cast("string")
    columns = [F.col(f"`{name}`") for name in source.dedup.columns]
    present = reduce(Column.__or__, [column.isNotNull() for column in columns])
    return F.when(present, F.concat(F.lit(f"{source.name}:"), F.to_json(F.struct(*columns))))


def override(frame: DataFrame, users: list[str], sql: str, skew: int) -> DataFrame:
    """The time that the query itself names, where it is not NULL, in place of what the scan found."""
    expression = F.expr(sql)
    type = frame.select(expression.alias("t")).schema["t"].dataType
    time = timestamp_micros(expression, type, f"the window's time {sql}")
    now = F.unix_micros(F.current_timestamp())
    given = (F.col(KIND) == "rows") & time.isNotNull() & ~F.coalesce(F.col(PROBLEM) == UNDECODABLE, F.lit(False))
    return frame.select(
        *[F.col(f"`{name}`") for name in users],
        KIND,
        AT,
        SEQ,
        F.when(given, time).otherwise(F.col(TS)).alias(TS),
        F.when(given, F.lit(0).cast("tinyint")).otherwise(F.col(VIA)).alias(VIA),
        F.when(given & (time > now + F.lit(skew)), FUTURE).when(~given, F.col(PROBLEM)).alias(PROBLEM),
        F.when(given, expression.cast("string")).otherwise(F.col(DETAIL)).alias(DETAIL),
        DEDUP,
    )
