"""A user's own streaming DataFrame as a source."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from eventide.connectors.contract import SourceContext, user_schema, with_hidden
from eventide.errors import OptionError
from eventide.plan.logical import Source
from eventide.plan.names import quoted

_WATERMARK = "spark.watermarkDelayMs"  # how Spark marks the column of a watermark


def load(context: SourceContext, source: Source) -> DataFrame:
    return with_hidden(context.frames[source.name], user_schema(source), F.lit(None), F.lit(None))


def declared_columns(frame: DataFrame) -> tuple[tuple[str, str], ...]:
    """A DataFrame's column names and types, as CREATE SOURCE would declare them; an error if it cannot be a stream."""
    if not isinstance(frame, DataFrame):
        raise OptionError(
            f"stream() takes a streaming DataFrame, not {type(frame).__name__}",
            help="write stream(spark.readStream...)",
        )
    if not frame.isStreaming:
        raise OptionError(
            "stream() takes a streaming DataFrame, and this one is not", help="make it with spark.readStream"
        )
    for field in frame.schema.fields:
        if _WATERMARK in field.metadata:
            raise OptionError(
                f"the DataFrame already has a watermark on {field.name}, and Spark would drop late rows unseen",
                help=f"leave withWatermark() out, and write event_time('{field.name}', lag='...')",
            )
    return tuple((field.name, ddl(field.dataType)) for field in frame.schema.fields)


def ddl(type: DataType) -> str:
    """The type as plans write it, with field names quoted so that Spark can read them back."""
    if isinstance(type, ArrayType):
        return f"array<{ddl(type.elementType)}>"
    if isinstance(type, MapType):
        return f"map<{ddl(type.keyType)},{ddl(type.valueType)}>"
    if isinstance(type, StructType):
        return f"struct<{','.join(f'{quoted(field.name)}:{ddl(field.dataType)}' for field in type.fields)}>"
    return type.simpleString()
