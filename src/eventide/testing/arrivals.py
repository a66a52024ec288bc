"""From a source's rows to what reaches the operator: the resolution chain, WHERE, SELECT in FROM, the packed columns.

    SQL override -> the column that the source declares -> what the source knows about the row -> the time of the batch

On Spark these are expressions that Spark evaluates; here they are evaluated row by row.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eventide.admission.controller import Reject, StreamAdmissionController
from eventide.eventtime.durations import MILLISECOND
from eventide.eventtime.registry import event_time_types
from eventide.eventtime.resolution import FUTURE, METADATA_COLUMNS, UNDECODABLE, UNPARSEABLE
from eventide.plan.logical import Explode, Filter, Lookup, Source
from eventide.plan.names import field_path
from eventide.plan.physical import EventTimeWatermark, Input
from eventide.testing.expressions import evaluate, holds
from eventide.testing.values import UndecodableError, decoded, event_time, iso_micros, micros_of

Values = Mapping[str, Any]  # by lower-case name
Tables = Mapping[str, Sequence[Sequence[Any]]]  # rows by the table's name, as its columns are declared


@dataclass(frozen=True)
class Arrival:
    """A row as it reaches the operator: its time, or what is wrong with it, and its packed columns."""

    time: int | None
    problem: str | None
    packed: Mapping[str, Any]
    original: Mapping[str, Any]  # by the user's names
    watermark: int | None = None  # that the row carries
    identity: Any = None  # the source and the values of its DEDUPLICATE BY columns; None: cannot be a duplicate
    within: int = 0
    input: int = 0  # the number of the input that it came from
    is_declared: bool = True  # whether its time is the one that was declared, and not a fallback
    rejected: str | None = None  # why the source's limits do not admit it
    left_out: bool = False  # by WHERE or the like: nothing but its time counts


def arrivals_of(
    number: int,
    input: Input,
    rows: Sequence[Sequence[Any]],
    now: int,
    received: int,
    limits: StreamAdmissionController | None = None,
    tables: Tables | None = None,
) -> Iterator[Arrival]:
    """What input `number` turns rows into that were written at `received`, in a batch that begins at `now`. A row that
    a filter removes takes its token all the same, and if it is admitted its time still counts.
    """
    names = [column.name for column in input.columns]
    for values in rows:
        row, time, problem, is_declared = _scanned(input, values, now, received)
        identity, watermark = _identity(input.source, row), _watermark(input, row, problem)
        stepped = _stepped(input, row, problem, tables or {})
        if not stepped:
            rejected = _rejected(limits, time, problem, is_declared, received)
            if rejected is None and problem is None and input.time is None and is_declared:
                yield Arrival(time, None, {}, {}, watermark, input=number, left_out=True)
        for place, kept in enumerate(stepped):
            original = dict(zip(names, kept.values(), strict=True))
            row = {name.lower(): value for name, value in original.items()}
            own_time, own_problem, is_overridden = _overridden(input.time, row, time, problem, input.source, now)
            is_unread = own_problem == UNDECODABLE
            packed = {named.name: None if is_unread else evaluate(named.sql, row) for named in input.packed}
            within = input.source.dedup.within if input.source.dedup is not None else 0
            has_time = is_declared or is_overridden
            rejected = _rejected(limits, own_time, own_problem, has_time, received)
            own = identity if identity is None or place == 0 else (identity, place)
            yield Arrival(own_time, own_problem, packed, original, watermark, own, within, number, has_time, rejected)


def _rejected(
    limits: StreamAdmissionController | None, time: int | None, problem: str | None, is_declared: bool, received: int
) -> str | None:
    if limits is None or problem is not None:
        return None
    decision = limits.try_admit(time if is_declared else None, received // MILLISECOND * MILLISECOND)
    return decision.reason if isinstance(decision, Reject) else None


def is_carried(input: Input) -> bool:
    """Whether rows carry the watermark themselves, instead of event time and lag."""
    return isinstance(input.watermark, EventTimeWatermark) and input.watermark.carried is not None


def _scanned(
    input: Input, values: Sequence[Any], now: int, received: int
) -> tuple[dict[str, Any], int | None, str | None, bool]:
    """A source's row, its event time, what is wrong with it, and whether the time is the declared one."""
    source = input.source
    try:
        converted = [decoded(value, column.type) for value, column in zip(values, source.columns, strict=True)]
    except UndecodableError:
        return {column.name.lower(): None for column in source.columns}, None, UNDECODABLE, True
    row = {column.name.lower(): value for column, value in zip(source.columns, converted, strict=True)}
    if not isinstance(input.watermark, EventTimeWatermark):
        return row, now, None, True
    value, type = _declared(source, row)
    if value is None:
        known = _metadata(source, row)
        return row, received if known is None else known, None, False
    time = event_time(value, event_time_types.resolve(type))
    if time is None:
        return row, None, UNPARSEABLE, True
    return row, time, FUTURE if time > now + source.max_future_skew else None, True


