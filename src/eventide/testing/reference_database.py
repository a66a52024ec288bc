"""A database on the reference model: the part of `eventide.Database` that transcripts use, without Spark."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from eventide.errors import EventideError, OptionError, suggest
from eventide.eventtime.heartbeat import Heartbeat, SourceTiming
from eventide.kernels.contract import SIDE_KINDS, USED
from eventide.plan.logical import Source, Stream
from eventide.plan.physical import Physical, ProcessTimeWatermark
from eventide.plan.reads import originals_of
from eventide.plan.stream_source import IS_LATE, OP_COLUMN, ROWTIME_COLUMN, STREAM, TIME_COLUMNS, is_stream
from eventide.result import Result
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.sql.statements import RefreshTable
from eventide.testing.arrivals import Tables
from eventide.testing.batches import Payload, Rows, Step
from eventide.testing.reference import ReferenceModel
from eventide.testing.tables import rows_of
from eventide.testing.values import micros_of, moment


@dataclass(frozen=True)
class Item:
    """What was given to a source: rows, or a watermark."""

    rows: tuple[tuple[Any, ...], ...] = ()
    watermark: int | None = None
    received: int = 0


class Model(Protocol):
    """What runs one stream."""

    physical: Physical
    totals: Counter[str]
    tables: Tables

    @property
    def watermark(self) -> int | None: ...

    @property
    def watermarks(self) -> dict[str, int | None]: ...

    @property
    def output_watermark(self) -> int | None: ...

    @property
    def is_open(self) -> bool: ...

    def batch(
        self,
        rows: Rows | None = None,
        advance: Mapping[str, int] | None = None,
        now: int = 0,
        received: int | None = None,
    ) -> Step: ...

    def tick(self, now: int = 0) -> Step: ...

    def flush(self, now: int = 0) -> Step: ...


@dataclass
class Running:
    """A stream's model, how far it has read each source, and its results so far."""

    model: Model
    positions: dict[str, int] = field(default_factory=dict)
    main: list[dict[str, Any]] = field(default_factory=list)
    side: list[Payload] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)  # what streams that read this one get
    watermarks: list[int | None] = field(default_factory=list)  # the one that goes with each step

    def keep(self, step: Step) -> None:
        self.main += step.main
        self.side += step.side
        self.steps.append(step)
        self.watermarks.append(self.model.output_watermark)

    def items(self, source: Source) -> list[Item]:
        """Its rows, or its late rows, as `source` has them."""
        if IS_LATE in source.options:
            return [Item(_late_rows(source, step)) for step in self.steps]
        return [
            Item(_main_rows(source, step), watermark)
            for step, watermark in zip(self.steps, self.watermarks, strict=True)
        ]


@dataclass
class _State:
    """What survives closing and reopening."""

    catalog: Catalog = field(default_factory=Catalog)
    items: dict[str, list[Item]] = field(default_factory=dict)
    streams: dict[str, Running] = field(default_factory=dict)
    tables: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)


def wall_clock() -> int:
    return time.time_ns() // 1000


