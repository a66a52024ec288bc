"""Which columns of a source a query reads. Only these are decoded and judged, whoever reads the files."""

from __future__ import annotations

from collections.abc import Iterable

import sqlglot
from sqlglot import expressions as exp

from eventide.eventtime.resolution import METADATA_COLUMNS
from eventide.plan.logical import Filter, Source
from eventide.plan.physical import Branch, EventTimeWatermark, Physical


def used_columns(plan: Physical, branch: Branch) -> frozenset[str]:
    """The names of the source's columns that the branch needs, as they are declared."""
    outer = [column.name.lower() for column in plan.stream.query.columns]
    wanted = _names([*(named.sql for named in plan.packed), *([plan.time] if plan.time is not None else [])])
    for step in reversed(branch.steps):
        if isinstance(step, Filter):
            wanted |= _names([step.condition])
        else:
            own = [column.name.lower() for column in step.columns]
            renamed = dict(zip(outer, own, strict=True)) if len(outer) == len(own) else {}
            wanted |= {renamed[name] for name in wanted if name in renamed}  # a UNION ALL has the names of its first
            wanted = _names([column.sql for column in step.columns if column.name.lower() in wanted])
            outer = []
    return frozenset(
        column.name
        for column in branch.source.columns
        if column.name.lower() in wanted | _of_source(branch.source, isinstance(branch.watermark, EventTimeWatermark))
    )


def _of_source(source: Source, event_time: bool) -> set[str]:
    """What the source's own clauses read."""
    used = {name.lower() for name in source.dedup.columns} if source.dedup is not None else set()
    if event_time:
        times = source.messages or ((source.event_time,) if source.event_time is not None else ())
        used |= set(METADATA_COLUMNS) | {time.column.split(".")[0].lower() for time in times}
        used |= {time.column.lower() for time in times}
        used |= _names([] if source.watermark_sql is None else [source.watermark_sql])
    return used


def _names(texts: Iterable[str]) -> set[str]:
    """Every name that stands where a column may, in lower case."""
    trees = (sqlglot.parse_one(text, dialect="spark") for text in texts)
    return {part.name.lower() for tree in trees for column in tree.find_all(exp.Column) for part in column.parts}
