"""A cursor over the tokens of one statement: the tool of the hand-written parsers."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot.tokenizer_core import Token, TokenType

from eventide.errors import SqlError
from eventide.sql.interval_literals import read_interval
from eventide.sql.tokens import Span, closing, error_at, is_close, is_open, word

# Words that begin the next clause and so are never a name without quotes.
RESERVED = frozenset(
    """SELECT FROM WHERE GROUP HAVING ORDER UNION EXCEPT INTERSECT LIMIT AS ON JOIN WITH BY AND OR NOT IN CASE WHEN THEN
    ELSE DISTINCT""".split()
)
# Words that begin a clause of a query, wherever they stand outside parentheses.
CLAUSE_WORDS = frozenset(
    {
        "FROM",
        "WHERE",
        "GROUP BY",
        "HAVING",
        "ORDER BY",
        "SORT BY",
        "CLUSTER BY",
        "DISTRIBUTE BY",
        "QUALIFY",
        "LIMIT",
        "OFFSET",
    }
    | {"UNION", "EXCEPT", "INTERSECT", "MINUS"}
)


class Cursor:
    """Reads one statement's tokens from left to right; every failure is an `SqlError` at the current token."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.position = 0

    @property
    def sql(self) -> str:
        return self.span.sql

    @property
    def done(self) -> bool:
        return self.position >= len(self.span.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        index = self.position + ahead
        return self.span.tokens[index] if index < len(self.span.tokens) else None

    def next(self) -> Token:
        token = self.peek()
        if token is None:
            raise self.expected("more")
        self.position += 1
        return token

    def at_words(self, *words: str) -> bool:
        """Whether the next tokens are these words; 'GROUP BY' is one token of sqlglot and one word here."""
        tokens = [self.peek(ahead) for ahead in range(len(words))]
        return all(token is not None and _same_word(token, text) for token, text in zip(tokens, words, strict=True))

    def accept(self, *words: str) -> bool:
        """Step over these words if they come next."""
        if not self.at_words(*words):
            return False
        self.position += len(words)
        return True

    def expect(self, *words: str, help: str | None = None) -> Token:
        """Step over these words; an error that names them if something else comes."""
        first = self.peek()
        if not self.accept(*words) or first is None:
            raise self.expected(" ".join(words), help)
        return first

    def at(self, kind: TokenType) -> bool:
        token = self.peek()
        return token is not None and token.token_type == kind

    def accept_symbol(self, kind: TokenType) -> bool:
        if not self.at(kind):
            return False
        self.position += 1
        return True

    def expect_symbol(self, kind: TokenType, text: str, help: str | None = None) -> Token:
        if not self.at(kind):
            raise self.expected(f"'{text}'", help)
        return self.next()

    def error(self, message: str, help: str | None = None) -> SqlError:
        """An error at the current token, or at the last one if the statement ends."""
        return error_at(self.sql, self.peek() or self.span.tokens[-1], message, help)

    def expected(self, what: str, help: str | None = None) -> SqlError:
        token = self.peek()
        found = f"found '{self.sql[token.start : token.end + 1]}'" if token is not None else "but the statement ends"
        return self.error(f"expected {what}, {found}", help or f"write {what} here")

    def name(self, what: str) -> tuple[str, Token]:
        """A name: bare, in backticks, or in double quotes."""
        token = self.peek()
        if token is not None and is_name(token, self.sql):
            self.position += 1
            return token.text, token
        raise self.expected(what)

    def string(self, what: str) -> str:
        token = self.peek()
        if token is None or token.token_type != TokenType.STRING:
            raise self.expected(what)
        self.position += 1
        return token.text

    def parenthesized(self, what: str) -> Span | None:
        """What stands between the parentheses that come next; None if nothing does."""
        if not self.at(TokenType.L_PAREN):
            raise self.expected(what)
        first = self.position
        close = closing(self.span, first)
        self.position = close + 1
        return self.span.part(first + 1, close) if close > first + 1 else None

    def until(self, stop: Callable[[Cursor], bool], what: str) -> Span:
        """The tokens up to where `stop` holds outside brackets, or to the end; at least one."""
        first, depth = self.position, 0
        while (token := self.peek()) is not None:
            if depth == 0 and self.position > first and stop(self):
                break
            if depth == 0 and is_close(token):
                break
            if is_open(token):
                closing(self.span, self.position)  # or an error at the parenthesis that stays open
            depth += is_open(token) - is_close(token)
            self.position += 1
        if self.position == first or word(self.span.tokens[first]) in CLAUSE_WORDS:
            self.position = first
            raise self.expected(what)
        return self.span.part(first, self.position)

    def duration(self, what: str, signed: bool = False) -> int:
        """An interval in microseconds, such as INTERVAL '10' SECOND."""
        first = self.position
        rest = self.span.part(first, len(self.span.tokens)) if not self.done else None
        micros, length = read_interval(rest, lambda: self.expected(what), signed)
        self.position = first + length
        return micros

    def end(self) -> None:
        """The statement must end here."""
        if not self.done:
            raise self.error(
                f"'{self.span.tokens[self.position].text}' is not expected here", "end the statement with a semicolon"
            )


def is_name(token: Token, sql: str) -> bool:
    """Whether a token can name something: bare words that begin no clause, backticks, double quotes."""
    if token.token_type == TokenType.IDENTIFIER:
        return True
    if token.token_type == TokenType.STRING:
        return sql[token.start] == '"' and token.text != ""
    return token.text.replace("$", "_").isidentifier() and word(token) not in RESERVED and word(token) != ""


def _same_word(token: Token, text: str) -> bool:
    spelled = word(token)
    return spelled == text or (" " in spelled and " ".join(spelled.split()) == text)