class ReferenceDatabase:
    """`checkpoint` is a folder that keeps everything, or None. `clock` returns microseconds since the epoch."""

    def __init__(self, checkpoint: str | Path | None = None, clock: Callable[[], int] = wall_clock) -> None:
        self._file = None if checkpoint is None else Path(checkpoint) / "reference.pickle"
        is_kept = self._file is not None and self._file.exists()
        self._state: _State = pickle.loads(self._file.read_bytes()) if self._file is not None and is_kept else _State()
        self._clock = clock
        self._hearts: dict[str, Heartbeat] = {}

    @property
    def names(self) -> list[str]:
        """The streams, named and inner, each behind those that it reads."""
        return [name for name, _ in self._by_level()]

    def execute(self, sql: str) -> Result:
        """CREATE and DROP, one or more of them."""
        for statement in parse_statements(sql):
            self._state.catalog.apply(statement)
            if isinstance(statement, RefreshTable):
                table = self._state.catalog.table(statement.name)
                self._state.tables[table.name] = rows_of(table)
        wanted = self._state.catalog.graph()
        known, self._state.streams = self._state.streams, {}
        for name in sorted(wanted, key=self._state.catalog.level):
            self._state.streams[name] = known.get(name) or Running(self._model(wanted[name]))
        return Result(pa.table({"status": pa.array([], pa.string())}))

    def _model(self, stream: Stream) -> Model:
        """What runs a stream; those that it reads are running."""
        return ReferenceModel(stream)

    def write(self, source: str, rows: Sequence[Any]) -> int:
        declared = self._state.catalog.source(source)
        names = [column.name for column in declared.columns]
        values = tuple(tuple(row.get(name) for name in names) if isinstance(row, dict) else tuple(row) for row in rows)
        self._tell(declared.name, Item(values, received=self._clock()))
        return len(values)

    def advance_watermark(self, source: str, ts: int | dt.datetime) -> None:
        at = ts * 1000 if isinstance(ts, int) else micros_of(ts)
        self._tell(self._state.catalog.source(source).name, Item(watermark=at))

    def tick(self) -> None:
        """One batch per stream with everything new to it, then whatever the clock makes due."""
        for name, table in self._state.catalog.tables.items():
            if name not in self._state.tables:
                self._state.tables[name] = rows_of(table)
        for name, running in self._by_level():
            self._process(name, running)

    def _by_level(self) -> list[tuple[str, Running]]:
        """The streams, each behind those that it reads."""
        return sorted(self._state.streams.items(), key=lambda each: self._state.catalog.level(each[0]))

    def read(self, name: str) -> Result:
        stream, is_late = self._state.catalog.resolve_readable(name)
        running = self._state.streams[stream]
        if is_late:
            late = [payload for payload in running.side if payload.kind == "late"]
            sides = originals_of(running.model.physical.stream.query)
            names = list(dict.fromkeys(column.name for side in sides for column in side))
            columns = names if len(sides) == 1 else ["source", *names]
            return _result(columns, [{name: _late_row(each).get(name) for name in columns} for each in late])
        return _result([named.name for named in running.model.physical.outputs], running.main)

    def side_output(self, stream: str, kind: str | None = None) -> Result:
        if kind is not None and kind not in SIDE_KINDS:
            raise OptionError(f"there is no side output {kind}", help=suggest(kind, SIDE_KINDS))
        payloads = [payload for payload in self._running(stream).side if kind in (None, payload.kind)]
        rows = [
            {
                "kind": payload.kind,
                "reason": payload.reason,
                "event_time": None if payload.event_time is None else moment(payload.event_time),
                "original_event": json.dumps(dict(payload.original), default=str),
            }
            for payload in payloads
        ]
        return Result(_table(["kind", "reason", "event_time", "original_event"], rows), ("original_event",))

    def watermark(self, stream: str) -> int | None:
        micros = self._running(stream).model.watermark
        return None if micros is None else micros // 1000

    def accounting(self, stream: str) -> dict[str, int]:
        totals = self._running(stream).model.totals
        return {name: totals[name] for name in ("rows_in", USED, *SIDE_KINDS)}

    def stop(self, graceful: bool = True) -> None:
        for name, running in self._by_level() if graceful else ():
            self._process(name, running)
            running.keep(running.model.flush(self._clock()))

    def close(self) -> None:
        if self._file is not None:
            self._file.write_bytes(pickle.dumps(self._state))

    def _running(self, stream: str) -> Running:
        return self._state.streams[self._state.catalog.stream(stream).name]

    def _tell(self, source: str, item: Item) -> None:
        self._state.items.setdefault(source, []).append(item)

    def _inputs(self, running: Running) -> dict[str, list[Item]]:
        """Everything that was given by what a stream reads, by the names that it knows that by."""
        found = {}
        for source in {input.source.name: input.source for input in running.model.physical.inputs}.values():
            upstream = source.options.get(STREAM) if is_stream(source) else None
            found[source.name] = (
                self._state.items.get(source.name, [])
                if upstream is None
                else self._state.streams[upstream].items(source)
            )
        return found

    def _process(self, name: str, running: Running) -> None:
        running.model.tables = self._state.tables
        now, rows, advance = self._clock(), dict[str, list[tuple[Any, ...]]](), dict[str, int]()
        heart = self._hearts.setdefault(name, _heartbeat(running.model))
        received = now
        for source, items in self._inputs(running).items():
            for item in items[running.positions.get(source, 0) :]:
                rows.setdefault(source, []).extend(item.rows)
                if item.watermark is not None:
                    advance[source] = max(item.watermark, advance.get(source, item.watermark))
                elif item.rows:
                    received = item.received
            running.positions[source] = len(items)
            if rows.get(source):
                heart.heard(source, now)
        if rows or advance:
            running.keep(running.model.batch(rows, advance, now, received))
        for decision in heart.decide(now, running.model.watermarks, running.model.is_open):
            if decision.kind == "tick":
                running.keep(running.model.tick(now))
            elif decision.source is not None:
                running.keep(running.model.batch(advance={decision.source: decision.at}, now=now))


def _main_rows(source: Source, step: Step) -> tuple[tuple[Any, ...], ...]:
    unseen = [
        {**dict.fromkeys(TIME_COLUMNS, moment(time)), OP_COLUMN: op}
        for time, op in zip(step.times, step.ops, strict=True)
    ]
    rows = [{**hidden, **row} for hidden, row in zip(unseen, step.main, strict=True)]
    return tuple(tuple(row[column.name] for column in source.columns) for row in rows)


def _late_row(payload: Payload) -> dict[str, Any]:
    return {"source": payload.source, **payload.original}


def _late_rows(source: Source, step: Step) -> tuple[tuple[Any, ...], ...]:
    late = [payload for payload in step.side if payload.kind == "late" and payload.event_time is not None]
    rows = [{ROWTIME_COLUMN: moment(payload.event_time or 0), **_late_row(payload)} for payload in late]
    return tuple(tuple(row.get(column.name) for column in source.columns) for row in rows)


def _heartbeat(model: Model) -> Heartbeat:
    by_name = {input.source.name: input for input in model.physical.inputs}
    timings = [
        SourceTiming(name, b.source.idle_timeout, isinstance(b.watermark, ProcessTimeWatermark))
        for name, b in by_name.items()
    ]
    return Heartbeat(timings, model.physical.emit.every)


def _result(columns: list[str], rows: list[dict[str, Any]]) -> Result:
    return Result(_table(columns, rows))


def _table(columns: list[str], rows: list[dict[str, Any]]) -> pa.Table:
    try:
        return pa.Table.from_arrays([pa.array([row[name] for row in rows]) for name in columns], names=columns)
    except pa.ArrowInvalid as error:
        raise EventideError(f"the rows have no common type: {error}") from None
