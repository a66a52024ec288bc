"""Which places a condition lets through: of rows that are ranked without a window only these are kept and told."""

from __future__ import annotations

import re
from dataclasses import dataclass

import sqlglot
from sqlglot import expressions as exp

from eventide.kernels.logic.rank import PLACE

__all__ = ["PLACE", "Places", "names_place", "places_of"]

_NAMES_PLACE = re.compile(rf"\b{PLACE}\b")


@dataclass(frozen=True)
class Places:
    """Places from `first` to `last`, both included, and what else must hold of a row."""

    first: int
    last: int
    rest: str | None


def names_place(sql: str) -> bool:
    return _NAMES_PLACE.search(sql) is not None


def places_of(where: str | None) -> Places | None:
    """The places that a condition lets through; None if it names no last one, or says of places something else."""
    if where is None:
        return None
    first, last = 1, None
    rest: list[str] = []
    for part in _conjuncts(sqlglot.parse_one(where, dialect="spark")):
        if not names_place(part.sql(dialect="spark")):
            rest.append(part.sql(dialect="spark"))
            continue
        bounds = _bounds(part)
        if bounds is None:
            return None
        low, high = bounds
        first = first if low is None else max(first, low)
        last = high if last is None else last if high is None else min(last, high)
    return None if last is None else Places(first, last, " AND ".join(f"({part})" for part in rest) or None)


def _conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        return [*_conjuncts(tree.this), *_conjuncts(tree.expression)]
    return [tree]


def _bounds(part: exp.Expr) -> tuple[int | None, int | None] | None:
    """(least, largest) of a comparison of the place with a whole number."""
    if isinstance(part, exp.Between) and _is_place(part.this):
        low, high = _number(part.args["low"]), _number(part.args["high"])
        return None if low is None or high is None else (low, high)
    if not isinstance(part, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return None
    one, other, is_turned = part.this, part.expression, _is_place(part.expression)
    number = _number(one if is_turned else other)
    if number is None or not _is_place(other if is_turned else one):
        return None
    match part:
        case exp.EQ():
            return number, number
        case exp.LT():
            return (number + 1, None) if is_turned else (None, number - 1)
        case exp.LTE():
            return (number, None) if is_turned else (None, number)
        case exp.GT():
            return (None, number - 1) if is_turned else (number + 1, None)
    return (None, number) if is_turned else (number, None)


def _is_place(node: exp.Expr) -> bool:
    node = node.unnest()
    return isinstance(node, exp.Column) and node.name == PLACE


def _number(node: exp.Expr) -> int | None:
    node = node.unnest()
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal() else None
