"""Conditions taken apart: what AND connects, and what a comparison compares. All parts keep their places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from eventide.sql.tokens import Span, closing, is_close, is_open, word

_COMPARISONS = {
    TokenType.EQ: "=",
    TokenType.NULLSAFE_EQ: "<=>",
    TokenType.LT: "<",
    TokenType.LTE: "<=",
    TokenType.GT: ">",
    TokenType.GTE: ">=",
    TokenType.NEQ: "<>",
}
_OTHER_PREDICATES = frozenset("AND OR NOT IS IN LIKE ILIKE RLIKE REGEXP BETWEEN ESCAPE EXISTS !".split())
_SAME_OR_BOTH_NULL = ["IS", "NOT", "DISTINCT", "FROM"]


@dataclass(frozen=True, eq=False)
class Comparison:
    operator: str  # = <=> < <= > >=
    left: Span
    right: Span


@dataclass(frozen=True, eq=False)
class Between:
    value: Span
    low: Span
    high: Span


def conjuncts(span: Span) -> list[Span]:
    """The conditions that must all hold, without parentheses around them."""
    inner = unwrapped(span)
    ands = [index for index, token in _outside(inner) if word(token) == "AND"]
    betweens = [index for index, token in _outside(inner) if word(token) == "BETWEEN"]
    if any(word(token) == "OR" for _, token in _outside(inner)):
        return [inner]
    cuts = [-1, *_without_those_of(betweens, ands), len(inner.tokens)]
    parts = [inner.part(first + 1, last) for first, last in pairwise(cuts)]
    if len(parts) == 1 or not all(part.tokens for part in parts) or len(parts) != _count(inner.tree()):
        return [inner]
    return [each for part in parts for each in conjuncts(part)]


def conjunction(conditions: Iterable[str]) -> str | None:
    """All conditions as one, each once; None if there is none."""
    listed = list(dict.fromkeys(conditions))
    if len(listed) < 2:
        return listed[0] if listed else None
    return " AND ".join(f"({condition})" for condition in listed)


def unwrapped(span: Span) -> Span:
    """The span without parentheses around all of it."""
    while span.tokens[0].token_type == TokenType.L_PAREN and len(span.tokens) > 2:
        if closing(span, 0) != len(span.tokens) - 1:
            return span
        span = span.part(1, len(span.tokens) - 1)
    return span


def comparison(span: Span) -> Comparison | None:
    """The comparison that a condition is, if it is one and nothing else."""
    outside = list(_outside(span))
    words = [word(token) for _, token in outside]
    for place in range(len(words) - 3):
        if words[place : place + 4] == _SAME_OR_BOTH_NULL:
            return _split(span, "<=>", outside[place][0], outside[place + 3][0], outside[:place] + outside[place + 4 :])
    found = [(index, _COMPARISONS[token.token_type]) for index, token in outside if token.token_type in _COMPARISONS]
    if len(found) != 1 or found[0][1] == "<>":
        return None
    index, operator = found[0]
    return _split(span, operator, index, index, [pair for pair in outside if pair[0] != index])


def between(span: Span) -> Between | None:
    """`value BETWEEN low AND high`, if a condition is that and nothing else."""
    outside = list(_outside(span))
    others = [
        (index, word(token))
        for index, token in outside
        if word(token) in _OTHER_PREDICATES or token.token_type in _COMPARISONS
    ]
    if [text for _, text in others] != ["BETWEEN", "AND"]:
        return None
    (first, _), (second, _) = others
    parts = span.part(0, first), span.part(first + 1, second), span.part(second + 1, len(span.tokens))
    return Between(*parts) if all(part.tokens for part in parts) else None


def _split(span: Span, operator: str, first: int, last: int, rest: list[tuple[int, Token]]) -> Comparison | None:
    """The two operands around the tokens [first, last], unless some other predicate stands beside them."""
    if any(word(token) in _OTHER_PREDICATES or token.token_type in _COMPARISONS for _, token in rest):
        return None
    left, right = span.part(0, first), span.part(last + 1, len(span.tokens))
    return Comparison(operator, left, right) if left.tokens and right.tokens else None


def _outside(span: Span) -> Iterator[tuple[int, Token]]:
    """Tokens that stand outside brackets and outside CASE ... END, with their indexes."""
    depth, cases = 0, 0
    for index, token in enumerate(span.tokens):
        depth += is_open(token) - is_close(token)
        if depth == 0 and token.token_type == TokenType.CASE:
            cases += 1
        elif depth == 0 and cases and token.token_type == TokenType.END:
            cases -= 1
        elif depth == 0 and cases == 0 and not is_close(token):
            yield index, token


def _without_those_of(betweens: list[int], ands: list[int]) -> list[int]:
    """The ANDs that connect conditions: each BETWEEN takes the next AND for itself."""
    free = list(ands)
    for place in betweens:
        own = next((index for index in free if index > place), None)
        if own is not None:
            free.remove(own)
    return free


def _count(tree: exp.Expr) -> int:
    """How many conditions sqlglot finds between the ANDs."""
    if isinstance(tree, exp.And):
        return _count(tree.this) + _count(tree.expression)
    return 1
