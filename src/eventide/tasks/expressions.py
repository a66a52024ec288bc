"""Scalar expressions that mean the same to Spark and here, evaluated on whole Arrow columns.

Spark's rules without ANSI mode: integers wrap around, division by zero is NULL, AND and OR use three-valued logic, NaN
equals itself and is above all other numbers. `portable` builds these trees from SQL; they are small and picklable.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.vector.columns import whole
from eventide.tasks import text_functions, time_fields
from eventide.tasks.date_format import formatted

# The Spark types that a task can read from files, and the Arrow types that carry them.
TYPES: dict[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
DATE = "date"  # a column of dates can be read and passed on, and has no expressions here
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
WHOLE = ("tinyint", "smallint", "int", "bigint")  # from narrow to wide


def decimal_of(type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type.

    >>> decimal_of("decimal(24,3)")
    (24, 3)
    """
    found = _DECIMAL.fullmatch(type)
    return None if found is None else (int(found[1]), int(found[2]))


def carrier(type: str) -> pa.DataType:
    """The Arrow type of an expression's values."""
    decimal = decimal_of(type)
    return TYPES[type] if decimal is None else pa.decimal128(*decimal)


@dataclass(frozen=True)
class Column:
    name: str
    type: str


@dataclass(frozen=True)
class Field:
    """Of a struct; NULL where the struct is."""

    struct: Column | Field
    name: str
    type: str


@dataclass(frozen=True)
class Constant:
    value: Any
    type: str


@dataclass(frozen=True)
class Call:
    function: str  # a name in FUNCTIONS
    inputs: tuple[Expression, ...]
    type: str


Expression = Column | Field | Constant | Call


@dataclass(frozen=True)
class Condition:
    """Of a table's rows, those for which the expression holds; NULL is not."""

    expression: Expression

    def __call__(self, rows: pa.Table) -> pa.Array:
        return pc.fill_null(evaluate(self.expression, rows), False)


def evaluate(expression: Expression, rows: pa.Table) -> pa.Array:
    """The expression's value for every row; what it says twice is computed once."""
    value = _value(expression, rows, {})
    return value if isinstance(value, pa.Array) else pa.repeat(value, rows.num_rows)


def columns_of(expression: Expression) -> set[str]:
    match expression:
        case Column():
            return {expression.name}
        case Field():
            return columns_of(expression.struct)
        case Call():
            return set().union(*map(columns_of, expression.inputs))
    return set()


def _value(expression: Expression, rows: pa.Table, known: dict[Call, Any]) -> pa.Array | pa.Scalar:
    match expression:
        case Column():
            return whole(rows.column(expression.name))
        case Field():
            return pc.struct_field(_value(expression.struct, rows, known), expression.name)
        case Constant():
            return pa.scalar(expression.value, carrier(expression.type))
        case Call():
            if expression not in known:
                inputs = [_value(each, rows, known) for each in expression.inputs]
                known[expression] = FUNCTIONS[expression.function](carrier(expression.type), *inputs)
            return known[expression]


def _equal(type: pa.DataType, a: Any, b: Any) -> Any:
    both = _both_nan(a, b)
    return pc.equal(a, b) if both is None else pc.or_kleene(pc.equal(a, b), both)


def _less(type: pa.DataType, a: Any, b: Any) -> Any:
    if not _has_nan(a, b):
        return pc.less(a, b)
    return pc.or_kleene(pc.less(a, b), pc.and_kleene(pc.invert(pc.is_nan(a)), pc.is_nan(b)))


def _has_nan(*values: Any) -> bool:
    return any(pa.types.is_floating(value.type) and bool(_any(pc.is_nan(value))) for value in values)


def _any(flags: Any) -> bool | None:
    found: bool | None = flags.as_py() if isinstance(flags, pa.Scalar) else pc.any(flags).as_py()
    return found


def _both_nan(a: Any, b: Any) -> Any:
    return pc.and_kleene(pc.is_nan(a), pc.is_nan(b)) if _has_nan(a, b) else None


