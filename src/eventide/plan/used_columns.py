"""Which columns of a source a query reads. Only these are decoded and judged, whoever reads the files."""

from __future__ import annotations

from collections.abc import Iterable

import sqlglot
from sqlglot import expressions as exp

from eventide.eventtime.resolution import METADATA_COLUMNS
from eventide.plan.logical import Explode, Filter, Lookup, Source
from eventide.plan.names import field_path
from eventide.plan.physical import EventTimeWatermark, Input


def used_columns(input: Input) -> frozenset[str]:
    """The names of the source's columns that the input needs, as they are declared."""
    if input.source.refuses_empty_rows:
        return frozenset(column.name for column in input.source.columns)
    wanted = columns_in([*(named.sql for named in input.packed), *([input.time] if input.time is not None else [])])
    for step in reversed(input.steps):
        if isinstance(step, Filter):
            wanted |= columns_in([step.condition])
        elif isinstance(step, Explode):
            wanted = wanted.difference(name.lower() for name in step.names) | columns_in([step.sql])
        elif isinstance(step, Lookup):
            wanted = (wanted | columns_in([step.condition])).difference(name.lower() for name in step.names)
        else:
            wanted = columns_in([column.sql for column in step.columns if column.name.lower() in wanted])
    wanted |= _of_source(input.source, isinstance(input.watermark, EventTimeWatermark))
    return frozenset(column.name for column in input.source.columns if column.name.lower() in wanted)


def _of_source(source: Source, event_time: bool) -> set[str]:
    """What the source's own clauses read."""
    told_apart = () if source.dedup is None else source.dedup.columns
    used = {field_path(name, source.columns)[0].lower() for name in told_apart}
    if event_time:
        times = source.messages or ((source.event_time,) if source.event_time is not None else ())
        used |= set(METADATA_COLUMNS) | {time.column.split(".")[0].lower() for time in times}
        used |= {time.column.lower() for time in times}
        used |= columns_in([] if source.watermark_sql is None else [source.watermark_sql])
    if source.admission is not None and source.admission.priority_sql is not None:
        used |= columns_in([source.admission.priority_sql])
    return used


def columns_in(texts: Iterable[str]) -> set[str]:
    """Every name in a place where a column may be, in lower case."""
    trees = (sqlglot.parse_one(text, dialect="spark") for text in texts)
    return {part.name.lower() for tree in trees for column in tree.find_all(exp.Column) for part in column.parts}
