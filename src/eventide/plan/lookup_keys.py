"""The columns of a table by which a lookup finds its rows."""

from __future__ import annotations

import sqlglot
from sqlglot import expressions as exp

from eventide.plan.logical import Lookup


def lookup_keys(step: Lookup) -> tuple[str, ...]:
    """The table's columns, as they are declared, that must equal something of the row; none where it is compared
    otherwise.
    """
    declared = {name.lower(): column.name for name, column in zip(step.names, step.table.columns, strict=True)}
    found: dict[str, None] = {}
    for part in conjuncts(sqlglot.parse_one(step.condition, dialect="spark")):
        if isinstance(part, exp.EQ | exp.NullSafeEQ):
            for one, other in ((part.left, part.right), (part.right, part.left)):
                names = {column.name.lower() for column in other.find_all(exp.Column)}
                if isinstance(one, exp.Column) and one.name.lower() in declared and not names & declared.keys():
                    found[declared[one.name.lower()]] = None
    return tuple(found)


def conjuncts(tree: exp.Expr) -> list[exp.Expr]:
    """The conditions that must all hold."""
    if isinstance(tree, exp.Paren):
        return conjuncts(tree.this)
    return [*conjuncts(tree.left), *conjuncts(tree.right)] if isinstance(tree, exp.And) else [tree]
