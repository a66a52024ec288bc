"""What stands in the parentheses of OVER for a place: PARTITION BY and ORDER BY, as written."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from eventide.plan.modes import RankFunction
from eventide.sql.cursor import Cursor
from eventide.sql.tokens import Span, calls, closing, is_open, split_commas, word

HOW_TO_RANK = "write ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY total DESC) AS place"
_FUNCTIONS = {function.value: function for function in RankFunction}


@dataclass(frozen=True)
class OverClauses:
    """`span` is the whole of FUNCTION() OVER (...)."""

    function: RankFunction
    partition: tuple[Span, ...]
    order: tuple[Span, ...]
    span: Span


def find_over(span: Span) -> list[OverClauses]:
    """Every ROW_NUMBER(), RANK() and DENSE_RANK() with its OVER in an expression; errors for other functions."""
    found = []
    for index, token in enumerate(span.tokens):
        if word(token) != "OVER":
            continue
        call = next((each for each in calls(span) if each.after == index), None)
        name = "this" if call is None else call.name
        if call is None or name not in _FUNCTIONS:
            raise span.error(
                f"{name} with OVER is not supported",
                "ROW_NUMBER(), RANK() and DENSE_RANK() are, and aggregates; for rows around each row use "
                "slidingwindow('ss', 10)",
            )
        if call.arguments is not None:
            raise call.span.error(f"{name.upper()} takes no argument", HOW_TO_RANK)
        if index + 1 >= len(span.tokens) or not is_open(span.tokens[index + 1]):
            raise span.error("OVER needs what it is over, in parentheses", HOW_TO_RANK)
        last = closing(span, index + 1)
        inside = span.part(index + 2, last)
        if not inside.tokens:
            raise span.error("a place needs an order", HOW_TO_RANK)
        found.append(OverClauses(_FUNCTIONS[name], *_clauses(inside), span.part(call.index, last + 1)))
    return found


def _clauses(inside: Span) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    cursor = Cursor(inside)
    partition: list[Span] = []
    if cursor.accept("PARTITION BY"):
        partition = list(split_commas(cursor.until(lambda at: at.at_words("ORDER BY"), "columns")))
    if not cursor.accept("ORDER BY"):
        raise inside.error("a place needs an order", HOW_TO_RANK)
    order = list(split_commas(cursor.until(lambda at: at.at_words("ROWS") or at.at_words("RANGE"), "columns")))
    if cursor.peek() is not None:
        raise cursor.error("a place has no frame", "leave ROWS or RANGE out")
    return tuple(partition), tuple(order)


def without_direction(span: Span) -> Span:
    """An item of ORDER BY without ASC, DESC and NULLS FIRST."""
    return read_direction(span)[0]


def read_direction(span: Span) -> tuple[Span, bool, bool]:
    """What an item of ORDER BY is about, whether it is descending, and whether NULLs come first."""
    tokens, nulls_first = span.tokens, None
    if len(tokens) > 2 and word(tokens[-2]) == "NULLS" and word(tokens[-1]) in ("FIRST", "LAST"):
        nulls_first, span = word(tokens[-1]) == "FIRST", span.part(0, len(tokens) - 2)
    descending = word(span.tokens[-1]) == "DESC" or span.tokens[-1].token_type == TokenType.DESC
    if descending or word(span.tokens[-1]) == "ASC":
        span = span.part(0, len(span.tokens) - 1)
    return span, descending, (not descending) if nulls_first is None else nulls_first
