"""SHOW and DESCRIBE: the catalog as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import pyarrow as pa

from eventide.plan.logical import Named, Sink, Source
from eventide.result import Result
from eventide.sql.catalog import Catalog
from eventide.sql.statements import CreateView
from eventide.storage.payloads import PAYLOAD_SCHEMA, late_schema


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
    everything = {"sources": sources, "streams": streams, "sinks": sinks, "views": views}
    chosen = everything.get(what, [each for listed in everything.values() for each in listed])
    headings = {
        "sources": ("connector", "event_time"),
        "streams": ("emit", "late_to"),
        "sinks": ("connector", "reads"),
        "views": ("query", "detail"),
    }
    return _table(("name", "kind", *headings.get(what, ("how", "detail"))), chosen)


def _late_to(catalog: Catalog, stream: str) -> str | None:
    """The name in LATE DATA TO, whichever part of the stream has the late rows."""
    return next((part.emit.late_to for part in catalog.parts(stream) if part.emit.late_to is not None), None)


class Compiled(Protocol):
    """What is known of a stream that Spark has analysed."""

    @property
    def outputs(self) -> pa.Schema: ...

    @property
    def originals(self) -> tuple[pa.Schema, ...]: ...


def describe(catalog: Catalog, name: str, compiled: Callable[[str], Compiled]) -> Result:
    """The columns of whatever has this name; `compiled` gives a stream."""
    if name in catalog.late_names:
        return _described(late_schema(compiled(catalog.late_names[name]).originals))
    definition = catalog.definition(name)
    if isinstance(definition, Source):
        return _described(definition)
    if isinstance(definition, CreateView):
        return _columns(catalog.lower_view(definition)[-1].query.outputs)
    reads = definition.stream if isinstance(definition, Sink) else definition.name
    if reads is None:
        return _described(PAYLOAD_SCHEMA)
    return _described(compiled(catalog.resolve_readable(reads)[0]).outputs)


def _columns(columns: Sequence[Named]) -> Result:
    """The columns of a view: their types are those that its readers find."""
    return _table(("column", "type", "role"), [(column.name, "", "") for column in columns])


def _described(thing: Source | pa.Schema) -> Result:
    if isinstance(thing, Source):
        pairs = [(column.name, column.type, _role(thing, column.name)) for column in thing.columns]
    else:
        pairs = [(field.name, str(field.type), "") for field in thing]
    return _table(("column", "type", "role"), pairs)


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