def _declared(source: Source, row: Values) -> tuple[Any, str]:
    """The value of the declared event time and its type. Of several messages, the first that is not NULL counts."""
    for declaration in source.messages:
        message, _, column = declaration.column.lower().partition(".")
        if row[message] is not None:
            return {name.lower(): value for name, value in row[message].items()}.get(column), declaration.type
    if source.messages or source.event_time is None:
        return None, ""
    return row[source.event_time.column.lower()], source.event_time.type


def _metadata(source: Source, row: Values) -> int | None:
    """The time of receipt in the row itself, unless that column is the event time."""
    declared = {time.column.lower() for time in source.messages or ((source.event_time,) if source.event_time else ())}
    for name in METADATA_COLUMNS:
        value = None if name in declared else row.get(name)
        time = (
            micros_of(value)
            if isinstance(value, dt.datetime)
            else iso_micros(value)
            if isinstance(value, str)
            else None
        )
        if time is not None:
            return time
    return None


def _watermark(input: Input, row: Values, problem: str | None) -> int | None:
    sql, declared = input.source.watermark_sql, input.source.event_time
    if not is_carried(input) or sql is None or declared is None or problem == UNDECODABLE:
        return None
    value = evaluate(sql, row)
    if value is None or isinstance(value, dt.datetime):
        return None if value is None else micros_of(value)
    return event_time(value, event_time_types.resolve(declared.type))


def _identity(source: Source, row: Values) -> Any:
    """NULL is not an id: the row is never a duplicate."""
    values = () if source.dedup is None else tuple(_field(source, row, name) for name in source.dedup.columns)
    return None if not values or all(value is None for value in values) else (source.name, *values)


def _field(source: Source, row: Values, name: str) -> Any:
    first, *rest = field_path(name, source.columns)
    value = row[first.lower()]
    for part in rest:
        value = None if value is None else value[part]
    return value


def _stepped(input: Input, row: dict[str, Any], problem: str | None, tables: Tables) -> list[dict[str, Any]]:
    """What the steps of its input make of a row: nothing if a filter removes it, several rows if it is exploded or a
    table has several for it. A row that could not be decoded has no values to judge it by, and passes.
    """
    rows = [row]
    for step in input.steps:
        if isinstance(step, Filter):
            rows = [each for each in rows if problem == UNDECODABLE or holds(step.condition, each)]
        elif isinstance(step, Explode):
            rows = [made for each in rows for made in _exploded(step, each, problem)]
        elif isinstance(step, Lookup):
            rows = [found for each in rows for found in _looked_up(step, each, problem, tables)]
        else:
            columns = step.columns
            is_unread = problem == UNDECODABLE
            rows = [{c.name.lower(): None if is_unread else evaluate(c.sql, each) for c in columns} for each in rows]
    return rows


def _exploded(step: Explode, row: dict[str, Any], problem: str | None) -> list[dict[str, Any]]:
    """The row with each element of an array, or each key and value of a map."""
    names = [name.lower() for name in step.names]
    nothing = {**row, **dict.fromkeys(names)}
    if problem == UNDECODABLE:
        return [nothing]
    elements = evaluate(step.sql, row) or []
    values = list(elements.items()) if isinstance(elements, dict) else [(element,) for element in elements]
    if step.position:
        values = [(place, *each) for place, each in enumerate(values)]
    found = [{**row, **dict(zip(names, each, strict=True))} for each in values]
    return [nothing] if step.outer and not found else found


def _looked_up(step: Lookup, row: dict[str, Any], problem: str | None, tables: Tables) -> list[dict[str, Any]]:
    """The row with each row of the table that belongs to it."""
    names = [name.lower() for name in step.names]
    nothing = {**row, **dict.fromkeys(names)}
    if problem == UNDECODABLE:
        return [nothing]
    together = [{**row, **dict(zip(names, values, strict=True))} for values in tables[step.table.name]]
    found = [each for each in together if holds(step.condition, each)]
    return [nothing] if step.outer and not found else found


def _overridden(
    sql: str | None, row: Values, time: int | None, problem: str | None, source: Source, now: int
) -> tuple[int | None, str | None, bool]:
    """The time that the query itself names, if it is not NULL, instead of what the scan found; and whether it is."""
    value = None if sql is None or problem == UNDECODABLE else evaluate(sql, row)
    if value is None:
        return time, problem, False
    given = micros_of(value)
    return given, FUTURE if given > now + source.max_future_skew else None, True
