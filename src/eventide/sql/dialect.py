"""Eventide's dialect: Spark's tokens and expressions, read without changing them.

sqlglot gives the tokens, with their places in the text, and a tree of each scalar expression. The tree is only looked
at (which columns, which lambdas, which subqueries); the SQL that Spark gets is made of the user's own tokens. So no
function is known by name here: whatever Spark has can be used.
"""

from __future__ import annotations

import re
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from eventide.errors import SqlError
from eventide.sql.limits import check_depth, too_deep

# Calls whose arguments have a grammar of their own, such as CAST(x AS INT) or TRIM(BOTH 'x' FROM y).
_CALLS_WITH_GRAMMAR = (
    "CAST",
    "TRY_CAST",
    "EXTRACT",
    "TRIM",
    "SUBSTRING",
    "SUBSTR",
    "POSITION",
    "OVERLAY",
    "CEIL",
    "FLOOR",
)
_TWO_WORDS = {"GROUP": TokenType.GROUP_BY, "ORDER": TokenType.ORDER_BY, "PARTITION": TokenType.PARTITION_BY}
_HELP = "write an expression of Spark SQL; names that are keywords go in backticks"


class EventideParser(SparkParser):
    """Spark's expressions, every ordinary call kept as written."""

    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {name: SparkParser.FUNCTION_PARSERS[name] for name in _CALLS_WITH_GRAMMAR}
    NO_PAREN_FUNCTION_PARSERS: ClassVar = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    ARRAY_CONSTRUCTORS: ClassVar = {}  # array(a, b)[0] is an element, not ARRAY[0]
    COLON_IS_VARIANT_EXTRACT: ClassVar = True  # k:a.b is a path into JSON
    FUNC_TOKENS: ClassVar = SparkParser.FUNC_TOKENS | {TokenType.SESSION}

    failed_at: Token | None = None

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Remember the token, whose offsets sqlglot's own error leaves out."""
        self.failed_at = token or self._curr or self._prev
        super().raise_error(message, self.failed_at)

    def parse_scalar(self, tokens: list[Token], sql: str) -> exp.Expr | None:
        """The tree of one expression with an optional alias."""
        return self._parse(type(self)._parse_expression, tokens, sql)[0]


class Eventide(Spark):
    """Spark's dialect with names such as `per_user$late`, and without statements that swallow the rest of the text."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar = ["'", "\\"]  # Spark 4 reads 'it''s' as it's
        VAR_SINGLE_TOKENS: ClassVar = {"$"}
        COMMANDS: ClassVar = set()

    Parser = EventideParser


def tokenize(sql: str) -> list[Token]:
    """The tokens of a whole text; an unterminated string, name or comment is an error at the place where it begins."""
    try:
        return _joined(Eventide().tokenize(sql))
    except TokenError as error:
        place = re.search(r"from \d+:(\d+)", str(error.__cause__ or error))
        if place:
            raise SqlError(
                "a string or quoted name is not closed", sql=sql, start=int(place[1]), help="close the quote"
            ) from None
        start = sql.rfind("/*")
        raise SqlError(
            "a comment is not closed", sql=sql, start=max(start, 0), end=start + 2, help="close it with */"
        ) from None


def _joined(tokens: list[Token]) -> list[Token]:
    """GROUP BY and its like as one token, as sqlglot makes them, also where a comment stands between the words."""
    joined: list[Token] = []
    for token in tokens:
        last = joined[-1] if joined else None
        kind = _TWO_WORDS.get(last.text.upper()) if last is not None and last.token_type != TokenType.STRING else None
        if (
            last is not None
            and kind is not None
            and token.text.upper() == "BY"
            and token.token_type != TokenType.STRING
        ):
            joined[-1] = Token(kind, f"{last.text} {token.text}", last.line, last.col, last.start, token.end)
        else:
            joined.append(token)
    return joined


def parse_scalar(tokens: list[Token], sql: str) -> exp.Expr:
    """The tree of the expression that `tokens`, a part of those of `sql`, spell."""
    parser = Eventide().parser()
    if not isinstance(parser, EventideParser):
        raise TypeError("the dialect lost its parser")
    if not tokens:
        raise SqlError("an expression is missing", help=_HELP)
    try:
        tree = parser.parse_scalar(tokens, sql)
    except RecursionError:
        raise too_deep(sql, tokens) from None
    except ParseError as error:
        at = parser.failed_at or tokens[-1]
        message = _plain_words(error.errors[0]["description"] if error.errors else "", sql[at.start : at.end + 1])
        raise SqlError(message, sql=sql, start=at.start, end=at.end + 1, help=_HELP) from None
    if tree is None:
        raise SqlError("an expression is missing", sql=sql, start=tokens[0].start, end=tokens[0].end + 1, help=_HELP)
    check_depth(tree, sql, tokens)
    return tree


def _plain_words(description: str, at: str) -> str:
    """sqlglot's message without the names of its classes."""
    if description.startswith("Expecting "):
        return f"{description.removeprefix('Expecting ')} is missing after '{at}'"
    if description.startswith("Required keyword"):
        return f"an operand is missing near '{at}'"
    if description.startswith("Expected "):
        return f"near '{at}': {description[0].lower()}{description[1:]}"
    return f"'{at}' is not expected here"
