"""The event time of each row, and what is wrong with it: the resolution chain of a scan.

    SQL override -> the column that the source declares -> what the source knows of the row -> the time of the batch

A value that is there but does not parse, or lies too far in the future, makes the row an `error`; a row that did not
decode is one already. The time of the batch is the one that Spark logs: a replay resolves the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StringType, StructType, TimestampType

from eventide.connectors.contract import BEGAN, CORRUPT, PASSED, PLACE, RECEIVED
from eventide.connectors.readers import OF_INBOX
from eventide.errors import OptionError, SqlError
from eventide.eventtime.registry import event_time_types
from eventide.eventtime.resolution import (
    DECLARED,
    FROM_METADATA,
    FROM_PROCESSING,
    IS_EMPTY,
    IS_FUTURE,
    IS_NO_ROW,
    IS_UNDECODABLE,
    IS_UNPARSEABLE,
    METADATA_COLUMNS,
    ORDER,
)
from eventide.kernels.contract import DEDUP, DETAIL, SEQ, TS
from eventide.plan.logical import EventTime, Named, Source
from eventide.plan.names import backticked, field_path
from eventide.spark.analysis import REFUSED, first_sentence
from eventide.spark.event_time_parsers import micros, timestamp_micros
from eventide.spark.guard import Guard
from eventide.tasks.packing import ARRIVED, HOW, KEPT, LANE, NOW, PRIORITY

CARRIED_WATERMARK = "__watermark"  # that a row carries, in microseconds
CARRIED = (SEQ, TS, HOW, DETAIL, DEDUP, CARRIED_WATERMARK, LANE, PASSED)


def carried(source: Source) -> tuple[str, ...]:
    """What rows carry beside the user's columns until they are packed."""
    names = (*CARRIED, BEGAN) if source.connector in OF_INBOX else CARRIED
    if source.admission is None:
        return names
    return (*names, ARRIVED, KEPT, NOW, PRIORITY) if source.admission.sheds else (*names, ARRIVED, KEPT)


def _batch_began(frame: DataFrame) -> Column:
    """When the batch began.

    Spark makes a number of the time of a batch, and would write it into the code that it generates, which would then be
    compiled anew for every batch. What is done with the elements of an array is not part of that code.
    """
    if BEGAN in frame.columns:
        return F.col(BEGAN)
    return F.get(F.transform(F.array(F.lit(0)), lambda _: F.unix_micros(F.current_timestamp())), F.lit(0))


def resolve_scan(frame: DataFrame, source: Source, schema: StructType, event_time: bool, guard: Guard) -> DataFrame:
    """`frame` with the user's columns and `carried`; `event_time` False gives processing time whatever is declared."""
    now = _batch_began(frame)
    is_corrupt = F.col(CORRUPT).isNotNull()
    is_given, value, declared = _declared(frame, source if event_time else replace(source, event_time=None))
    own = F.coalesce(*_metadata(source, schema), F.col(RECEIVED)) if event_time else F.lit(None).cast("bigint")
    time = F.coalesce(declared, own, now)
    unparseable = is_given & declared.isNull()
    future = F.coalesce(declared > now + F.lit(source.max_future_skew), F.lit(False))
    how = judged(
        {
            IS_UNDECODABLE: is_corrupt,
            IS_EMPTY: _is_empty(source, schema),
            IS_UNPARSEABLE: unparseable,
            IS_FUTURE: future,
            DECLARED: declared.isNotNull() if event_time else F.lit(True),
            FROM_METADATA: own.isNotNull(),
        }
    )
    detail = F.when(is_corrupt, F.col(CORRUPT)).when(unparseable | future, value)
    if PLACE in frame.columns:
        detail = F.concat(PLACE, F.lit(": "), detail)
    users = [F.col(backticked(f.name)) for f in schema.fields]
    resolved = frame.select(
        *users,
        SEQ,
        F.when(~(is_corrupt | unparseable), time).alias(TS),
        how.cast("tinyint").alias(HOW),
        detail.alias(DETAIL),
        _identity(source).alias(DEDUP),
        (F.col(LANE) if LANE in frame.columns else F.lit(None).cast("string")).alias(LANE),
        (F.col(PASSED) if PASSED in frame.columns else F.lit(None)).alias(PASSED),
        F.lit(None).cast("bigint").alias(CARRIED_WATERMARK),
        *_arrivals(source, now),
        *([BEGAN] if BEGAN in frame.columns else []),
    )
    if event_time and source.watermark_sql is not None and source.event_time is not None:
        resolved = _with_carried_watermark(resolved, source, source.watermark_sql, source.event_time, guard)
    priority = source.admission.priority_sql if source.admission is not None and source.admission.sheds else None
    if priority is not None:
        resolved = _with_priority(resolved, source, priority, guard)
    return guard.cleared(resolved)


def _is_empty(source: Source, schema: StructType) -> Column:
    """Whether the row is an error because none of the declared columns has a value."""
    if not source.refuses_empty_rows:
        return F.lit(False)
    return F.coalesce(*[F.col(backticked(field.name)).cast("string") for field in schema.fields]).isNull()


def _arrivals(source: Source, now: Column) -> list[Column]:
    """What a source with limits needs to know of a row."""
    if source.admission is None:
        return []
    columns = [F.coalesce(RECEIVED, now).alias(ARRIVED), F.lit(True).alias(KEPT)]
    if not source.admission.sheds:
        return columns
    return [*columns, now.alias(NOW), F.lit(None).cast("string").alias(PRIORITY)]


