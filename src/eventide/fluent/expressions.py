"""Expressions as users give them: Spark SQL, or a Column of PySpark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from eventide.sql.fragments import Fragment

if TYPE_CHECKING:
    from pyspark.sql import Column

Expression = Union[str, "Column"]


def fragment(label: str, expression: Expression) -> Fragment:
    """An argument as a piece of SQL; `label` names it in errors."""
    if isinstance(expression, str):
        return Fragment(label, expression)
    from eventide.spark.column_sql import column_sql

    return Fragment(label, column_sql(expression, label))
