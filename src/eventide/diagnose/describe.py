"""SHOW and DESCRIBE: the catalog as tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from eventide.connectors.declaration import FORMAT, Option
from eventide.connectors.registry import SINKS, SOURCES, TABLES
from eventide.eventtime.durations import format_duration
from eventide.plan.logical import Named, Sink, Source, Table
from eventide.result import Result
from eventide.secrets import PLACEHOLDER, masked
from eventide.sql.catalog import Catalog


def text_result(column: str, lines: list[str]) -> Result:
    return Result(pa.table({column: pa.array(lines, pa.string())}))


def list_objects(catalog: Catalog, what: str) -> Result:
    sources: list[tuple[str | None, ...]] = [
        (s.name, "source", s.connector, _time(s)) for s in catalog.sources.values()
    ]
    streams: list[tuple[str | None, ...]] = [
        (s.name, "stream", s.emit.mode.value, _late_to(catalog, s.name)) for s in catalog.streams.values()
    ]
    sinks: list[tuple[str | None, ...]] = [
        (s.name, "sink", s.connector, s.stream or "side output") for s in catalog.sinks.values()
    ]
    views: list[tuple[str | None, ...]] = [(v.name, "view", v.query.span.text, None) for v in catalog.views.values()]
    tables: list[tuple[str | None, ...]] = [
        (t.name, "table", t.connector, _refresh(t)) for t in catalog.tables.values()
    ]
    everything = {"sources": sources, "streams": streams, "sinks": sinks, "tables": tables, "views": views}
    headings = {
        "sources": ("connector", "event_time"),
        "streams": ("emit", "late_to"),
        "sinks": ("connector", "reads"),
        "tables": ("connector", "refresh"),
        "views": ("query", "detail"),
    }
    return _table(("name", "kind", *headings[what]), everything[what])


def _refresh(table: Table) -> str | None:
    return None if table.refresh is None else f"every {format_duration(table.refresh)}"


def _late_to(catalog: Catalog, stream: str) -> str | None:
    """The name in LATE DATA TO, whichever part of the stream has the late rows."""
    return next((part.emit.late_to for part in catalog.parts(stream) if part.emit.late_to is not None), None)


def describe_columns(columns: Sequence[Named]) -> Result:
    """The columns of a view: their types are those that its readers find."""
    return _table(("column", "type", "role"), [(column.name, "", "") for column in columns])


def describe_object(thing: Source | Table | pa.Schema) -> Result:
    if isinstance(thing, Table):
        pairs = [(column.name, column.type, "") for column in thing.columns]
    elif isinstance(thing, Source):
        pairs = [(column.name, column.type, _role(thing, column.name)) for column in thing.columns]
    else:
        pairs = [(field.name, str(field.type), "") for field in thing]
    return _table(("column", "type", "role"), pairs)


def with_connector(columns: Result, thing: Source | Sink | Table) -> Result:
    """The columns, and below them the connector and its options: as given, or what counts where they are not."""
    role = {Source: SOURCES, Sink: SINKS, Table: TABLES}[type(thing)][thing.connector]
    rows = [("# connector", thing.connector, "")]
    for name in [*role.options, *(name for name in thing.options if name not in role.options)]:
        option = role.option(name) or Option()
        value = thing.options.get(name, option.default)
        if value is not None and option.only_format in (None, thing.options.get(FORMAT)):
            is_hidden = option.is_secret and PLACEHOLDER.fullmatch(value) is None
            rows.append((name, "***" if is_hidden else masked(value), "given" if name in thing.options else "default"))
    return Result(pa.concat_tables([columns.arrow(), _table(("column", "type", "role"), rows).arrow()]))


def _table(names: tuple[str, ...], rows: Sequence[Sequence[str | None]]) -> Result:
    return Result(pa.table({name: pa.array([row[i] for row in rows], pa.string()) for i, name in enumerate(names)}))


def _time(source: Source) -> str | None:
    return None if source.event_time is None else f"{source.event_time.column} ({source.event_time.type})"


def _role(source: Source, column: str) -> str:
    roles = []
    if source.event_time is not None and source.event_time.column.lower() == column.lower():
        roles.append(f"event time, {source.event_time.type}")
    if source.dedup is not None and column.lower() in [c.lower() for c in source.dedup.columns]:
        roles.append("deduplicated by")
    return ", ".join(roles)