def _with_priority(frame: DataFrame, source: Source, sql: str, guard: Guard) -> DataFrame:
    """What matters more, where rows may be shed."""
    try:
        _ = frame.select(F.expr(sql).alias("p")).schema
    except REFUSED as error:
        raise OptionError(
            f"source {source.name}: sla.priority: {first_sentence(error)}",
            help="write low, medium, high, critical, or an expression over the source's columns that gives one of them",
        ) from None
    frame, (priority,) = guard.of_rows(frame, [Named("priority", sql)])
    return frame.withColumn(PRIORITY, priority.cast("string"))


def judged(applies: Mapping[int, Column]) -> Column:
    """The number of `eventtime.resolution` for each row."""
    return reduce(
        lambda rest, code: F.when(applies[code], code).otherwise(rest), reversed(ORDER), F.lit(FROM_PROCESSING)
    )


def _declared(frame: DataFrame, source: Source) -> tuple[Column, Column, Column]:
    """Whether the declared event time is given, its text, and its microseconds. Of several messages the first that is
    there counts.
    """
    given, text, time = F.lit(False), F.lit(None).cast("string"), F.lit(None).cast("bigint")
    if source.event_time is None:
        return given, text, time
    for declaration in reversed(source.messages or (source.event_time,)):
        value = F.col(
            ".".join(map(backticked, declaration.column.split(".")))
            if source.messages
            else backticked(declaration.column)
        )
        what = f"source {source.name}: EVENT TIME {declaration.column}"
        try:
            kind = frame.select(value.alias("t")).schema["t"].dataType
        except REFUSED as error:
            raise OptionError(f"{what}: {first_sentence(error)}") from None
        parsed = micros(value, kind, event_time_types.resolve(declaration.type), what)
        is_there = F.col(backticked(declaration.column.split(".")[0])).isNotNull() if source.messages else F.lit(True)
        given, text, time = (
            F.when(is_there, own).otherwise(rest)
            for own, rest in ((value.isNotNull(), given), (value.cast("string"), text), (parsed, time))
        )
    return given, text, time


def _metadata(source: Source, schema: StructType) -> list[Column]:
    """Times of receipt that the row itself holds, unless one of them is the event time."""
    declared = {time.column.lower() for time in source.messages or ((source.event_time,) if source.event_time else ())}
    found = []
    for name in METADATA_COLUMNS:
        for field in schema.fields:
            if (
                field.name.lower() == name
                and name not in declared
                and isinstance(field.dataType, TimestampType | StringType)
            ):
                found.append(F.unix_micros(F.col(backticked(field.name)).try_cast("timestamp")))
    return found


def _with_carried_watermark(
    frame: DataFrame, source: Source, sql: str, event_time: EventTime, guard: Guard
) -> DataFrame:
    """The watermark that WATERMARK FOR takes from the row, read as the event time is."""
    expression, what = F.expr(sql), f"source {source.name}: WATERMARK FOR"
    try:
        kind = frame.select(expression.alias("t")).schema["t"].dataType
    except REFUSED as error:
        raise SqlError(f"{sql}: {first_sentence(error)}") from None
    frame, (expression,) = guard.of_rows(frame, [Named("watermark", sql)])
    is_time = isinstance(kind, TimestampType)
    parser = event_time_types.resolve(event_time.type)
    carried = timestamp_micros(expression, kind, what) if is_time else micros(expression, kind, parser, what)
    latest = _batch_began(frame) + F.lit(source.max_future_skew)
    return frame.withColumn(CARRIED_WATERMARK, F.when(carried <= latest, carried))


def _identity(source: Source) -> Column:
    """What tells a row from its re-delivery: one column's value, or a text; NULL where there is nothing to tell."""
    if source.dedup is None:
        return F.lit(None).cast("string")
    columns = [F.col(".".join(map(backticked, field_path(name, source.columns)))) for name in source.dedup.columns]
    if len(columns) == 1:
        return columns[0]
    present = reduce(Column.__or__, [column.isNotNull() for column in columns])
    return F.when(present, F.concat(F.lit(f"{source.name}:"), F.to_json(F.struct(*columns))))


def override(frame: DataFrame, users: list[str], sql: str, skew: int, guard: Guard) -> DataFrame:
    """The time that the query itself names, where it is not NULL, in place of what the scan found."""
    frame, (expression,) = guard.of_rows(frame, [Named("time", sql)])
    type = frame.select(expression.alias("t")).schema["t"].dataType
    time = timestamp_micros(expression, type, f"the window's time {sql}")
    now = _batch_began(frame)
    given = time.isNotNull() & (F.col(HOW) < IS_NO_ROW)
    how = F.when(given & (time > now + F.lit(skew)), IS_FUTURE).when(given, DECLARED).otherwise(F.col(HOW))
    return frame.select(
        *[F.col(backticked(name)) for name in users],
        SEQ,
        F.when(given, time).otherwise(F.col(TS)).alias(TS),
        how.cast("tinyint").alias(HOW),
        F.when(given, expression.cast("string")).otherwise(F.col(DETAIL)).alias(DETAIL),
        DEDUP,
        CARRIED_WATERMARK,
        LANE,
        PASSED,
        *[name for name in (ARRIVED, KEPT, NOW, PRIORITY, BEGAN) if name in frame.columns],
    )
