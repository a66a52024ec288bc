"""The scalar expressions that the reference model understands: a small part of Spark SQL, row by row.

Columns, literals, arithmetic, comparisons, AND/OR/NOT, IS NULL, BETWEEN, IN, CASE, COALESCE, CAST between simple types,
arrays, fields of structs and a few functions, with NULLs as in SQL and without ANSI mode. Everything else is refused by
name.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import expressions as exp

from eventide.errors import EventideError
from eventide.tasks.scalars import parsed

Row = Mapping[str, Any]  # by lower-case column name


class UnsupportedExpressionError(EventideError):
    """The reference model cannot evaluate an expression that Spark could."""


def unsupported(what: str) -> UnsupportedExpressionError:
    return UnsupportedExpressionError(
        f"the reference model does not know {what}", help="run it on Spark, or write it more simply"
    )


def evaluate(sql: str, row: Row) -> Any:
    """The value of Spark SQL `sql` for a row."""
    return _value(parsed(sql), row)


def holds(sql: str, row: Row) -> bool:
    """Whether a condition is true, neither false nor NULL."""
    return evaluate(sql, row) is True


def _value(node: exp.Expr, row: Row) -> Any:
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, row)
    if type(node) in _STRICT:
        values = [_value(part, row) for part in (node.this, node.args.get("expression")) if isinstance(part, exp.Expr)]
        return None if any(value is None for value in values) else _STRICT[type(node)](*values)
    raise unsupported(f"{node.key.upper()} in {node.sql(dialect='spark')}")


def _column(node: exp.Expr, row: Row) -> Any:
    parts = [part.name.lower() for part in node.parts]  # type: ignore[attr-defined]
    if parts[0] not in row:
        raise unsupported(f"the column {node.sql(dialect='spark')}; there are {', '.join(row)}")
    value = row[parts[0]]
    for part in parts[1:]:
        value = None if value is None else {name.lower(): item for name, item in value.items()}[part]
    return value


def _literal(node: exp.Expr, row: Row) -> Any:
    if node.args["is_string"]:
        return node.name
    text = node.name.lower()
    return int(text) if text.isdigit() else float(text) if "e" in text else decimal.Decimal(text)


def _and(node: exp.Expr, row: Row) -> bool | None:
    values = (_value(node.left, row), _value(node.right, row))  # type: ignore[attr-defined]
    return False if False in values else None if None in values else True


def _or(node: exp.Expr, row: Row) -> bool | None:
    values = (_value(node.left, row), _value(node.right, row))  # type: ignore[attr-defined]
    return True if True in values else None if None in values else False


def _is(node: exp.Expr, row: Row) -> bool:
    wanted, value = node.expression, _value(node.this, row)
    return value is None if isinstance(wanted, exp.Null) else bool(value is _value(wanted, row))


def _case(node: exp.Expr, row: Row) -> Any:
    if node.this is not None:
        raise unsupported("CASE with an operand")
    for branch in node.args["ifs"]:
        if _value(branch.this, row) is True:
            return _value(branch.args["true"], row)
    default = node.args.get("default")
    return None if default is None else _value(default, row)


def _if(node: exp.Expr, row: Row) -> Any:
    chosen = node.args["true"] if _value(node.this, row) is True else node.args.get("false")
    return None if chosen is None else _value(chosen, row)


def _coalesce(node: exp.Expr, row: Row) -> Any:
    values = (_value(part, row) for part in (node.this, *node.expressions))
    return next((value for value in values if value is not None), None)


def _between(node: exp.Expr, row: Row) -> bool | None:
    value, low, high = (_value(part, row) for part in (node.this, node.args["low"], node.args["high"]))
    return None if None in (value, low, high) else bool(low <= value <= high)


def _in(node: exp.Expr, row: Row) -> bool | None:
    value, choices = _value(node.this, row), [_value(choice, row) for choice in node.expressions]
    if value is None or not choices:
        return None
    return True if value in [choice for choice in choices if choice is not None] else None if None in choices else False


def _round(node: exp.Expr, row: Row) -> Any:
    value, digits = _value(node.this, row), node.args.get("decimals")
    if value is None:
        return None
    step = decimal.Decimal(1).scaleb(-(0 if digits is None else _value(digits, row)))
    rounded = decimal.Decimal(repr(value) if isinstance(value, float) else value).quantize(step, decimal.ROUND_HALF_UP)
    return float(rounded) if isinstance(value, float) else int(rounded) if isinstance(value, int) else rounded


def _timestamp_add(node: exp.Expr, row: Row) -> Any:
    count, unit = _value(node.expression, row), node.args["unit"].name.upper()
    if unit != "MICROSECOND":
        raise unsupported(f"timestampadd of a {unit}")
    value = _value(node.this, row)
    return None if value is None or count is None else value + dt.timedelta(microseconds=count)


def _cast(node: exp.Expr, row: Row) -> Any:
    value, wanted = _value(node.this, row), node.args["to"].this.name
    if wanted not in _CASTS or isinstance(value, dict | list):
        raise unsupported(f"a cast to {wanted}")
    try:
        return None if value is None else _CASTS[wanted](value)
    except (ValueError, ArithmeticError):
        return None


def _divide(left: Any, right: Any) -> float | None:
    if isinstance(left, decimal.Decimal) or isinstance(right, decimal.Decimal):
        raise unsupported("the division of decimals")
    return None if right == 0 else left / right


def _remainder(left: Any, right: Any) -> Any:
    return None if right == 0 else left - right * _truncated(left, right)


def _truncated(left: Any, right: Any) -> Any:
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _comparable(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        if isinstance(left, str) != isinstance(right, str):
            raise unsupported("a comparison of text with something else")
        return compare(left, right)

    return compared


def _numeric(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def computed(left: Any, right: Any) -> Any:
        numbers = (int, float, decimal.Decimal)
        if (
            isinstance(left, bool)
            or isinstance(right, bool)
            or not (isinstance(left, numbers) and isinstance(right, numbers))
        ):
            raise unsupported(f"arithmetic with a {type(left).__name__} and a {type(right).__name__}")
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
        return compute(left, right)

    return computed


_RULES: dict[type[exp.Expr], Callable[[exp.Expr, Row], Any]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, row: bool(node.this),
    exp.Null: lambda node, row: None,
    exp.Paren: lambda node, row: _value(node.this, row),
    exp.And: _and,
    exp.Or: _or,
    exp.Is: _is,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Between: _between,
    exp.In: _in,
    exp.Round: _round,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.TimestampAdd: _timestamp_add,
    exp.Array: lambda node, row: [_value(part, row) for part in node.expressions],
}
# NULL as soon as one operand is NULL.
_STRICT: dict[type[exp.Expr], Callable[..., Any]] = {
    exp.Not: lambda value: not value,
    exp.Neg: lambda value: -value,
    exp.Upper: lambda value: value.upper(),
    exp.Lower: lambda value: value.lower(),
    exp.Abs: abs,
    exp.EQ: _comparable(lambda left, right: bool(left == right)),
    exp.NEQ: _comparable(lambda left, right: bool(left != right)),
    exp.GT: _comparable(lambda left, right: bool(left > right)),
    exp.GTE: _comparable(lambda left, right: bool(left >= right)),
    exp.LT: _comparable(lambda left, right: bool(left < right)),
    exp.LTE: _comparable(lambda left, right: bool(left <= right)),
    exp.Add: _numeric(lambda left, right: left + right),
    exp.Sub: _numeric(lambda left, right: left - right),
    exp.Mul: _numeric(lambda left, right: left * right),
    exp.Div: _numeric(_divide),
    exp.Mod: _numeric(_remainder),
    exp.IntDiv: _numeric(_truncated),
}
_CASTS: dict[str, Callable[[Any], Any]] = {
    "TIMESTAMPTZ": dt.datetime.fromisoformat,
    "TINYINT": lambda value: int(decimal.Decimal(value)),
    "INT": lambda value: int(decimal.Decimal(value)),
    "BIGINT": lambda value: int(decimal.Decimal(value)),
    "DOUBLE": float,
    "TEXT": lambda value: str(value).lower() if isinstance(value, bool) else str(value),
}
