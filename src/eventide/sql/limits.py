"""How large SQL may be: what is larger is refused at once, with a short message."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from eventide.errors import SqlError

MOST_CHARACTERS = 1_000_000  # of a text, which may hold many statements
MOST_COLUMNS = 4_000  # of a source, and of a select list
LONGEST_NAME = 255
LONGEST_OBJECT_NAME = 128  # sources, streams and sinks name files and folders, to which more is added
DEEPEST_BRACKETS = 32
DEEPEST_TREE = 200  # operators in each other; Spark's own parser gives up at about 1000
MOST_DIGITS = 38

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_SHORTER = "compute a part of it in a subquery in FROM, and name it"
_FLAT = (exp.And, exp.Or)  # Spark balances chains of them, so their length is no depth
_DOUBLE = re.compile(r"[^eE]*[dDfF]|.*[eE][^bB]*")  # a literal that is no decimal


def check_text(sql: str) -> None:
    """Before the text is split into tokens."""
    if len(sql) > MOST_CHARACTERS:
        help = "split it: each part can be a file of its own"
        raise SqlError(f"the SQL has {len(sql):,} characters, and at most {MOST_CHARACTERS:,} are taken", help=help)
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        message = f"U+{ord(sql[error.start]):04X} is half of a character"
        place = {"start": error.start, "end": error.end}
        raise SqlError(
            message, sql=sql.encode(errors="replace").decode(), **place, help="write the whole one"
        ) from None


def check_tokens(sql: str, tokens: Sequence[Token]) -> None:
    """Names, numbers and brackets, wherever they stand."""
    depth = 0
    for token in tokens:
        kind = token.token_type
        if kind in _OPEN:
            depth += 1
            if depth > DEEPEST_BRACKETS:
                raise _error(sql, token, f"more than {DEEPEST_BRACKETS} brackets are open here", _SHORTER)
        elif kind in _CLOSE:
            depth -= 1
        elif kind == TokenType.SEMICOLON:
            depth = 0
        elif kind == TokenType.NUMBER:
            _check_number(sql, token)
        elif kind != TokenType.STRING and len(token.text) > LONGEST_NAME:
            message = f"a name has at most {LONGEST_NAME} characters, and this one has {len(token.text):,}"
            raise _error(sql, token, message, "choose a shorter name")


def check_depth(tree: exp.Expr, sql: str, tokens: Sequence[Token]) -> None:
    """Operators and calls in each other; what walks the tree behind this may recurse."""
    waiting: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > DEEPEST_TREE:
            raise too_deep(sql, tokens)
        for child in node.iter_expressions():
            waiting.append((child, depth + (not (isinstance(node, _FLAT) and type(child) is type(node)))))


def too_deep(sql: str, tokens: Sequence[Token]) -> SqlError:
    return SqlError("this is nested too deeply", sql=sql, start=tokens[0].start, end=tokens[-1].end + 1, help=_SHORTER)


def _check_number(sql: str, token: Token) -> None:
    written = sql[token.start : token.end + 1]
    if not _is_number(token.text) and _DOUBLE.fullmatch(written):
        raise _error(sql, token, f"{written} is an unfinished number", "write its exponent, such as 1e3")
    if _DOUBLE.fullmatch(written):
        if len(token.text) > LONGEST_NAME or math.isinf(float(token.text)):
            raise _error(sql, token, "this number is beyond the range of a DOUBLE", "the largest is 1.797E308")
        return
    digits = sum(character.isdecimal() for character in token.text.partition("e")[0].lstrip("0.").replace(".", ""))
    if digits > MOST_DIGITS:
        help = f"write it as a DOUBLE, such as {token.text[0]}.{token.text[1:3]}E{digits - 1}, or in quotes as text"
        raise _error(sql, token, f"a number has at most {MOST_DIGITS} digits, and this one has {digits}", help)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _error(sql: str, token: Token, message: str, help: str) -> SqlError:
    return SqlError(message, sql=sql, start=token.start, end=token.end + 1, help=help)
