"""JSON lines as rows: one rule, whoever has found the lines, Spark's reader of text or a scan inside a task.

A line is one object, or an array that is a row for each of its objects. Anything else, more after it, bytes that are
not UTF-8 or a value that does not fit its column makes the whole line one row that did not decode, and CORRUPT its
text.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StringType, StructField, StructType

from eventide.connectors.contract import CORRUPT
from eventide.plan.names import backticked

LINE = "__line"  # of a frame of lines: the bytes of each
_TEXT, _ONE, _IS_UTF8 = "__text", "__one", "__is_utf8"
_OPTIONS = {"mode": "PERMISSIVE", "timeZone": "UTC"}
_OBJECTS, _TEXTS = "array<struct<__nothing: int>>", "array<string>"
_AROUND = " \t"  # what may be before and after a value


def rows_of_lines(frame: DataFrame, schema: StructType, columns: Collection[str]) -> DataFrame:
    """`frame` with the fields of `schema` and CORRUPT in place of LINE, a row for each object; a LINE that is NULL is
    one row.

    Only `columns` are decoded; the others are NULL, and what they hold is not judged.
    """
    kept = [backticked(name) for name in frame.columns if name != LINE]
    read = StructType([field for field in schema.fields if field.name in columns])
    lines = _texts(frame, kept)
    one = StructType([*read.fields, StructField(CORRUPT, StringType())])
    tried = lines.select(*kept, _TEXT, _IS_UTF8, _parsed(F.col(_TEXT), one).alias(_ONE))
    value = F.explode(_values(one)).alias(_ONE)
    own = [
        (
            F.col(f"{_ONE}.{backticked(field.name)}") if field.name in read.names else F.lit(None).cast(field.dataType)
        ).alias(field.name)
        for field in schema.fields
    ]
    return tried.select(*kept, value).select(*kept, *own, F.col(f"{_ONE}.{CORRUPT}").alias(CORRUPT))


def _texts(frame: DataFrame, kept: list[str]) -> DataFrame:
    """The lines that hold anything, as text that can be read whatever the bytes are."""
    line = F.col(LINE).cast("string")
    is_utf8 = F.is_valid_utf8(line)
    text = F.trim(F.when(is_utf8, line).otherwise(F.make_valid_utf8(line)), F.lit(_AROUND))
    made = frame.select(*kept, text.alias(_TEXT), is_utf8.alias(_IS_UTF8))
    return made.where(F.col(_TEXT).isNull() | (F.col(_TEXT) != ""))


def _values(one: StructType) -> Column:
    """What a line holds, as an array of structs."""
    text, value = F.col(_TEXT), F.col(_ONE)
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in one.fields if field.name != CORRUPT]
    bad = F.array(F.struct(*nothing, text.alias(CORRUPT)))
    objects, elements = F.from_json(text, _OBJECTS, _OPTIONS), F.from_json(text, _TEXTS, _OPTIONS)
    are_objects = objects.isNotNull() & ~F.exists(objects, lambda each: each.isNull())
    return (
        F.when(text.isNull(), F.array(value))
        .when(~F.col(_IS_UTF8) | ~_is_one_value(text), bad)
        .when(
            _is_list(text), F.when(are_objects, F.transform(elements, lambda each: _parsed(each, one))).otherwise(bad)
        )
        .when(value.isNull(), bad)
        .otherwise(F.array(value))
    )


def _parsed(text: Column, one: StructType) -> Column:
    return F.from_json(text, one, {**_OPTIONS, "columnNameOfCorruptRecord": CORRUPT})


def _is_list(text: Column) -> Column:
    return text.startswith("[")


def _is_one_value(text: Column) -> Column:
    """Whether nothing follows the first value, which Spark's parser does not look at.

    An object whose only closing brace is its last character holds all of the text. Else the text must count for one
    in a list, and for one still if another follows it: a text that closes that list itself counts the same in both.
    """
    counted = F.when(_is_list(text), _counts_for_one(text, _TEXTS)).otherwise(_counts_for_one(text, _OBJECTS))
    return (F.locate("}", text) == F.length(text)) | F.coalesce(counted, F.lit(False))


def _counts_for_one(text: Column, type: str) -> Column:
    alone = F.from_json(F.concat(F.lit("["), text, F.lit("]")), type, _OPTIONS)
    followed = F.from_json(F.concat(F.lit("["), text, F.lit(",{}]")), type, _OPTIONS)
    return (F.size(alone) == 1) & (F.size(followed) == 2)
