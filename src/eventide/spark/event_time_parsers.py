"""From a declared column to microseconds: the event-time types as Spark expressions.

Every function gives BIGINT microseconds since the epoch, or NULL for a value that does not parse.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, functions as F
from pyspark.sql.types import DataType, DateType, IntegralType, StringType, TimestampNTZType, TimestampType

from eventide.connectors.contract import timestamp_of
from eventide.errors import OptionError
from eventide.eventtime.registry import CustomParser, EpochUnit, Iso8601, SparkTimestamp
from eventide.eventtime.time_range import EARLIEST_US, LATEST_US
from eventide.spark.guard import tried

_WIDE = "decimal(38,9)"


def micros(
    column: Column, type: DataType, parser: EpochUnit | Iso8601 | SparkTimestamp | CustomParser, what: str
) -> Column:
    """`column` of Spark type `type`, parsed; `what` names it in errors."""
    if isinstance(parser, EpochUnit):
        value = _epoch(column, type, parser)
    elif isinstance(parser, Iso8601):
        if not isinstance(type, StringType):
            raise OptionError(
                f"{what}: type iso8601 parses text, the column is {type.simpleString()}", help=_advice(type)
            )
        value = F.unix_micros(timestamp_of(column))
    elif isinstance(parser, SparkTimestamp):
        value = timestamp_micros(column, type, what)
    else:
        value = F.unix_micros(_custom(column, parser))
    return F.when(value.between(EARLIEST_US, LATEST_US), value)


def timestamp_micros(column: Column, type: DataType, what: str) -> Column:
    if not isinstance(type, TimestampType | TimestampNTZType | DateType):
        raise OptionError(f"{what}: needs a TIMESTAMP or DATE, the column is {type.simpleString()}", help=_advice(type))
    return F.unix_micros(column.cast("timestamp"))


def _epoch(column: Column, type: DataType, unit: EpochUnit) -> Column:
    if isinstance(type, IntegralType) and unit.micros_denominator == 1:
        value, factor = column.cast("bigint"), unit.micros_numerator
        return F.when(value.between(EARLIEST_US // factor, LATEST_US // factor), value * F.lit(factor))
    if isinstance(type, TimestampType | TimestampNTZType | DateType):
        raise OptionError(
            "a unixtimestamp type parses numbers, the column is a " + type.simpleString().upper(), help="use TYPE spark"
        )
    text = F.trim(column) if isinstance(type, StringType) else column
    number = text.try_cast(_WIDE)
    scaled = (
        number
        * F.lit(unit.micros_numerator).cast("decimal(18,0)")
        / F.lit(unit.micros_denominator).cast("decimal(18,0)")
    )
    return F.floor(scaled).try_cast("bigint")


def _custom(column: Column, parser: CustomParser) -> Column:
    if parser.kind != "python":
        try:
            parsed = parser.function(column)
        except Exception:
            if parser.kind == "column":
                raise
            parsed = None
        if isinstance(parsed, Column):
            return tried(F.when(column.isNotNull(), parsed.try_cast("timestamp")))
    return F.udf(_forgiving(parser.function), TimestampType())(column)


def _forgiving(parse: Callable[[Any], dt.datetime | None]) -> Callable[[Any], dt.datetime | None]:
    """A value that the user's parser refuses is an error row, not the end of the stream."""

    def parse_or_none(value: Any) -> dt.datetime | None:
        if value is None:
            return None
        try:
            return parse(value)
        except Exception:
            return None

    parse_or_none.__annotations__ = {}  # Spark takes hints for a request to guess at the kind of function
    return parse_or_none


def _advice(type: DataType) -> str:
    if isinstance(type, TimestampType | TimestampNTZType | DateType):
        return "use TYPE spark"
    return "use TYPE iso8601 for text, TYPE unixtimestamp_ms (or _s, _us, _ns) for numbers"
