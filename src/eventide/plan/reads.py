"""What a query reads: its relations, its sources, and the window that it groups by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from eventide.plan.logical import (
    Column,
    Explode,
    Filter,
    Join,
    Lookup,
    Project,
    Query,
    Relation,
    Scan,
    Source,
    Stream,
    Table,
    Union,
    WindowAggregate,
)
from eventide.plan.windows import Window


def relations_of(query: Query) -> tuple[Relation, ...]:
    """What stands in FROM, from left to right."""
    return (query.left.input, query.right.input) if isinstance(query, Join) else (query.input,)


def sources_of(query: Query) -> Iterator[Source]:
    """The sources that a query reads, from left to right."""
    for relation in relations_of(query):
        yield from sources_below(relation)


def sources_below(relation: Relation) -> Iterator[Source]:
    match relation:
        case Scan():
            yield relation.source
        case Filter() | Project() | Explode() | Lookup():
            yield from sources_below(relation.input)
        case Union():
            for part in relation.inputs:
                yield from sources_below(part)


def tables_of(query: Query) -> dict[str, Table]:
    """The tables that a query looks up, by name."""
    return {table.name: table for relation in relations_of(query) for table in _tables_below(relation)}


def _tables_below(relation: Relation) -> Iterator[Table]:
    match relation:
        case Scan():
            return
        case Lookup():
            yield from _tables_below(relation.input)
            yield relation.table
        case Filter() | Project() | Explode():
            yield from _tables_below(relation.input)
        case Union():
            for part in relation.inputs:
                yield from _tables_below(part)


def with_columns(stream: Stream, columns: Mapping[str, tuple[Column, ...]]) -> Stream:
    """The stream with other columns for some of the sources that it reads, by name."""
    query = stream.query
    if isinstance(query, Join):
        left, right = (
            replace(side, input=_with_columns(side.input, columns), columns=_typed(side.columns, side.input, columns))
            for side in (query.left, query.right)
        )
        return replace(stream, query=replace(query, left=left, right=right))
    typed = _typed(query.columns, query.input, columns)
    return replace(stream, query=replace(query, input=_with_columns(query.input, columns), columns=typed))


def _with_columns(relation: Relation, columns: Mapping[str, tuple[Column, ...]]) -> Relation:
    match relation:
        case Scan():
            found = columns.get(relation.source.name, relation.source.columns)
            return replace(relation, source=replace(relation.source, columns=found))
        case Filter() | Project() | Explode() | Lookup():
            return replace(relation, input=_with_columns(relation.input, columns))
        case Union():
            return replace(relation, inputs=tuple(_with_columns(part, columns) for part in relation.inputs))


def _typed(
    own: tuple[Column, ...], relation: Relation, columns: Mapping[str, tuple[Column, ...]]
) -> tuple[Column, ...]:
    """A plain scan has the columns of its source; what others have, only Spark knows."""
    while isinstance(relation, Filter):
        relation = relation.input
    return columns.get(relation.source.name, own) if isinstance(relation, Scan) else own


def originals_of(query: Query) -> tuple[tuple[Column, ...], ...]:
    """The columns of the rows that a query takes in, for each side."""
    return (query.left.columns, query.right.columns) if isinstance(query, Join) else (query.columns,)


def window_of(query: Query) -> Window | None:
    """The window of an aggregation; None for other queries."""
    return query.window if isinstance(query, WindowAggregate) else None


def names_its_time(query: Query) -> bool:
    """Whether the query itself says what the event time of its rows is."""
    if isinstance(query, Join):
        return query.left.time is not None or query.right.time is not None
    return query.time is not None
