"""What Spark says of a plan before it runs: the types of every column, or why an expression is wrong.

Analysed on empty frames with the right columns, so that a mistake is found when the stream is created.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from eventide.errors import SqlError
from eventide.plan.logical import Explode, Filter, Named, Step
from eventide.plan.physical import Physical

REFUSED = PySparkException  # what Spark says no with: mistakes of analysis, of arithmetic in constants, of parsing
_WINDOW_COLUMNS = [
    StructField("window_start", TimestampType()),
    StructField("window_end", TimestampType()),
    StructField("emit_epoch", LongType()),
    StructField("op", IntegerType()),
]


@dataclass(frozen=True)
class Analyzed:
    """`packed` by packed name; `results` by aggregate name; `main` is what the kernel gives, with window_id
    appended.
    """

    packed: dict[str, StructField]
    results: dict[str, StructField]
    main: StructType
    outputs: StructType
    deduplicates: bool
    needs_arrival: bool  # whether the kernel must know in which order rows of a batch came


def analyze(spark: SparkSession, physical: Physical, schema: StructType) -> Analyzed:
    relation = spark.createDataFrame([], schema)
    packed = _typed(relation, physical.packed)
    results = _results(relation, physical)
    main = _main(physical, packed, results)
    wide = spark.createDataFrame([], main)
    if physical.having is not None:
        _check(wide, physical.having)
    outputs = StructType(list(_typed(wide, physical.outputs).values()))
    deduplicates = any(branch.source.dedup is not None for branch in physical.branches)
    return Analyzed(packed, results, main, outputs, deduplicates, physical.ordered or deduplicates)


def _main(physical: Physical, packed: dict[str, StructField], results: dict[str, StructField]) -> StructType:
    if physical.window is None:
        users = [StructField(named.name, packed[named.sql].dataType) for named in physical.originals]
        return StructType(users)
    keys = [StructField(f"__k{i}", packed[key.sql].dataType) for i, key in enumerate(physical.keys)]
    calls = [StructField(name, field.dataType) for name, field in results.items()]  # nullable: side rows have none
    return StructType([*_WINDOW_COLUMNS, *keys, *calls, StructField("window_id", StringType())])


def _results(relation: DataFrame, physical: Physical) -> dict[str, StructField]:
    """What the aggregates return: Spark knows its own, the others say it themselves."""
    known = tuple(Named(a.name, a.sql) for a in physical.aggregates if a.returns is None)
    found = _typed(relation, known) if known else {}
    own = {
        a.name: StructField(a.name, parsed_type(a.sql, a.returns)) for a in physical.aggregates if a.returns is not None
    }
    return {a.name: (own if a.name in own else found)[a.name] for a in physical.aggregates}


def parsed_type(sql: str, text: str) -> DataType:
    """A type from Spark's DDL, as what stands at `sql` declares it."""
    try:
        return DataType.fromDDL(text)
    except ParseException:
        raise SqlError(
            f"{sql}: {text} is not a type of Spark's", help="write bigint, double, array<string>, ..."
        ) from None


def _typed(frame: DataFrame, columns: tuple[Named, ...]) -> dict[str, StructField]:
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
    return text.split("] ", 1)[1].split(" SQLSTATE")[0] if text.startswith("[") and "] " in text else text
