"""Where one clause of a query ends and the next begins, and the WATERMARK clause that several places share."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from eventide.sql.cursor import CLAUSE_WORDS, Cursor
from eventide.sql.syntax import Watermark
from eventide.sql.tokens import ends_operand, split_commas, word

# Words that begin something new when they stand where an expression has just ended.
TAIL_WORDS = frozenset({"EMIT", "ALLOW", "ALLOWED", "LATE", "WATERMARK", "WINDOW"})


def at_clause(cursor: Cursor) -> bool:
    """Whether a clause or the stream's tail begins at the cursor, which stands outside parentheses."""
    token = cursor.peek()
    if token is None:
        return True
    before = cursor.peek(-1) if cursor.position else None
    if word(token) == "FROM" and before is not None and word(before) == "DISTINCT":
        return False  # IS [NOT] DISTINCT FROM
    if word(token) in CLAUSE_WORDS:
        return not _is_star_except(cursor)
    return word(token) in TAIL_WORDS and before is not None and ends_operand(before)


def _is_star_except(cursor: Cursor) -> bool:
    before = cursor.peek(-1)
    return cursor.at_words("EXCEPT") and before is not None and before.token_type == TokenType.STAR


def parse_watermark(cursor: Cursor) -> Watermark:
    """WATERMARK ts DELAY OF INTERVAL 10 SECONDS, or WATERMARK(ts, INTERVAL '10' SECOND)."""
    first = cursor.position
    cursor.expect("WATERMARK")
    help = "write WATERMARK ts DELAY OF INTERVAL 10 SECONDS, or WATERMARK(ts, INTERVAL '10' SECOND)"
    if cursor.at(TokenType.L_PAREN):
        parts = split_commas(cursor.parenthesized("a column and an interval"))
        if len(parts) != 2:
            raise cursor.span.part(first, cursor.position).error("WATERMARK takes a column and an interval", help)
        inner = Cursor(parts[1])
        lag = inner.duration("an interval")
        inner.end()
        return Watermark(parts[0], lag, cursor.span.part(first, cursor.position))
    column = cursor.until(lambda at: at.at_words("DELAY"), "a column")
    cursor.expect("DELAY", "OF", help=help)
    lag = cursor.duration("an interval")
    return Watermark(column, lag, cursor.span.part(first, cursor.position))
