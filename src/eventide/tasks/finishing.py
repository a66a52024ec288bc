"""Whether the select list and HAVING can be computed where the kernel runs, and how."""

from __future__ import annotations

from collections.abc import Mapping

from eventide.tasks.expressions import Column, Expression, columns_of
from eventide.tasks.portable import NotPortableError, portable
from eventide.tasks.select_list import WINDOW_ID, Finish, WindowIds


def finish(
    outputs: Mapping[str, str], having: str | None, columns: Mapping[str, str], plan_id: str, rank: str | None
) -> Finish | None:
    """How `outputs` are computed from a kernel's `columns` by name and type; None if Spark must evaluate one of
    them.
    """
    try:
        made = tuple((name, _expression(sql, columns)) for name, sql in outputs.items())
        condition = (
            None
            if having is None
            else portable(having, {name.lower(): Column(name, type) for name, type in columns.items()})
        )
    except NotPortableError:
        return None
    used = set().union(
        *(columns_of(expression) for _, expression in made), set() if condition is None else columns_of(condition)
    )
    return Finish(made, condition, WindowIds(plan_id) if WINDOW_ID in used else None, rank)


def _expression(sql: str, columns: Mapping[str, str]) -> Expression:
    """A column of any type as it is, or an expression over those that can be computed here."""
    plain = sql.removeprefix("`").removesuffix("`")
    if plain in columns:
        return Column(plain, columns[plain])
    return portable(sql, {name.lower(): Column(name, type) for name, type in columns.items()})
