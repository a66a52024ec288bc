"""Token ranges: the parts of a SQL text that statements, clauses and expressions are made of.

A `Span` is a run of tokens of one text. It knows its place, so every error can underline it, and it can be rendered
again with some parts replaced: the way in which an expression reaches Spark in the user's own words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from eventide.errors import SqlError
from eventide.sql.dialect import parse_scalar

_QUOTED = frozenset(
    {TokenType.STRING, TokenType.IDENTIFIER, TokenType.RAW_STRING, TokenType.NUMBER, TokenType.HEX_STRING}
)
_OPEN = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSE = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
# Words after which a parenthesis is not the argument list of a call.
_BEFORE_PAREN = frozenset(
    """AND OR NOT IN IS LIKE ILIKE RLIKE REGEXP BETWEEN CASE WHEN THEN ELSE DISTINCT FROM OVER WHERE AS ESCAPE DIV ALL
    ANY
    SOME FOR""".split()
)
_TIGHT = frozenset({TokenType.DOT, TokenType.DCOLON, TokenType.COLON})


@dataclass(frozen=True, eq=False)
class Edit:
    """Replace what lies in [start, end) of the text by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, eq=False)
class Span:
    """Tokens that follow each other in `sql`; never empty."""

    sql: str
    tokens: tuple[Token, ...]

    @property
    def start(self) -> int:
        return self.tokens[0].start

    @property
    def end(self) -> int:
        return self.tokens[-1].end + 1

    @property
    def text(self) -> str:
        """Exactly as written, comments and line breaks included."""
        return self.sql[self.start : self.end]

    def tree(self) -> exp.Expr:
        """sqlglot's tree of this expression, its alias included."""
        return parse_scalar(list(self.tokens), self.sql)

    def error(self, message: str, help: str | None = None) -> SqlError:
        return SqlError(message, sql=self.sql, start=self.start, end=self.end, help=help)

    def part(self, first: int, last: int) -> Span:
        """The tokens [first, last) of this span."""
        return Span(self.sql, self.tokens[first:last])

    def covers(self, start: int, end: int) -> bool:
        return self.start <= start and end <= self.end

    def render(self, edits: Sequence[Edit] = ()) -> str:
        """One line of SQL with single spaces and no comments, `edits` that lie inside applied."""
        by_start = {edit.start: edit for edit in edits if self.covers(edit.start, edit.end)}
        pieces: list[tuple[str, Token]] = []
        skip_to = -1
        for token in self.tokens:
            if token.start < skip_to:
                continue
            edit = by_start.get(token.start)
            skip_to = edit.end if edit else token.end + 1  # 10L comes as three tokens with one place
            pieces.append((edit.text if edit else self.sql[token.start : token.end + 1], token))
        return _join(pieces)


def word(token: Token) -> str:
    """A keyword or bare name in upper case; empty for strings, numbers and quoted names."""
    return "" if token.token_type in _QUOTED else token.text.upper()


def error_at(sql: str, token: Token, message: str, help: str | None = None) -> SqlError:
    return SqlError(message, sql=sql, start=token.start, end=token.end + 1, help=help)


def is_open(token: Token) -> bool:
    return token.token_type in _OPEN


def is_close(token: Token) -> bool:
    return token.token_type in _CLOSE


def closing(span: Span, index: int) -> int:
    """The index of the token that closes the bracket at `index`."""
    depth = 0
    for position in range(index, len(span.tokens)):
        token = span.tokens[position]
        depth += is_open(token) - is_close(token)
        if depth == 0:
            return position
    raise error_at(span.sql, span.tokens[index], "this parenthesis is not closed", "add the missing )")


def split_commas(span: Span | None) -> list[Span]:
    """The parts between commas outside brackets; an empty part is an error."""
    if span is None:
        return []
    parts: list[Span] = []
    depth, first = 0, 0
    for index, token in enumerate(span.tokens):
        depth += is_open(token) - is_close(token)
        if depth == 0 and token.token_type == TokenType.COMMA:
            if index == first:
                raise error_at(span.sql, token, "something is missing before this comma", "leave the comma out")
            parts.append(span.part(first, index))
            first = index + 1
    if first == len(span.tokens):
        raise error_at(span.sql, span.tokens[-1], "something is missing after this comma", "leave the comma out")
    parts.append(span.part(first, len(span.tokens)))
    return parts


@dataclass(frozen=True, eq=False)
class Call:
    """A call `name(arguments)` inside a span; `span` runs from the name to the closing parenthesis."""

    name: str  # lower case
    span: Span
    arguments: Span | None  # what stands between the parentheses
    index: int  # of the name in the span that was searched

    @property
    def after(self) -> int:
        """The index of the first token behind the call in the span that was searched."""
        return self.index + len(self.span.tokens)


def calls(span: Span) -> Iterator[Call]:
    """All calls in a span, outer ones before those in their arguments."""
    for index, token in enumerate(span.tokens[:-1]):
        if span.tokens[index + 1].token_type != TokenType.L_PAREN or token.token_type == TokenType.NUMBER:
            continue
        name = token.text.lower()
        if not name.replace("_", "a").isalnum() or word(token) in _BEFORE_PAREN - {"ANY", "SOME"}:
            continue
        if index and (
            span.tokens[index - 1].token_type == TokenType.DOT or word(span.tokens[index - 1]) in ("LIKE", "ILIKE")
        ):
            continue
        close = closing(span, index + 1)
        arguments = span.part(index + 2, close) if close > index + 2 else None
        yield Call(name, span.part(index, close + 1), arguments, index)


def _join(pieces: Sequence[tuple[str, Token]]) -> str:
    out = ""
    before: Token | None = None
    unary = False
    for text, token in pieces:
        if before is not None and _spaced(before, token, unary):
            out += " "
        sign = token.token_type in (TokenType.DASH, TokenType.PLUS, TokenType.TILDE) or token.text == "!"
        unary = sign and (before is None or not ends_operand(before))
        out += text
        before = token
    return out


def _spaced(before: Token, token: Token, unary: bool) -> bool:
    """Whether a space stands between two tokens; the rule depends on nothing else, so equal SQL renders equally."""
    if before.token_type == token.token_type == TokenType.DASH:
        return True  # -- begins a comment
    if unary or is_open(before) or is_close(token) or token.token_type == TokenType.COMMA:
        return False
    if token.token_type in _TIGHT or before.token_type in _TIGHT:
        return False
    if token.token_type == TokenType.L_BRACKET:
        return False
    if token.token_type == TokenType.L_PAREN:
        return not _can_be_called(before)
    return True


def _can_be_called(token: Token) -> bool:
    is_name = token.token_type == TokenType.IDENTIFIER or word(token).replace("_", "A").isalnum()
    return is_name and word(token) not in _BEFORE_PAREN


_OPERATOR_WORDS = _BEFORE_PAREN | {"INTERVAL", "TO"}


def ends_operand(token: Token) -> bool:
    """Whether an expression could end here, so that a word behind it begins something new."""
    if is_close(token) or token.token_type in _QUOTED:
        return True
    spelled = word(token)
    return spelled.replace("_", "A").isalnum() and spelled not in _OPERATOR_WORDS
