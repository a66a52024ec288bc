"""Tables that a fluent stream looks up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from eventide.errors import EngineError
from eventide.fluent.windows import Duration, duration_text
from eventide.plan.logical import Table
from eventide.plan.names import backticked
from eventide.sql.create_table import lower_table
from eventide.sql.fragments import Assembled, Fragment, Literal, with_clause
from eventide.sql.parser import parse_statements
from eventide.sql.statements import CreateTable


@dataclass(frozen=True)
class FluentTable:
    """See `table`."""

    definition: Table

    @property
    def name(self) -> str:
        return self.definition.name


def table(
    name: str, columns: Mapping[str, str] | str, path: str, *, refresh: Duration | None = None, **options: str
) -> FluentTable:
    """A table of the files at `path`, to be looked up with `join`; read anew every `refresh`.

    `columns` are types by name, or "id STRING, name STRING". `options` are those of CREATE TABLE: format, header, ...
    """
    listed = (
        columns
        if isinstance(columns, str)
        else ", ".join(f"{backticked(column)} {type}" for column, type in columns.items())
    )
    given = {"connector": "files", "path": str(path), **options}
    literals = {key: Literal(f"table({key})", value) for key, value in given.items()}
    if refresh is not None:
        literals["refresh"] = Literal("table(refresh)", duration_text(refresh))
    named, inside = Fragment("table(name)", backticked(name)), Fragment("table(columns)", listed)
    text = Assembled("table()", "CREATE TABLE ", named, " (", inside, "\n)", *with_clause(literals))
    with text.errors():
        (statement,) = parse_statements(text.text)
    if not isinstance(statement, CreateTable):
        raise EngineError(f"{text.text} is not a CREATE TABLE")
    return FluentTable(lower_table(statement))
