"""`column:a.b[0]`, a path into a column that holds JSON as text: get_json_object in a shorter spelling."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from eventide.sql.tokens import Span, closing, ends_operand, error_at, word

HELP = "write column:a.b[0], or get_json_object(expression, '$.a.b[0]')"
_NO_PARAMETERS = ("parameters are not supported", "write the value itself")
_SIMPLE = re.compile(r"\w+")


@dataclass(frozen=True)
class JsonPath:
    """`sql` is the path as get_json_object takes it, in quotes; `name` its last key; `end` where it ends."""

    sql: str
    name: str
    end: int


def json_paths(span: Span, tree: exp.Expr) -> dict[int, JsonPath]:
    """The paths of an expression, by the place where the column in front of each ends."""
    found: dict[int, JsonPath] = {}
    for node in tree.find_all(exp.JSONExtract):
        if not isinstance(node.this, exp.Column):
            raise span.error("a path with : follows a column", HELP)
        end = node.this.this.meta["end"] + 1
        keys = [_key(span, part) for part in node.expression.expressions[1:]]
        if not keys:  # `->`, which other dialects have
            raise span.error("this path cannot be followed", HELP)
        found[end] = JsonPath(f"'${''.join(keys)}'", keys[-1].strip(".[]\\'"), _end(span, end, len(keys)))
    return found


def check_colons(span: Span) -> None:
    """A `:` begins a path, or stands in a type such as STRUCT<a: INT>; as a parameter it is refused."""
    starts: set[int] | None = None
    for index, token in enumerate(span.tokens):
        if token.token_type in (TokenType.PLACEHOLDER, TokenType.PARAMETER):
            raise error_at(span.sql, token, *_NO_PARAMETERS)
        if token.token_type != TokenType.COLON or _is_in_type(span, index):
            continue
        if index == 0 or not ends_operand(span.tokens[index - 1]):
            raise error_at(span.sql, token, *_NO_PARAMETERS)
        starts = set(json_paths(span, span.tree())) if starts is None else starts
        if span.tokens[index - 1].end + 1 not in starts:
            raise error_at(span.sql, token, "this path cannot be followed", HELP)


def _is_in_type(span: Span, index: int) -> bool:
    if index < 2 or span.tokens[index - 2].token_type not in (TokenType.LT, TokenType.COMMA):
        return False
    return any(word(token) == "STRUCT" for token in span.tokens[: index - 1])


def _key(span: Span, part: exp.Expr) -> str:
    if isinstance(part, exp.JSONPathSubscript) and isinstance(part.this, int):
        return f"[{part.this}]"
    if isinstance(part.this, exp.JSONPathWildcard):
        return "[*]"
    key = part.this if isinstance(part, exp.JSONPathKey) else None
    if not isinstance(key, str) or "'" in key or "\\" in key:
        raise span.error("this path cannot be followed", HELP)
    return f".{key}" if _SIMPLE.fullmatch(key) else f"[\\'{key}\\']"


def _end(span: Span, after: int, steps: int) -> int:
    """Where the path of so many steps ends that begins at the colon after `after`."""
    tokens = span.tokens
    index = next(number for number, token in enumerate(tokens) if token.start >= after) + 1
    for step in range(steps):
        if step and tokens[index].token_type == TokenType.DOT:
            index += 1
        index = closing(span, index) + 1 if tokens[index].token_type == TokenType.L_BRACKET else index + 1
    return tokens[index - 1].end + 1
