"""What Spark says about a plan before it runs: the types of every column, or why an expression is wrong.

Analysed on empty frames with the right columns, so that a mistake is found when the stream is created.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from eventide.errors import SqlError
from eventide.kernels.contract import CHANGE, EMIT_EPOCH, OP, ROWTIME, WINDOW_END, WINDOW_START, WINDOW_TIME
from eventide.kernels.logic.rank import PLACE
from eventide.plan.joins import AnyTime
from eventide.plan.logical import Explode, Filter, Lookup, Named, Step
from eventide.plan.physical import AggregateWindows, ForwardRows, Input, JoinRows, OverRows, Physical, RankRows
from eventide.plan.windows import Unbounded, Window
from eventide.spark.failure import TRACEBACK, cause_of
from eventide.tasks.select_list import WINDOW_ID

REFUSED = PySparkException  # how Spark refuses: mistakes of analysis, of arithmetic in constants, of parsing
_BOUNDS = [StructField(WINDOW_START, TimestampType()), StructField(WINDOW_END, TimestampType())]
_ROWTIME = StructField(ROWTIME, TimestampType())
_WINDOW_ID = StructField(WINDOW_ID, StringType())

Packed = dict[str, StructField]  # by packed name


@dataclass(frozen=True)
class Analyzed:
    """`packed` by side; `results` by aggregate; `main` is what the kernel gives, and window_id.

    `cast` are, by side, keys of a join that are compared as another type than their own.
    """

    packed: tuple[Packed, ...]
    results: dict[str, StructField]
    main: StructType
    outputs: StructType
    cast: tuple[frozenset[str], ...]


def analyze(spark: SparkSession, physical: Physical, relations: tuple[StructType, ...]) -> Analyzed:
    """`relations` are the columns of each side's rows."""
    frames = [spark.createDataFrame([], relation) for relation in relations]
    firsts = [_first(physical, side) for side in range(len(relations))]
    own = tuple(_typed(frame, first.packed) for frame, first in zip(frames, firsts, strict=True))
    packed = _with_common_keys(spark, own, firsts) if isinstance(physical.operator, JoinRows) else own
    cast = tuple(
        frozenset(name for name in mine if mine[name].dataType != common[name].dataType)
        for mine, common in zip(own, packed, strict=True)
    )
    results = _results(frames[0], physical)
    main = _main(physical, packed, results)
    wide = spark.createDataFrame([], main)
    if physical.having is not None:
        _check(wide, physical.having)
    if isinstance(physical.operator, JoinRows) and physical.operator.condition is not None:
        _check(wide, physical.operator.condition)
    return Analyzed(packed, results, main, StructType(list(_typed(wide, physical.outputs).values())), cast)


def _first(physical: Physical, side: int) -> Input:
    return next(input for input in physical.inputs if input.side == side)


def _main(physical: Physical, packed: tuple[Packed, ...], results: dict[str, StructField]) -> StructType:
    match physical.operator:
        case ForwardRows(window=window):
            users = [StructField(named.name, packed[0][named.sql].dataType) for named in physical.inputs[0].originals]
            return StructType([*_table_bounds(window), *users, _ROWTIME])
        case RankRows(told=told, window=window):
            first = physical.inputs[0]
            own = [named for named in first.originals if told is None or named.sql != first.changes]
            users = [StructField(named.name, packed[0][named.sql].dataType) for named in own]
            change = [] if told is None else [StructField(CHANGE, IntegerType())]
            return StructType([*_table_bounds(window), *users, StructField(PLACE, IntegerType()), *change, _ROWTIME])
        case OverRows(order=order):
            first = physical.inputs[0]
            own = [named for named in first.originals if not order or named.sql != first.changes]
            users = [StructField(named.name, packed[0][named.sql].dataType) for named in own]
            calls = [StructField(name, field.dataType) for name, field in results.items()]
            change = [StructField(CHANGE, IntegerType())] if order else []
            return StructType([*users, *calls, *change, _ROWTIME])
        case AggregateWindows(window=window):
            head = [*_BOUNDS, StructField(EMIT_EPOCH, LongType()), StructField(OP, IntegerType())]
            keys = [
                StructField(f"__k{i}", packed[0][key.sql].dataType) for i, key in enumerate(physical.inputs[0].keys)
            ]
            # nullable: side rows have none
            calls = [StructField(name, field.dataType) for name, field in results.items()]
            times = [_ROWTIME] if isinstance(window, Unbounded) else []
            return StructType([*head, *keys, *calls, *times, _WINDOW_ID])
        case JoinRows(left=left, right=right, bound=bound):
            columns = [
                StructField(column.name, packed[side][column.sql].dataType)
                for side, chosen in ((0, left), (1, right))
                for column in chosen
            ]
            change = [StructField(CHANGE, IntegerType())] if isinstance(bound, AnyTime) else []
            return StructType([*_BOUNDS, _ROWTIME, *columns, *change, _WINDOW_ID])


