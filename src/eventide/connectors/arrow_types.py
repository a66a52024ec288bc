"""Spark's types as Arrow types, the way Spark itself exchanges them with Python."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as T

from eventide.errors import OptionError

_PLAIN: dict[type[T.DataType], pa.DataType] = {
    T.BooleanType: pa.bool_(),
    T.ByteType: pa.int8(),
    T.ShortType: pa.int16(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.FloatType: pa.float32(),
    T.DoubleType: pa.float64(),
    T.StringType: pa.string(),
    T.VarcharType: pa.string(),
    T.CharType: pa.string(),
    T.BinaryType: pa.binary(),
    T.DateType: pa.date32(),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.TimestampNTZType: pa.timestamp("us"),
    T.DayTimeIntervalType: pa.duration("us"),
    T.NullType: pa.null(),
}


def to_arrow(type: T.DataType) -> pa.DataType:
    if isinstance(type, T.DecimalType):
        return pa.decimal128(type.precision, type.scale)
    if isinstance(type, T.ArrayType):
        return pa.list_(pa.field("element", to_arrow(type.elementType), type.containsNull))
    if isinstance(type, T.MapType):
        value = pa.field("value", to_arrow(type.valueType), type.valueContainsNull)
        return pa.map_(pa.field("key", to_arrow(type.keyType), False), value)
    if isinstance(type, T.StructType):
        return pa.struct([pa.field(f.name, to_arrow(f.dataType), f.nullable) for f in type.fields])
    for base in type.__class__.__mro__:
        if base in _PLAIN:
            return _PLAIN[base]
    raise OptionError(
        f"columns of type {type.simpleString()} are not supported", help="cast it to STRING in the source or the query"
    )


def to_arrow_schema(schema: T.StructType) -> pa.Schema:
    return pa.schema([pa.field(f.name, to_arrow(f.dataType)) for f in schema.fields])


def from_arrow_type(type: pa.DataType) -> T.DataType:
    """The inverse of `to_arrow`."""
    if pa.types.is_decimal(type):
        return T.DecimalType(type.precision, type.scale)
    if pa.types.is_map(type):
        return T.MapType(from_arrow_type(type.key_type), from_arrow_type(type.item_type))
    if pa.types.is_list(type):
        return T.ArrayType(from_arrow_type(type.value_type))
    if pa.types.is_struct(type):
        return T.StructType([T.StructField(field.name, from_arrow_type(field.type)) for field in type])
    # STRING stands before CHAR and VARCHAR
    return next(spark() for spark, arrow in _PLAIN.items() if arrow == type)
