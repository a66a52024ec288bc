"""Which time counts: the event time that rows carry, or an expression of the query that overrides it."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from eventide.errors import SqlError
from eventide.plan.column_roles import SideTime
from eventide.plan.names import quoted
from eventide.plan.windows import Hop, Tumble
from eventide.sql.aggregate_calls import refuse_aggregates
from eventide.sql.cursor import Cursor
from eventide.sql.scope import (
    Scope,
    ScopeColumn,
    TimeOf,
    columns_of,
    references,
    refuse_quoted_columns,
    resolve,
    rewrite,
    single_reference,
    unknown_column,
)
from eventide.sql.tokens import Span, word
from eventide.sql.type_names import TIME_TYPES, read_type
from eventide.sql.window_functions import WindowCall


def time_of(call: WindowCall, scope: Scope) -> str | None:
    """The SQL that overrides the event time, or None if the window is over the event time itself."""
    if call.time is None:
        return carried_time(scope)
    refuse_aggregates(call.time, "a window's time", "use a column")
    refuse_quoted_columns(scope, call.time)
    reference = single_reference(call.time)
    if reference is None:
        return _computed_time(call.time, scope)
    found = resolve(scope, reference)
    if found is None:
        raise unknown_column(scope, reference)
    column, count = found
    if count < len(reference.parts):
        is_message_time = column.time_field is not None and reference.parts[count:] == (column.time_field,)
        return None if is_message_time else rewrite(call.time, columns_of(scope))
    if column.side_time is not None and not _is_together(call, column.side_time):
        raise call.time.error(
            f"{column.called} is the time of one input of the join, and a pair has the later of the two",
            "write rowtime, which is the time of a pair",
        )
    if column.side_time is not None:
        return None
    if column.is_event_time:
        return quoted(column.name) if scope.time_of is TimeOf.COLUMN else None
    if column.type not in TIME_TYPES and column.type != "":
        raise not_a_time(column, call.time)
    return quoted(column.name)


def _is_together(call: WindowCall, time: SideTime) -> bool:
    """Whether a side's time and that of the pair are always in the same windows."""
    pane, window = time.pane, call.window
    if pane is None or not isinstance(window, Tumble | Hop):
        return False
    step = window.slide if isinstance(window, Hop) else window.size
    return all(length % pane.size == 0 for length in (step, window.size, window.offset - pane.offset))


def carried_time(scope: Scope) -> str | None:
    """The event time that a WATERMARK clause named, if one did."""
    if scope.time_of is not TimeOf.COLUMN:
        return None
    return next((quoted(column.name) for column in scope.columns if column.is_event_time), None)


def _computed_time(span: Span, scope: Scope) -> str:
    if not references(span):
        raise span.error("a window's time is a column or an expression of columns", "write the event-time column")
    known = cast_type(span)
    if known and known not in TIME_TYPES:
        raise span.error(f"this is a {known}, not a time", "cast it to TIMESTAMP, or declare EVENT TIME in the source")
    return rewrite(span, columns_of(scope))


def not_a_time(column: ScopeColumn, span: Span) -> SqlError:
    help = (
        f"declare it in the source: EVENT TIME {quoted(column.name)} TYPE unixtimestamp_ms (or another type), "
        "or cast it to TIMESTAMP"
    )
    return span.error(f"{column.name} is a {column.type} and not the event time of its source", help)


def cast_type(span: Span) -> str:
    """The type of CAST(... AS type) and ...::type; "" for every other expression."""
    tree = span.tree()
    if not isinstance(tree, exp.Cast | exp.TryCast) or span.tokens[0].token_type == TokenType.NUMBER:
        return ""
    last = max(
        (i for i, token in enumerate(span.tokens) if word(token) == "AS" or token.token_type == TokenType.DCOLON),
        default=None,
    )
    if last is None:
        return ""
    try:
        return read_type(Cursor(span.part(last + 1, len(span.tokens))))
    except SqlError:
        return ""  # a type that no source can have, such as an interval
