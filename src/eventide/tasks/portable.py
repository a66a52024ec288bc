"""From Spark SQL text to expressions that can be evaluated outside Spark with the same result, or why that is
impossible.

Only what certainly means the same is let through: where Spark would convert types, we must know exactly how.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import reduce

from sqlglot import expressions as exp
from sqlglot.errors import ParseError

from eventide.tasks.date_format import PATTERNS
from eventide.tasks.expressions import TYPES, WHOLE, Call, Column, Constant, Expression, Field, decimal_of
from eventide.tasks.portable_texts import TEXT_RULES
from eventide.tasks.scalars import parsed
from eventide.tasks.struct_types import fields_of
from eventide.tasks.time_fields import FIELDS

Names = Mapping[str, Expression]  # what columns stand for, by lower-case name

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
_TIME_FIELDS: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Day: "day",
    exp.DayOfMonth: "day",
    exp.DayOfYear: "dayofyear",
    exp.DayOfWeek: "dayofweek",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
}
_DECIMAL_OF = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}  # digits of the decimal that an integer becomes
_MOST_DIGITS = 38  # beyond, Spark gives up digits behind the point


class NotPortableError(Exception):
    """Says what part of an expression only Spark can evaluate."""


def portable(sql: str, names: Names, *, decimals: bool = False) -> Expression:
    """The expression; raises `NotPortableError` if Spark should evaluate it, as one that gives `decimals` unless they
    are wanted.
    """
    try:
        tree = parsed(sql)
    except ParseError:
        raise NotPortableError(sql) from None
    found = _compiled(tree, names)
    if found.type not in TYPES and not (decimals and _is_decimal(found)):
        raise NotPortableError(sql)
    return found


def never_raises(sql: str, names: Names) -> bool:
    """Whether no row makes the expression raise: so it is with columns, and with all that can be evaluated here."""
    try:
        if not isinstance(parsed(sql), exp.Column):
            portable(sql, names)
    except (NotPortableError, ParseError):
        return False
    return True


def source_names(columns: Mapping[str, str]) -> dict[str, Expression]:
    """The columns of a source, by name and type, as expressions."""
    return {name.lower(): Column(name, type) for name, type in columns.items()}


def _compiled(node: exp.Expr, names: Names) -> Expression:
    rule = _RULES.get(type(node))
    if rule is None:
        raise _refused(node)
    return rule(node, names)


def _refused(node: exp.Expr) -> NotPortableError:
    return NotPortableError(node.sql(dialect="spark"))


def _inputs(node: exp.Expr, names: Names) -> tuple[Expression, Expression]:
    return _compiled(node.this, names), _compiled(node.expression, names)


def _column(node: exp.Expr, names: Names) -> Expression:
    """A column, or a field of a struct in one."""
    first, *fields = (part.name for part in node.parts)  # type: ignore[attr-defined]
    found = names.get(first.lower())
    for field in fields:
        found = None if found is None else _field(found, field)
    if found is None or fields_of(found.type):
        raise _refused(node)
    return found


def _field(struct: Expression, name: str) -> Expression | None:
    called = [(field, type) for field, type in fields_of(struct.type) if field.lower() == name.lower()]
    if len(called) != 1 or not isinstance(struct, Column | Field):
        return None
    return Field(struct, *called[0])


def _literal(node: exp.Expr, names: Names) -> Expression:
    if node.args["is_string"]:
        return Constant(node.name, "string")
    text = node.name.lower()
    if text.isdigit():
        number = int(text)
        if number >= 1 << 63:
            raise _refused(node)
        return Constant(number, "int" if number < 1 << 31 else "bigint")
    if "e" in text:
        return Constant(float(text), "double")
    decimal = Decimal(text).as_tuple()
    scale = -int(decimal.exponent)
    digits = max(len(decimal.digits), scale)
    if digits > _MOST_DIGITS:
        raise _refused(node)
    return Constant(Decimal(text), f"decimal({digits},{scale})")


def _is_decimal(expression: Expression) -> bool:
    return decimal_of(expression.type) is not None


def _agreed(node: exp.Expr, *inputs: Expression) -> tuple[Expression, ...]:
    """The inputs, converted to the common type in which Spark compares or combines them."""
    kinds = {each.type for each in inputs}
    if len(kinds) == 1:
        return inputs
    constants = {each.type for each in inputs if _is_decimal(each) and isinstance(each, Constant)}
    if "double" in kinds and kinds <= {"double", *constants, *WHOLE}:
        return tuple(_as(each, "double") for each in inputs)
    if kinds <= set(WHOLE):
        widest = max(kinds, key=WHOLE.index)
        return tuple(_as(each, widest) for each in inputs)
    raise _refused(node)


def _as(expression: Expression, type: str) -> Expression:
    if expression.type == type:
        return expression
    if isinstance(expression, Constant):
        return Constant(float(expression.value) if type == "double" else expression.value, type)
    return Call("cast", (expression,), type)


def _comparable(node: exp.Expr, *inputs: Expression) -> tuple[Expression, ...]:
    """Decimals are compared digit by digit, as long as Spark has room for all digits of both."""
    if not any(map(_is_decimal, inputs)) or "double" in {each.type for each in inputs}:
        return _agreed(node, *inputs)
    decimals = tuple(_as_decimal(node, _with_its_digits(each)) for each in inputs)
    sizes = [decimal_of(each.type) or (0, 0) for each in decimals]
    if max(digits - scale for digits, scale in sizes) + max(scale for _, scale in sizes) > _MOST_DIGITS:
        raise _refused(node)
    return decimals


def _with_its_digits(value: Expression) -> Expression:
    """A whole number that is the same for all rows, as a decimal."""
    if not isinstance(value, Constant) or value.type not in WHOLE:
        return value
    return Constant(Decimal(value.value), f"decimal({len(str(abs(value.value)))},0)")


def _comparison(node: exp.Expr, names: Names) -> Expression:
    return Call(_COMPARISONS[type(node)], _comparable(node, *_inputs(node, names)), "boolean")


def _arithmetic(node: exp.Expr, names: Names) -> Expression:
    both = _inputs(node, names)
    if any(map(_is_decimal, both)) and "double" not in {each.type for each in both}:
        return _decimal_arithmetic(node, *both)
    inputs = _agreed(node, *both)
    kind = inputs[0].type
    if kind not in (*WHOLE, "double") or (kind == "double" and isinstance(node, exp.Mod)):
        raise _refused(node)
    return Call(_ARITHMETIC[type(node)], inputs, kind)


def _decimal_arithmetic(node: exp.Expr, one: Expression, other: Expression) -> Expression:
    """With as many digits as Spark gives the result, where it may have them all: then none overflows."""
    inputs = _as_decimal(node, one), _as_decimal(node, other)
    (digits, scale), (more_digits, other_scale) = (decimal_of(each.type) or (0, 0) for each in inputs)
    if isinstance(node, exp.Mul):
        found = digits + more_digits + 1, scale + other_scale
    elif isinstance(node, exp.Add | exp.Sub):
        wider = max(scale, other_scale)
        found = max(digits - scale, more_digits - other_scale) + wider + 1, wider
    else:
        raise _refused(node)
    if found[0] > _MOST_DIGITS:
        raise _refused(node)
    return Call(f"decimal {_ARITHMETIC[type(node)]}", inputs, f"decimal({found[0]},{found[1]})")


def _as_decimal(node: exp.Expr, value: Expression) -> Expression:
    if _is_decimal(value):
        return value
    if isinstance(value, Constant) or value.type not in WHOLE:
        raise _refused(node)  # a constant has as many digits as it needs
    return Call("cast", (value,), f"decimal({_DECIMAL_OF[value.type]},0)")


def _division(node: exp.Expr, names: Names) -> Expression:
    inputs = _inputs(node, names)
    if not {each.type for each in inputs} <= {"double", *WHOLE}:
        raise _refused(node)
    return Call("/", tuple(_as(each, "double") for each in inputs), "double")


def _logic(function: str) -> Callable[[exp.Expr, Names], Expression]:
    def compiled(node: exp.Expr, names: Names) -> Expression:
        parts = (node.this, node.expression) if function != "not" else (node.this,)
        inputs = tuple(_compiled(part, names) for part in parts)
        if any(each.type != "boolean" for each in inputs):
            raise _refused(node)
        return Call(function, inputs, "boolean")

    return compiled


def _is(node: exp.Expr, names: Names) -> Expression:
    value = _compiled(node.this, names)
    if isinstance(node.expression, exp.Null):
        return Call("is null", (value,), "boolean")
    raise _refused(node)


def _between(node: exp.Expr, names: Names) -> Expression:
    value, low, high = (_compiled(node.args[part], names) for part in ("this", "low", "high"))
    if node.args.get("symmetric"):
        raise _refused(node)
    return Call(
        "and",
        (Call(">=", _comparable(node, value, low), "boolean"), Call("<=", _comparable(node, value, high), "boolean")),
        "boolean",
    )


def _one_of(node: exp.Expr, names: Names) -> Expression:
    if not node.expressions or node.args.get("query") is not None:
        raise _refused(node)
    inputs = _agreed(node, *[_compiled(part, names) for part in (node.this, *node.expressions)])
    return Call("in", inputs, "boolean")


def _negative(node: exp.Expr, names: Names) -> Expression:
    value = _compiled(node.this, names)
    if isinstance(value, Constant) and (value.type in ("int", "bigint") or _is_decimal(value)):
        return Constant(-value.value, value.type)
    if value.type not in (*WHOLE, "double"):
        raise _refused(node)
    return Call("negative", (value,), value.type)


def _absolute(node: exp.Expr, names: Names) -> Expression:
    value = _compiled(node.this, names)
    if value.type not in (*WHOLE, "double"):
        raise _refused(node)
    return Call("abs", (value,), value.type)


def _cast(node: exp.Expr, names: Names) -> Expression:
    value, wanted = _compiled(node.this, names), node.args["to"].sql(dialect="spark").lower()
    if value.type == wanted:
        return value
    is_number = value.type in WHOLE and wanted in (*WHOLE, "double", "string")
    if not is_number or node.args.get("format") is not None:
        raise _refused(node)
    return _as(value, wanted) if not isinstance(value, Constant) else Call("cast", (value,), wanted)


def _case(node: exp.Expr, names: Names) -> Expression:
    conditions = [_compiled(part.this, names) for part in node.args["ifs"]]
    subject = node.args.get("this")
    if subject is not None:
        value = _compiled(subject, names)
        conditions = [Call("=", _comparable(node, value, each), "boolean") for each in conditions]
    values = [part.args["true"] for part in node.args["ifs"]]
    return _chosen(node, conditions, values, node.args.get("default"), names)


def _if(node: exp.Expr, names: Names) -> Expression:
    return _chosen(node, [_compiled(node.this, names)], [node.args["true"]], node.args.get("false"), names)


def _chosen(
    node: exp.Expr, conditions: list[Expression], values: list[exp.Expr], default: exp.Expr | None, names: Names
) -> Expression:
    """Without a default it is NULL."""
    given = [*values, exp.Null() if default is None else default]
    said = [_compiled(each, names) for each in given if not isinstance(each, exp.Null)]
    if not said or any(condition.type != "boolean" for condition in conditions):
        raise _refused(node)
    agreed = _agreed(node, *said)
    type, known = agreed[0].type, iter(agreed)
    if type not in TYPES:
        raise _refused(node)
    *outcomes, otherwise = [Constant(None, type) if isinstance(each, exp.Null) else next(known) for each in given]
    parts = [part for pair in zip(conditions, outcomes, strict=True) for part in pair]
    return Call("case", (*parts, otherwise), type)


def _null_if(node: exp.Expr, names: Names) -> Expression:
    value, other = _inputs(node, names)
    if value.type not in TYPES:
        raise _refused(node)
    is_equal = Call("=", _comparable(node, value, other), "boolean")
    return Call("case", (is_equal, Constant(None, value.type), value), value.type)


def _coalesce(node: exp.Expr, names: Names) -> Expression:
    inputs = _agreed(node, *[_compiled(part, names) for part in (node.this, *node.expressions)])
    return Call("coalesce", inputs, inputs[0].type)


def _of_texts(node: exp.Expr, names: Names) -> Expression:
    given = {part: _compiled(value, names) for part, value in node.args.items() if isinstance(value, exp.Expr)}
    found = TEXT_RULES[type(node)](node, given)
    if found is None:
        raise _refused(node)
    return found


def _concat(node: exp.Expr, names: Names) -> Expression:
    inputs = tuple(_compiled(part, names) for part in node.expressions)
    if not inputs or any(each.type != "string" for each in inputs):
        raise _refused(node)
    return Call("concat", inputs, "string")


def _pipes(node: exp.Expr, names: Names) -> Expression:
    inputs = _inputs(node, names)
    if any(each.type != "string" for each in inputs):
        raise _refused(node)
    return Call("concat", inputs, "string")


def _time_field(node: exp.Expr, names: Names) -> Expression:
    """Of years and days sqlglot says that they are those of a date, which Spark makes of a time as well."""
    value = node.this.this if isinstance(node.this, exp.TsOrDsToDate) and len(node.this.args) == 1 else node.this
    return _field_of(node, _TIME_FIELDS[type(node)], _compiled(value, names))


def _extract(node: exp.Expr, names: Names) -> Expression:
    """Seconds have decimals here, and are left to Spark."""
    name = node.name.lower()
    if name == "second":
        raise _refused(node)
    return _field_of(node, name, _compiled(node.expression, names))


def _field_of(node: exp.Expr, name: str, time: Expression) -> Expression:
    if time.type != "timestamp" or name not in FIELDS:
        raise _refused(node)
    return Call(name, (time,), "int")


def _date_format(node: exp.Expr, names: Names) -> Expression:
    if node.name.lower() != "date_format" or len(node.expressions) != 2:
        raise _refused(node)
    time, pattern = (_compiled(part, names) for part in node.expressions)
    if time.type != "timestamp" or not isinstance(pattern, Constant) or pattern.value not in PATTERNS:
        raise _refused(node)
    return Call("date_format", (time, pattern), "string")


_RULES: dict[type[exp.Expr], Callable[[exp.Expr, Names], Expression]] = {
    exp.Column: _column,
    exp.Identifier: _column,
    exp.Literal: _literal,
    exp.RawString: lambda node, names: Constant(node.name, "string"),
    exp.Boolean: lambda node, names: Constant(bool(node.this), "boolean"),
    exp.Paren: lambda node, names: _compiled(node.this, names),
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(TEXT_RULES, _of_texts),
    **dict.fromkeys(_TIME_FIELDS, _time_field),
    exp.Div: _division,
    exp.And: _logic("and"),
    exp.Or: _logic("or"),
    exp.Not: _logic("not"),
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _one_of,
    exp.Neg: _negative,
    exp.Abs: _absolute,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _null_if,
    exp.Concat: _concat,
    exp.DPipe: _pipes,
    exp.Extract: _extract,
    exp.Anonymous: _date_format,
}


def conjunction(conditions: list[Expression]) -> Expression | None:
    """All conditions combined into one; None if there are none."""
    return reduce(lambda a, b: Call("and", (a, b), "boolean"), conditions) if conditions else None