def _same(type: pa.DataType, a: Any, b: Any) -> Any:
    """Equality that treats NULL as a value."""
    return pc.or_(pc.fill_null(_equal(type, a, b), False), pc.and_(pc.is_null(a), pc.is_null(b)))


def _arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def apply(type: pa.DataType, a: Any, b: Any) -> Any:
        return operation(pc.cast(a, type), pc.cast(b, type))

    return apply


def _decimal_arithmetic(operation: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Of decimals that have their own types; the result has the type that Arrow and Spark both give it."""

    def apply(type: pa.DataType, a: Any, b: Any) -> Any:
        return pc.cast(operation(a, b), type)

    return apply


def _divide(type: pa.DataType, a: Any, b: Any) -> Any:
    a, b = pc.cast(a, type, safe=False), pc.cast(b, type, safe=False)
    return pc.divide(a, pc.if_else(pc.equal(b, 0.0), pa.scalar(None, type), b))


def _remainder(type: pa.DataType, a: Any, b: Any) -> Any:
    """With the sign of the dividend; NULL for a divisor of zero."""
    a, b = pc.cast(a, type), pc.cast(b, type)
    b = pc.if_else(pc.equal(b, 0), pa.scalar(None, type), b)
    if isinstance(a, pa.Scalar) and isinstance(b, pa.Scalar):
        a = pa.repeat(a, 1)
    missing = pc.or_(pc.is_null(a), pc.is_null(b))
    left, right = (_numbers(each, 1 if each is b else 0) for each in (a, b))
    rest = np.fmod(left, right)
    return pa.array(np.atleast_1d(rest), type, mask=np.atleast_1d(np.asarray(missing)))


def _numbers(values: Any, instead_of_null: int) -> Any:
    filled = pc.fill_null(values, instead_of_null)
    return filled.as_py() if isinstance(filled, pa.Scalar) else filled.to_numpy(zero_copy_only=False)


def _cast(type: pa.DataType, value: Any) -> Any:
    """Between integers as Spark does, keeping the lower bits; to a double, the nearest one; to text, its digits."""
    return pc.cast(value, type, safe=False)


def _choose(type: pa.DataType, *parts: Any) -> Any:
    """CASE: condition, value, condition, value, ..., else."""
    outcome = pc.cast(parts[-1], type, safe=False)
    for condition, value in reversed(list(zip(parts[:-1:2], parts[1:-1:2], strict=True))):
        outcome = pc.if_else(pc.fill_null(condition, False), pc.cast(value, type, safe=False), outcome)
    return outcome


def _coalesce(type: pa.DataType, *values: Any) -> Any:
    return pc.coalesce(*[pc.cast(value, type, safe=False) for value in values])


def _one_of(type: pa.DataType, value: Any, *choices: Any) -> Any:
    return reduce(pc.or_kleene, [_equal(type, value, choice) for choice in choices])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "=": _equal,
    "<>": lambda type, a, b: pc.invert(_equal(type, a, b)),
    "<": _less,
    ">": lambda type, a, b: _less(type, b, a),
    "<=": lambda type, a, b: pc.invert(_less(type, b, a)),
    ">=": lambda type, a, b: pc.invert(_less(type, a, b)),
    "<=>": _same,
    "and": lambda type, a, b: pc.and_kleene(a, b),
    "or": lambda type, a, b: pc.or_kleene(a, b),
    "not": lambda type, a: pc.invert(a),
    "is null": lambda type, a: pc.is_null(a),
    "in": _one_of,
    "+": _arithmetic(pc.add),
    "-": _arithmetic(pc.subtract),
    "*": _arithmetic(pc.multiply),
    "decimal +": _decimal_arithmetic(pc.add),
    "decimal -": _decimal_arithmetic(pc.subtract),
    "decimal *": _decimal_arithmetic(pc.multiply),
    "/": _divide,
    "%": _remainder,
    "negative": lambda type, a: pc.negate(a),
    "abs": lambda type, a: pc.abs(a),
    "cast": _cast,
    "case": _choose,
    "coalesce": _coalesce,
    "date_format": lambda type, a, b: formatted(a, b.as_py()),
    **text_functions.FUNCTIONS,
    **time_fields.FUNCTIONS,
}
