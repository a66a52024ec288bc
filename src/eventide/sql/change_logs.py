"""Queries over change logs: what cannot be computed from rows that may be taken back."""

from __future__ import annotations

from dataclasses import replace

from eventide.plan.change_logs import CHANGE, op_of, refusal_to_retract
from eventide.plan.logical import AggregateCall, Stream
from eventide.plan.stream_source import OP_COLUMN, ChangeLog
from eventide.plan.windows import Session, Slide, Unbounded, Window
from eventide.sql.aggregate_calls import FoundAggregate
from eventide.sql.scope import Scope, ScopeColumn, references, resolve
from eventide.sql.tokens import Span


def check_window_of_changes(window: Window, op: ScopeColumn, place: Span) -> None:
    """Refuse windows that would have to be taken apart, or that would have closed when a row is taken back."""
    if isinstance(window, Unbounded):
        return
    if op.changes is ChangeLog.AT_ANY_TIME:
        raise place.error(
            "rows of this change log can be taken back at any time, also when their window has closed",
            "group without a window, and EMIT CHANGES; or put the window where the rows come from",
        )
    if isinstance(window, Session | Slide):
        what = "session" if isinstance(window, Session) else "sliding window"
        raise place.error(
            f"a {what} depends on every one of its rows, and rows of a change log can be taken back",
            "use TUMBLE, HOP or CUMULATE, or read a stream that emits when its windows close",
        )


def refuse_op(span: Span, scope: Scope) -> None:
    """The op of rows that came in is not a value to compute with: it says that values are taken back."""
    for reference in references(span):
        found = resolve(scope, reference)
        if found is not None and found[0].changes is not None:
            raise reference.error(
                "rows with op -1 are taken back from every group and aggregate already", "leave op out"
            )


def refuse_what_cannot_retract(call: AggregateCall, found: FoundAggregate) -> None:
    help = refusal_to_retract(call.function)
    if help is not None:
        raise found.span.error(f"{call.function} cannot take rows back, and this reads a change log", help)


def refuse_other_op(stream: Stream, place: Span) -> None:
    """In a change log the name op is taken."""
    op = op_of(stream.query, stream.emit.mode)
    for output in stream.query.outputs:
        if op is not None and output.name.lower() == OP_COLUMN and output.sql.strip("()") != op:
            raise place.error(
                "op says of the rows of a change log whether they are taken back",
                f"give the column that is {output.sql} another name",
            )


def above_changes(scope: Scope) -> Scope:
    """What stands above a change log: op is that of what it tells, and not that of what it has read."""
    op = ScopeColumn(CHANGE, "int", is_hidden=scope.op is None or scope.op.is_hidden, label=OP_COLUMN)
    if scope.op is None:
        return scope if scope.find(OP_COLUMN) is not None else replace(scope, columns=(*scope.columns, op))
    return replace(scope, columns=tuple(op if column is scope.op else column for column in scope.columns))
