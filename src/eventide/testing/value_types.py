"""The Arrow types that Spark's analysis would find, for the expressions that the reference model understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import expressions as exp

from eventide.plan.logical import Explode, Lookup, Project
from eventide.plan.physical import Input, PackedAggregate, Physical
from eventide.tasks.scalars import parsed
from eventide.testing.expressions import unsupported
from eventide.testing.values import arrow_type

Types = Mapping[str, pa.DataType]  # by lower-case name

_WIDTHS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
_CASTS = {"TINYINT": pa.int8(), "INT": pa.int32(), "BIGINT": pa.int64(), "DOUBLE": pa.float64(), "TEXT": pa.string()}
_TRUTHS = (
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Boolean,
)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod)


def packed_types(physical: Physical, side: int = 0) -> dict[str, pa.DataType]:
    """The types of one side's packed columns, by their names: those of its inputs, widened to common ones."""
    inputs = [input for input in physical.inputs if input.side == side]
    kinds = [[typed(parsed(named.sql), _row_types(input)) for named in input.packed] for input in inputs]
    names = [named.name for named in inputs[0].packed]
    return {name: common(found) for name, *found in zip(names, *kinds, strict=True)}


def result_type(call: PackedAggregate, types: Types) -> pa.DataType:
    """The result type of an aggregate call in Spark."""
    if call.function == "count":
        return pa.int64()
    kind = types[call.inputs[0]]
    if call.function in ("sum", "avg"):
        more = 10 if call.function == "sum" else 4
        if pa.types.is_decimal(kind):
            return pa.decimal128(min(38, kind.precision + more), kind.scale + (0 if call.function == "sum" else more))
        return pa.int64() if call.function == "sum" and pa.types.is_integer(kind) else pa.float64()
    return kind


def common(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """A type that can hold values of all of these."""
    if len(set(kinds)) == 1:
        return kinds[0]
    if not all(kind in _WIDTHS for kind in kinds):
        raise unsupported(f"a common type of {', '.join(map(str, kinds))}")
    return max(kinds, key=_WIDTHS.index)


def typed(node: exp.Expr, types: Types) -> pa.DataType:
    match node:
        case exp.Column():
            return types[node.name.lower()]
        case exp.Literal():
            return pa.string() if node.args["is_string"] else pa.int32() if node.name.isdigit() else pa.float64()
        case exp.Cast() | exp.TryCast() if node.args["to"].this.name in _CASTS:
            return _CASTS[node.args["to"].this.name]
        case exp.Upper() | exp.Lower():
            return pa.string()
        case exp.TimestampAdd():
            return pa.timestamp("us", tz="UTC")
        case exp.Div():
            return pa.float64()
        case exp.Paren() | exp.Neg() | exp.Abs() | exp.Round():
            return typed(node.this, types)
        case exp.Coalesce():
            return common([typed(part, types) for part in (node.this, *node.expressions)])
        case exp.Array():
            return pa.list_(common([typed(part, types) for part in node.expressions]))
        case exp.Case():
            chosen = [branch.args["true"] for branch in node.args["ifs"]] + [node.args.get("default")]
            return common(
                [typed(part, types) for part in chosen if part is not None and not isinstance(part, exp.Null)]
            )
    if isinstance(node, _TRUTHS):
        return pa.bool_()
    if isinstance(node, _ARITHMETIC):
        return common([typed(node.this, types), typed(node.expression, types)])
    raise unsupported(f"the type of {node.sql(dialect='spark')}")


def _row_types(input: Input) -> dict[str, pa.DataType]:
    """The types of an input's columns behind its steps."""
    types = {column.name.lower(): arrow_type(column.type) for column in input.source.columns}
    for step in input.steps:
        if isinstance(step, Project):
            types = {column.name.lower(): typed(parsed(column.sql), types) for column in step.columns}
        elif isinstance(step, Explode):
            types |= dict(zip((name.lower() for name in step.names), _element_types(step, types), strict=True))
        elif isinstance(step, Lookup):
            columns = zip(step.names, step.table.columns, strict=True)
            types |= {name.lower(): arrow_type(column.type) for name, column in columns}
    return types


def _element_types(step: Explode, types: Types) -> list[pa.DataType]:
    kind = typed(parsed(step.sql), types)
    elements = [kind.key_type, kind.item_type] if pa.types.is_map(kind) else [kind.value_type]
    return [pa.int32(), *elements] if step.position else elements
