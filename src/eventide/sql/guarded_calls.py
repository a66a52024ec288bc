"""Calls of functions that may raise, written so that what they raise is a value first."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from eventide.sql.dialect import tokenize

GUARDED = "__guarded_"  # in front of the name of a function: it gives a struct of its value and its error


def with_calls_replaced(sql: str, name: str) -> tuple[str, list[str]]:
    """`sql` with the guarded form of `name`, whose error is raised where it has one; and the errors of its calls.

    >>> with_calls_replaced("f(k) > 1", "f")[0]
    '(CASE WHEN __guarded_f(k).error IS NULL THEN __guarded_f(k).value ELSE raise_error(__guarded_f(k).error) END) > 1'
    """
    errors: list[str] = []
    while (call := _last_call(sql, name)) is not None:
        start, opened, end = call
        guarded = f"{GUARDED}{name}{sql[opened:end]}"
        checked = f"(CASE WHEN {guarded}.error IS NULL THEN {guarded}.value ELSE raise_error({guarded}.error) END)"
        errors.append(f"{guarded}.error")
        sql = sql[:start] + checked + sql[end:]
    return sql, errors


def _last_call(sql: str, name: str) -> tuple[int, int, int] | None:
    """Where the last call of `name` begins, where its arguments begin, and where it ends: inner calls come first."""
    tokens: list[Token] = tokenize(sql)
    for place in range(len(tokens) - 2, -1, -1):
        word, behind = tokens[place], tokens[place + 1]
        is_name = word.text.lower() == name.lower() and word.token_type != TokenType.STRING
        if is_name and behind.token_type == TokenType.L_PAREN:
            return word.start, behind.start, _closing(tokens, place + 1)
    return None


def _closing(tokens: list[Token], opened: int) -> int:
    """The end of the parenthesis at `opened`."""
    depth = 0
    for token in tokens[opened:]:
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        if depth == 0:
            return int(token.end) + 1
    return int(tokens[-1].end) + 1
