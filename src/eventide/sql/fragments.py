"""SQL put together from pieces that a user wrote elsewhere: in an app file, or as arguments in Python.

An error in the whole text is shown in the piece that holds it, under the name by which the user knows that piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from eventide.errors import EventideError, OptionError, SqlError
from eventide.sql.clauses import at_clause
from eventide.sql.cursor import Cursor
from eventide.sql.dialect import tokenize
from eventide.sql.tokens import Span, error_at, split_commas


@dataclass(frozen=True)
class Fragment:
    """A piece of SQL and what the user calls it, such as `where()` or `transforms.per_user.sql`."""

    label: str
    text: str


@dataclass(frozen=True)
class Literal:
    """A value that stands in the SQL as a string in quotes."""

    label: str
    value: str


Part = str | Fragment | Literal


class Assembled:
    """The whole text of `parts`. `label` names it in errors that lie in no piece of the user's."""

    def __init__(self, label: str, *parts: Part) -> None:
        self.label = label
        self.text = ""
        self._places: list[tuple[int, int, Fragment | Literal]] = []
        for part in parts:
            written = part if isinstance(part, str) else string(part.value) if isinstance(part, Literal) else part.text
            if not isinstance(part, str):
                self._places.append((len(self.text), len(self.text) + len(written), part))
            self.text += written

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Errors of the block, shown where the user wrote what is wrong."""
        try:
            yield
        except SqlError as error:
            raise self.relocate(error) from None
        except EventideError as error:
            raise type(error)(f"{self.label}: {error.message}", help=error.help) from None

    def relocate(self, error: SqlError) -> EventideError:
        if error.sql != self.text or error.start is None:
            return SqlError(
                f"{self.label}: {error.message}", sql=error.sql, start=error.start, end=error.end, help=error.help
            )
        for start, end, part in self._places:
            if start <= error.start < end:
                message = f"{part.label}: {error.message}"
                if isinstance(part, Literal):
                    return OptionError(message, help=error.help)
                upto = None if error.end is None else min(error.end, end) - start
                return SqlError(message, sql=part.text, start=error.start - start, end=upto, help=error.help)
        return SqlError(f"{self.label}: {error.message}", help=error.help)


def string(value: str) -> str:
    """A SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def with_clause(options: Mapping[str, Literal]) -> list[Part]:
    """` WITH ('key' = 'value', ...)`, or nothing if there are no options."""
    parts: list[Part] = []
    for name, value in options.items():
        parts += [", " if parts else " WITH (", f"'{name}' = ", value]
    return [*parts, ")"] if parts else []


def checked(fragment: Fragment, what: str = "an expression") -> Fragment:
    """The same fragment, if it is one expression and nothing else: no further clause, every bracket closed."""
    try:
        tokens = tuple(tokenize(fragment.text))
        for token in tokens:
            if token.token_type == TokenType.SEMICOLON:
                raise error_at(fragment.text, token, "';' is not expected here", f"write {what} and nothing else")
        if not tokens:
            raise SqlError(f"expected {what}, found nothing", help=f"write {what}")
        cursor = Cursor(Span(fragment.text, tokens))
        parts = split_commas(cursor.until(at_clause, what))
        if not cursor.done or len(parts) > 1:
            cursor.position = cursor.position if len(parts) == 1 else len(parts[0].tokens)
            found = cursor.span.tokens[cursor.position].text
            raise cursor.error(
                f"'{found}' is not expected here", f"write {what} and nothing else; pass several as separate arguments"
            )
    except SqlError as error:
        raise Assembled(fragment.label, fragment).relocate(error) from None
    return fragment
