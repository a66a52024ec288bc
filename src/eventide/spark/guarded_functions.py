"""Functions of the user's own in Python, called so that what they raise can be caught.

Spark evaluates them in front of the expression that calls them, out of a guard's reach. So each is registered a second
time, in a form that never raises: it gives the value, or what was raised, which the expression then raises itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.serializers import CPickleSerializer
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType, _parse_datatype_json_string
from pyspark.util import PythonEvalType

from eventide.spark.analysis import REFUSED
from eventide.sql.guarded_calls import GUARDED, with_calls_replaced

_BY_ROW = {PythonEvalType.SQL_BATCHED_UDF: False, PythonEvalType.SQL_ARROW_BATCHED_UDF: True}


def with_guarded_functions(frame: DataFrame, sql: str) -> tuple[str, list[str]]:
    """`sql` with every function of the user's that can be guarded replaced, and where the errors of these are; `frame`
    has the columns.
    """
    errors: list[str] = []
    for name, node in _python_functions(frame, sql).items():
        if _registered(frame, name, node):
            sql, found = with_calls_replaced(sql, name)
            errors += found
    return sql, errors


def _python_functions(frame: DataFrame, sql: str) -> dict[str, Any]:
    """The functions in Python that `sql` calls, as Spark knows them, by name."""
    try:
        plan = frame.select(F.expr(sql).alias("c"))._jdf.queryExecution().analyzed()
    except REFUSED:
        return {}
    found = (node for expression in _items(plan.expressions()) for node in _tree(expression))
    return {str(node.name()): node for node in found if node.getClass().getSimpleName() == "PythonUDF"}


def _tree(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _items(expression.children()):
        yield from _tree(child)


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))


def _registered(frame: DataFrame, name: str, node: Any) -> bool:
    """Whether the guarded form of a function is there; some kinds of functions have none."""
    kind = int(node.evalType())
    if kind not in _BY_ROW:
        return False
    command = bytes(number % 256 for number in _items(node.func().command()))
    try:
        function, *_ = CPickleSerializer().loads(command)  # type: ignore[no-untyped-call]
    except Exception:  # what Spark has broadcast because of its size, or what cannot be had here
        return False
    value: DataType = _parse_datatype_json_string(node.dataType().json())
    given = StructType([StructField("value", value), StructField("error", StringType())])
    guarded = F.udf(_never_raising(function), given, useArrow=_BY_ROW[kind])
    frame.sparkSession.udf.register(f"{GUARDED}{name}", guarded)
    return True


def _never_raising(function: Callable[..., Any]) -> Callable[..., tuple[Any, str | None]]:
    def guarded(*values: Any) -> tuple[Any, str | None]:
        try:
            return function(*values), None
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"

    return guarded