def _table_bounds(window: Window | None) -> list[StructField]:
    """What a row has of the window into which a table function has put it."""
    return [] if window is None else [*_BOUNDS, StructField(WINDOW_TIME, TimestampType())]


def _results(relation: DataFrame, physical: Physical) -> dict[str, StructField]:
    """What the aggregates return: Spark knows its own, the others say it themselves."""
    calls = physical.aggregates
    known = tuple(Named(a.name, a.sql) for a in calls if a.returns is None)
    found = _typed(relation, known) if known else {}
    own = {a.name: StructField(a.name, parsed_type(a.sql, a.returns)) for a in calls if a.returns is not None}
    return {a.name: (own if a.name in own else found)[a.name] for a in calls}


def _with_common_keys(spark: SparkSession, packed: tuple[Packed, ...], firsts: list[Input]) -> tuple[Packed, ...]:
    """The key columns of both sides in the type in which Spark compares them."""
    left, right = dict(packed[0]), dict(packed[1])
    for one, other in zip(firsts[0].keys, firsts[1].keys, strict=True):
        kind = comparison_type(spark, left[one.sql].dataType, right[other.sql].dataType, f"{one.name} = {other.name}")
        left[one.sql], right[other.sql] = StructField(one.sql, kind), StructField(other.sql, kind)
    return left, right


def comparison_type(spark: SparkSession, left: DataType, right: DataType, sql: str) -> DataType:
    """The type to which Spark casts both sides of an equality; `sql` names it in errors."""
    if left == right:
        return left
    frame = spark.createDataFrame([], StructType([StructField("lk", left), StructField("rk", right)]))
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):  # only here does Spark show its casts
            frame.select(F.expr("lk = rk").alias("same")).explain("extended")
    except REFUSED as error:
        raise SqlError(f"{sql}: {first_sentence(error)}", help="cast one side to the type of the other") from None
    analyzed = text.getvalue().partition("== Analyzed")[2].partition("== Optimized")[0]
    cast = re.search(r" as (decimal\(\d+,\s*\d+\)|[^()]+)\) = ", analyzed)  # of the left side, the last of several
    return left if cast is None else DataType.fromDDL(cast[1])


def parsed_type(sql: str, text: str) -> DataType:
    """A type from Spark's DDL, as what stands at `sql` declares it."""
    try:
        return DataType.fromDDL(text)
    except ParseException:
        raise SqlError(
            f"{sql}: {text} is not a type of Spark's", help="write bigint, double, array<string>, ..."
        ) from None


def _typed(frame: DataFrame, columns: tuple[Named, ...]) -> Packed:
    """The fields that `columns` give over `frame`; the one that fails is named in the error."""
    try:
        schema = frame.select(*[F.expr(c.sql).alias(c.name) for c in columns]).schema
    except REFUSED:
        for column in columns:
            _check_one(frame, column)
        raise
    return {field.name: field for field in schema.fields}


def check_step(frame: DataFrame, step: Step) -> None:
    """Raise what Spark finds wrong with a step, with the expression that it is about."""
    if isinstance(step, Filter):
        _check(frame, step.condition)
    elif isinstance(step, Explode):
        _check_one(frame, Named(step.names[-1], f"explode({step.sql})"))
    elif isinstance(step, Lookup):
        columns = [
            F.lit(None).cast(column.type).alias(name)
            for column, name in zip(step.table.columns, step.names, strict=True)
        ]
        _check(frame.select("*", *columns), step.condition)
    else:
        _typed(frame, step.columns)


def _check_one(frame: DataFrame, column: Named) -> None:
    try:
        _ = frame.select(F.expr(column.sql).alias(column.name)).schema
    except REFUSED as error:
        raise SqlError(f"{column.sql}: {first_sentence(error)}") from None


def _check(frame: DataFrame, condition: str) -> None:
    try:
        _ = frame.where(F.expr(condition)).schema
    except REFUSED as error:
        raise SqlError(f"{condition}: {first_sentence(error)}") from None


def first_sentence(error: Exception) -> str:
    """Spark's message without its error class, its plan and its query context."""
    text = str(error).strip().split("\n")[0]
    if text.endswith(TRACEBACK):
        return cause_of(str(error))
    return text.split("] ", 1)[1].split(" SQLSTATE")[0] if text.startswith("[") and "] " in text else text
