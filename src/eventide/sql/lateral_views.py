"""One row into several: LATERAL VIEW explode(expression) AS name, and explode(expression) in a select list."""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokenizer_core import TokenType

from eventide.plan.logical import Explode
from eventide.sql.aggregate_calls import refuse_aggregates
from eventide.sql.cursor import Cursor
from eventide.sql.scope import GENERATORS, Scope, ScopeColumn, columns_of, refuse_quoted_columns, rewrite
from eventide.sql.syntax import LateralView, SelectItem, SubqueryRef, TableRef
from eventide.sql.tokens import calls
from eventide.sql.type_names import element_types

HELP = "write LATERAL VIEW explode(array) AS name; for its number, too, posexplode(array) AS number, name"
_FUNCTIONS = ("explode", "posexplode")
_OUTER = "_outer"
_DEFAULT_NAME = "col"  # as Spark calls it
_MADE = "exploded_"  # in front of the name of a column that a select list explodes: it may be called as the array is


def parse_lateral_views(cursor: Cursor) -> tuple[LateralView, ...]:
    """LATERAL VIEW [OUTER] explode(expression) [alias] AS name, ..., as many as come."""
    views = []
    while cursor.accept("LATERAL", "VIEW"):
        outer = cursor.accept("OUTER")
        first = cursor.position
        function = cursor.name("explode or posexplode")[0].lower()
        argument = cursor.parenthesized("what to explode")
        span = cursor.span.part(first, cursor.position)
        if function.removesuffix(_OUTER) not in _FUNCTIONS or argument is None:
            raise span.error(f"LATERAL VIEW takes no {function}", HELP)
        if not cursor.at_words("AS"):
            cursor.name("AS and the names of the columns")  # of the view, which nobody needs
        cursor.expect("AS", help=HELP)
        names = [cursor.name("the name of a column")[0]]
        while cursor.accept_symbol(TokenType.COMMA):
            names.append(cursor.name("the name of a column")[0])
        outer = outer or function.endswith(_OUTER)
        views.append(LateralView(argument, tuple(names), outer, function.startswith("pos"), span))
    return tuple(views)


def moved_to_from(
    items: tuple[SelectItem, ...], source: TableRef | SubqueryRef
) -> tuple[tuple[SelectItem, ...], TableRef | SubqueryRef]:
    """What a select list explodes becomes a lateral view, and the item the column that it gives."""
    moved = []
    for item in items:
        found = [] if item.star else [call for call in calls(item.expression) if call.name in GENERATORS]
        if not found:
            moved.append(item)
            continue
        call = found[0]
        whole = len(call.span.tokens) == len(item.expression.tokens)
        if call.name.removesuffix(_OUTER) != "explode" or not whole or call.arguments is None:
            raise call.span.error(f"{call.name} cannot be used here", HELP)
        if any(known.generated for known in moved):
            raise call.span.error("a select list explodes one thing", "write the others as LATERAL VIEW")
        name = item.alias or _DEFAULT_NAME
        made = f"{_MADE}{name}"
        view = LateralView(call.arguments, (made,), call.name.endswith(_OUTER), False, call.span, hidden=True)
        source = replace(source, steps=(*source.steps, view))
        moved.append(replace(item, alias=name, generated=made))
    return tuple(moved), source


def with_view(scope: Scope, view: LateralView) -> Scope:
    """One row for every element, with the columns that hold it."""
    refuse_aggregates(view.argument, "what is exploded", "explode an array of the input")
    refuse_quoted_columns(scope, view.argument)
    sql = rewrite(view.argument, columns_of(scope))
    for name in view.names:
        if name.startswith("__"):
            raise view.span.error(f"the column name {name} is reserved", "choose one that does not begin with __")
        if scope.find(name) is not None:
            raise view.span.error(f"there is already a column {name}", "choose another name after AS")
    known = next((column.type for column in scope.columns if column.name == sql), "")
    types = element_types(known, view.position)
    if known and len(types) != len(view.names):
        what = f"this gives {len(types)} columns, and {len(view.names)} are named" if types else f"{sql} is a {known}"
        raise view.span.error(what, HELP)
    columns = [
        ScopeColumn(name, types[number] if types else "", is_exploded=view.hidden)
        for number, name in enumerate(view.names)
    ]
    exploded = Explode(scope.relation, sql, view.names, view.outer, view.position)
    return replace(scope, relation=exploded, columns=(*scope.columns, *columns))
