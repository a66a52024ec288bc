"""Values as a source declares them: decoding what a user writes, event times in microseconds, Arrow types."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from eventide.eventtime.registry import CustomParser, EpochUnit, EventTimeType, Iso8601, SparkTimestamp
from eventide.testing.expressions import unsupported

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EARLIEST, LATEST = (
    -62_135_596_799_999_000,
    253_402_300_799_999_999,
)  # from the year 1, less a millisecond, to the year 9999

_ARROW = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


class UndecodableError(ValueError):
    """A value that Spark's JSON reader would not accept for the column."""


def arrow_type(ddl: str) -> pa.DataType:
    digits = re.fullmatch(r"decimal\((\d+),(\d+)\)", ddl)
    if digits:
        return pa.decimal128(int(digits[1]), int(digits[2]))
    if ddl not in _ARROW:
        raise unsupported(f"the type {ddl}")
    return _ARROW[ddl]


def spark_type(kind: pa.DataType) -> str:
    """The Spark type of which Arrow's is `kind`."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return next(ddl for ddl, known in _ARROW.items() if known == kind)


def decoded(value: Any, ddl: str) -> Any:
    """A value written to a column of Spark type `ddl`, as a Python value; "": it comes from a stream, and is one."""
    if value is None or ddl == "":
        return value
    kind = ddl.partition("(")[0].partition("<")[0]
    if kind == "struct":
        return value
    if kind not in _DECODERS:
        raise unsupported(f"the type {ddl}")
    result = _DECODERS[kind](value)
    if kind == "decimal":
        scale = int(ddl.rstrip(")").partition(",")[2])
        result = result.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP)
    return result


def _whole(bits: int) -> Callable[[Any], int]:
    def decode(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
            raise UndecodableError(f"{value!r} is not a whole number of {bits + 1} bits")
        return value

    return decode


def _float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        raise UndecodableError(f"{value!r} is not a number")
    return float(value)


def _decimal(value: Any) -> decimal.Decimal:
    try:
        return decimal.Decimal(str(value))
    except decimal.InvalidOperation:
        raise UndecodableError(f"{value!r} is not a number") from None


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UndecodableError(f"{value!r} is not a boolean")
    return value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _timestamp(value: Any) -> dt.datetime:
    micros = iso_micros(value) if isinstance(value, str) else None
    if isinstance(value, dt.datetime):
        return value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    if micros is None:
        raise UndecodableError(f"{value!r} is not a timestamp")
    return moment(micros)


def _date(value: Any) -> dt.date:
    try:
        return value if isinstance(value, dt.date) else dt.date.fromisoformat(value)
    except (TypeError, ValueError):
        raise UndecodableError(f"{value!r} is not a date") from None


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "tinyint": _whole(7),
    "smallint": _whole(15),
    "int": _whole(31),
    "bigint": _whole(63),
    "float": _float,
    "double": _float,
    "string": _text,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "decimal": _decimal,
}


# Event times ------------------------------------------------------------------------------------------------------


def moment(micros: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=micros)


def micros_of(value: dt.datetime | dt.date) -> int:
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    value = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
    return (value - EPOCH) // dt.timedelta(microseconds=1)


def iso_micros(text: str) -> int | None:
    try:
        return micros_of(dt.datetime.fromisoformat(text.strip()))
    except ValueError:
        return None


def event_time(value: Any, parser: EventTimeType) -> int | None:
    """Microseconds since the epoch; None for a value that does not parse."""
    if isinstance(parser, CustomParser):
        raise unsupported("custom event-time types")
    micros = _parsed(value, parser)
    return micros if micros is not None and EARLIEST <= micros <= LATEST else None


def _parsed(value: Any, parser: EpochUnit | Iso8601 | SparkTimestamp) -> int | None:
    if isinstance(parser, SparkTimestamp):
        return micros_of(value)
    if isinstance(parser, Iso8601):
        return iso_micros(value)
    try:
        number = decimal.Decimal(value.strip() if isinstance(value, str) else str(value))
    except decimal.InvalidOperation:
        return None
    if not number.is_finite():
        return None
    return math.floor(number * parser.micros_numerator / parser.micros_denominator)
