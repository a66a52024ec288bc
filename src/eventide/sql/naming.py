"""The name of an output column without an alias: what Spark would print for the expression."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from eventide.plan.names import quoted
from eventide.sql.dialect import parse_scalar, tokenize
from eventide.sql.scope import Reference, Scope, references, resolve
from eventide.sql.tokens import Span

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.NullSafeEQ: "<=>",
}


def output_name(span: Span, scope: Scope) -> str:
    """`sum(v)`, `(a + b)`, `count(1)`; the last part of a dotted name or path; otherwise the expression on one line."""

    def known(reference: Reference) -> tuple[str, int] | None:
        found = resolve(scope, reference)
        return None if found is None else (found[0].called, found[1])

    return name_of_expression(span, known)


def name_of_expression(span: Span, known: Callable[[Reference], tuple[str, int] | None]) -> str:
    """The same; `known` gives the name of the column that a reference means, and how many of its parts name it."""
    found = [(reference, known(reference)) for reference in references(span)]
    path = found[0][0].path if len(found) == 1 else None
    if path is not None and (found[0][0].places[0][0], path.end) == (span.start, span.end):
        return path.name
    sql = span.render([reference.upto(column[1], quoted(column[0])) for reference, column in found if column])
    tree = parse_scalar(tokenize(sql), sql)
    if isinstance(tree, exp.Column):
        return tree.name
    if isinstance(tree, exp.Dot):
        return str(tree.expression.name)
    return _name(tree) or span.render()


def _name(node: exp.Expr) -> str | None:
    """Spark's text of a node, or None where this does not know it."""
    if isinstance(node, exp.Column):
        return ".".join(part.name for part in node.parts)
    if isinstance(node, exp.Paren):
        return _name(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this)
    if isinstance(node, exp.Star):
        return "1"  # count(*) is count(1)
    if isinstance(node, exp.Anonymous):
        return _call(node)
    if isinstance(node, exp.Neg):
        operand = _name(node.this)
        return None if operand is None else f"(- {operand})"
    if type(node) in _BINARY:
        left, right = _name(node.this), _name(node.expression)
        return None if left is None or right is None else f"({left} {_BINARY[type(node)]} {right})"
    return None


def _call(node: exp.Anonymous) -> str | None:
    arguments = []
    for argument in node.expressions:
        distinct = isinstance(argument, exp.Distinct)
        names = [_name(part) for part in (argument.expressions if distinct else [argument])]
        if any(name is None for name in names):
            return None
        arguments.append(("DISTINCT " if distinct else "") + ", ".join(name for name in names if name is not None))
    return f"{node.name.lower()}({', '.join(arguments)})"
