"""The tail of a stream: EMIT, ALLOW LATENESS and LATE DATA TO, in any order, each at most once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eventide.errors import suggest
from eventide.plan.modes import EmitMode
from eventide.sql.create import object_name
from eventide.sql.cursor import Cursor
from eventide.sql.query import parse_query
from eventide.sql.syntax import EmitNode
from eventide.sql.tokens import Span

_MODES: dict[tuple[str, ...], EmitMode] = {
    ("ON", "WINDOW", "CLOSE"): EmitMode.ON_WINDOW_CLOSE,
    ("AFTER", "WINDOW", "CLOSE"): EmitMode.ON_WINDOW_CLOSE,
    ("ON", "UPDATE"): EmitMode.ON_UPDATE,
    ("ON", "WATERMARK"): EmitMode.ON_WATERMARK,
    ("EVERY",): EmitMode.EVERY,
    ("PERIODICALLY",): EmitMode.EVERY,
    ("CHANGES",): EmitMode.CHANGES,
    ("FINAL",): EmitMode.FINAL,
}
SPELLINGS = (
    "EMIT ON WINDOW CLOSE",
    "EMIT ON UPDATE",
    "EMIT ON WATERMARK",
    "EMIT EVERY INTERVAL '5' SECOND",
    "EMIT CHANGES",
    "EMIT FINAL",
)


def parse_tail_places(statement: Span) -> Mapping[str, Span]:
    """Where the clauses of the tail of a CREATE STREAM stand."""
    cursor = Cursor(statement)
    while not cursor.at_words("AS"):
        cursor.next()
    cursor.next()
    parse_query(cursor)
    return parse_tail(cursor).places


def parse_tail(cursor: Cursor) -> EmitNode:
    """All tail clauses up to the end of the statement."""
    node = EmitNode()
    while not cursor.done:
        first = cursor.position
        if cursor.accept("EMIT"):
            part = "mode"
            mode = _mode(cursor)
            every = (
                cursor.duration("an interval, as in EMIT EVERY INTERVAL '5' SECOND") if mode is EmitMode.EVERY else None
            )
            changed = replace(node, mode=mode, every=every)
        elif cursor.accept("ALLOW", "LATENESS") or cursor.accept("ALLOWED", "LATENESS"):
            part = "lateness"
            changed = replace(
                node, allowed_lateness=cursor.duration("an interval, as in ALLOW LATENESS INTERVAL '1' MINUTE")
            )
        elif cursor.accept("LATE", "DATA"):
            part = "late_to"
            cursor.expect("TO", help="write LATE DATA TO name")
            changed = replace(node, late_to=object_name(cursor, "late stream")[0])
        else:
            raise cursor.error(
                f"'{cursor.span.tokens[first].text}' is not expected here",
                "after the query come EMIT ..., ALLOW LATENESS INTERVAL ... and LATE DATA TO name",
            )
        node = _placed(node, changed, part, cursor.span.part(first, cursor.position))
    if node.every == 0:
        raise node.places["mode"].error("EMIT EVERY needs an interval above 0", "write EMIT EVERY INTERVAL '5' SECOND")
    return node


def _placed(before: EmitNode, after: EmitNode, part: str, span: Span) -> EmitNode:
    if part in before.places:
        raise span.error("this clause is given twice", "keep one of them")
    return replace(after, places={**before.places, part: span})


def _mode(cursor: Cursor) -> EmitMode:
    for words, mode in _MODES.items():
        if cursor.accept(*words):
            return mode
    token = cursor.peek()
    if token is None:
        raise cursor.error("EMIT needs a mode", f"write one of: {', '.join(SPELLINGS)}")
    raise cursor.error(f"unknown emit mode '{token.text}'", suggest(f"EMIT {token.text.upper()}", SPELLINGS))
