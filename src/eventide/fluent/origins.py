"""What a fluent stream reads: DataFrames as sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from eventide.errors import EngineError
from eventide.plan.logical import Source, Stream, Table
from eventide.plan.names import backticked, quoted
from eventide.sql.fragments import Assembled, Fragment, Literal, Part, with_clause
from eventide.sql.lower_source import lower_source
from eventide.sql.parser import parse_statements
from eventide.sql.statements import CreateSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Origin:
    """A DataFrame as a source: its columns with their types, and what is declared of its rows' time."""

    name: str
    columns: tuple[tuple[str, str], ...]
    frame: DataFrame | None = None
    options: tuple[tuple[str, Literal], ...] = ()
    dedup: tuple[Part, ...] = ()

    @property
    def time_column(self) -> str | None:
        """The column of the event time, if it is declared."""
        return next((value.value for option, value in self.options if option == "eventtime.column"), None)

    def with_options(self, given: list[tuple[str, Literal]], instead_of: Callable[[str], bool]) -> Origin:
        """With `given` in place of the options whose names `instead_of` says."""
        return replace(self, options=(*(option for option in self.options if not instead_of(option[0])), *given))

    def source(self) -> Source:
        """The source of the plan; raises what is wrong with it."""
        columns = [f"{quoted(name)} {type}" for name, type in self.columns]
        listed: list[Part] = [", ".join(columns), *self.dedup]
        options = with_clause(dict(self.options))
        text = Assembled(
            self.name, "CREATE SOURCE ", Fragment("name", backticked(self.name)), " (", *listed, ")", *options
        )
        with text.errors():
            (statement,) = parse_statements(text.text)
            if not isinstance(statement, CreateSource):
                raise EngineError(f"{text.text} is not a CREATE SOURCE")
            return replace(lower_source(statement), connector="dataframe")


@dataclass(frozen=True)
class Sources:
    """The part of a catalog that lowering needs."""

    sources: Mapping[str, Source]
    streams: Mapping[str, Stream] = field(default_factory=dict)
    late_names: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)

    def stream(self, name: str) -> Stream:
        return self.streams[name]
