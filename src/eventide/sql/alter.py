"""ALTER ... SET: the statement that made something, with other options. What results is a plain CREATE statement."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot.tokenizer_core import TokenType

from eventide.sql.cursor import Cursor
from eventide.sql.dialect import tokenize
from eventide.sql.options import Options, read_options
from eventide.sql.tail import parse_tail_places
from eventide.sql.tokens import Edit, Span, is_close, is_open

LATENESS, LAG = "allowed_lateness", "watermark.lag"


def altered(create: str, changes: Options) -> str:
    """A CREATE STREAM or CREATE SOURCE with these options in place of those that it has of the same names."""
    options = {name: given.value for name, given in changes.given.items()}
    span = Span(create, tuple(tokenize(create)))
    cursor = Cursor(span)
    kind = _skip_name(cursor)
    if kind == "SOURCE" and cursor.at(TokenType.L_PAREN):
        cursor.parenthesized("columns")
    before = span.tokens[cursor.position - 1].end + 1
    given = read_options(cursor).given
    left = dict(options)
    edits = [
        Edit(given[name].value_token.start, given[name].value_token.end + 1, _text(left.pop(name)))
        for name in options
        if name in given
    ]
    edits += _clauses(span, kind, left)
    if left:
        added = ", ".join(f"{_text(name)} = {_text(value)}" for name, value in left.items())
        if given:
            end = span.tokens[cursor.position - 1].start  # the closing parenthesis
            edits.append(Edit(end, end, f", {added}"))
        else:
            edits.append(Edit(before, before, f" WITH ({added})"))
    return _edited(create, edits)


def _skip_name(cursor: Cursor) -> str:
    cursor.expect("CREATE")
    cursor.accept("OR", "REPLACE")
    kind = "SOURCE" if cursor.accept("SOURCE") else "STREAM"
    if kind == "STREAM":
        cursor.expect("STREAM")
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.name("a name")
    return kind


def _clauses(span: Span, kind: str, left: dict[str, str]) -> Iterable[Edit]:
    """What a clause says as well is taken out, or said there: nothing may be said twice."""
    if kind == "STREAM" and LATENESS in left:
        place = parse_tail_places(span).get("lateness")
        if place is not None:
            yield Edit(place.start, place.end, f"ALLOW LATENESS INTERVAL {_text(left.pop(LATENESS))}")
    if kind == "SOURCE" and LAG in left:
        found = _watermark_clause(span)
        if found is not None:
            place, column = found
            yield Edit(place.start, place.end, f"WATERMARK FOR {column} AS {column} - INTERVAL {_text(left.pop(LAG))}")


def _watermark_clause(span: Span) -> tuple[Span, str] | None:
    """WATERMARK FOR of a source, and the column that it is for."""
    depth = 0
    for first, token in enumerate(span.tokens):
        depth += is_open(token) - is_close(token)
        cursor = Cursor(span)
        cursor.position = first
        if depth == 1 and cursor.accept("WATERMARK", "FOR"):
            column = cursor.until(lambda at: at.at_words("AS"), "a column")
            cursor.until(lambda at: at.at(TokenType.COMMA), "an expression")
            return span.part(first, cursor.position), column.text
    return None


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _edited(text: str, edits: Iterable[Edit]) -> str:
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
