"""Structs and arrays that a task can read, by the Spark type that declares them."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
from sqlglot import expressions as exp
from sqlglot.errors import ParseError

from eventide.tasks.expressions import DATE, TYPES


@lru_cache(maxsize=4096)
def fields_of(type: str) -> tuple[tuple[str, str], ...]:
    """Names and types of a struct's fields; none for another type."""
    if not type.startswith("struct<"):
        return ()
    try:
        tree = exp.DataType.build(type, dialect="spark")
    except ParseError:  # a name with characters of its own that whoever wrote the type has not quoted
        return ()
    return tuple((field.name, _text(field.args["kind"])) for field in tree.expressions)


@lru_cache(maxsize=4096)
def element_of(type: str) -> str | None:
    """The type of an array's elements; None for another type."""
    return type[len("array<") : -1] if type.startswith("array<") and type.endswith(">") else None


def arrow_type(type: str) -> pa.DataType | None:
    """Of a type of TYPES, a date, or a struct or array of such; None for what only Spark can read."""
    if type == DATE:
        return pa.date32()
    if type in TYPES:
        return TYPES[type]
    element = element_of(type)
    if element is not None:
        inner = arrow_type(element)
        return None if inner is None else pa.list_(pa.field("element", inner))
    fields = [(name, arrow_type(kind)) for name, kind in fields_of(type)]
    names = {name.lower() for name, _ in fields}
    if not fields or len(names) < len(fields) or any(kind is None for _, kind in fields):
        return None
    return pa.struct(fields)


def _text(type: exp.DataType) -> str:
    if type.this == exp.DataType.Type.STRUCT:
        fields = ",".join(f"`{field.name}`:{_text(field.args['kind'])}" for field in type.expressions)
        return f"struct<{fields}>"
    if type.this == exp.DataType.Type.ARRAY and len(type.expressions) == 1:
        return f"array<{_text(type.expressions[0])}>"
    return type.sql(dialect="spark").lower()
