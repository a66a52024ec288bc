"""The engine's batches in one process, without Spark: the common part of ReferenceModel and KernelRunner.

A batch is judged by the watermark of the batches before it. Then the watermark moves, and whatever was waiting for it
happens; on Spark that is the batch without data that follows. Times are microseconds since the epoch.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eventide.admission.controller import StreamAdmissionController
from eventide.errors import EngineError
from eventide.kernels.contract import ROWTIME
from eventide.plan.logical import Stream
from eventide.plan.physical import AggregateWindows, EventTimeWatermark, ForwardRows, Input, Physical, RankRows
from eventide.plan.planner import plan
from eventide.plan.windows import Slide
from eventide.testing.arrivals import Arrival, Tables, arrivals_of, is_carried
from eventide.testing.expressions import evaluate, holds
from eventide.testing.values import micros_of
from eventide.testing.watermark import WatermarkGenerator, WatermarkPropagator

MILLISECOND = 1000  # microseconds; Spark's watermark is no finer
_OPERATOR, _SINK = "operator", "sink"

Rows = Mapping[str, Sequence[Sequence[Any]]]  # by source, values in column order


@dataclass(frozen=True)
class Payload:
    """A row that was not used."""

    kind: str
    reason: str
    event_time: int | None
    original: Mapping[str, Any] = field(compare=False, hash=False, default_factory=dict)
    source: str = field(compare=False, default="")


@dataclass
class Step:
    """The results of one batch, including what closes after it; `counts` are those of this batch alone."""

    main: list[dict[str, Any]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)  # the event times of the main rows
    ops: list[int] = field(default_factory=list)  # -1 for those that are taken back, 1 for others
    side: list[Payload] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    watermark: int | None = None


class BatchRunner(ABC):
    """Runs one stream batch by batch. Subclasses do the computing; this class knows when, and what a row's time is."""

    def __init__(self, stream: Stream, resolution: int = MILLISECOND) -> None:
        self.physical = plan(stream)
        self._resolution = resolution
        self._inputs = {f"input {number}": input for number, input in enumerate(self.physical.inputs)}
        self._generators = {name: WatermarkGenerator(_lag(input)) for name, input in self._inputs.items()}
        self._limits = {
            name: StreamAdmissionController(input.source.admission.sla)
            for name, input in self._inputs.items()
            if input.source.admission is not None
        }
        self._propagator = WatermarkPropagator()
        for name in (*self._inputs, _OPERATOR, _SINK):
            self._propagator.add_operator(name)
        for name in self._inputs:
            self._propagator.add_edge(name, _OPERATOR)
        self._propagator.add_edge(_OPERATOR, _SINK)
        self.totals: Counter[str] = Counter()
        self.tables: Tables = {}  # those that rows are looked up in, as they are now
        self._newest: int | None = None  # the latest event time so far

    def change(self, stream: Stream) -> None:
        """Go on under another text of the stream, which must read the same sources."""
        self.physical = plan(stream)
        self._inputs = {f"input {number}": input for number, input in enumerate(self.physical.inputs)}
        for name, input in self._inputs.items():
            before, self._generators[name] = self._generators[name].current, WatermarkGenerator(_lag(input))
            if before is not None:
                self._generators[name].advance_to(before)

    @property
    def watermark(self) -> int | None:
        return self._propagator.global_watermark

    @property
    def watermarks(self) -> dict[str, int | None]:
        """By source name; the lowest if the stream reads a source twice."""
        watermarks: dict[str, int | None] = {}
        for name, input in self._inputs.items():
            own, known = (
                self._generators[name].current,
                watermarks.get(input.source.name, self._generators[name].current),
            )
            watermarks[input.source.name] = None if own is None or known is None else min(own, known)
        return watermarks

    def batch(
        self,
        rows: Rows | None = None,
        advance: Mapping[str, int] | None = None,
        now: int = 0,
        received: int | None = None,
    ) -> Step:
        """Rows and external watermarks of one batch, which begins at `now`; the rows were written at `received` (or
        `now`).
        """
        step = Step()
        arrivals: list[Arrival] = []
        for number, (name, input) in enumerate(self._inputs.items()):
            generator = self._generators[name]
            given = (rows or {}).get(input.source.name, ())
            came = now if received is None else received
            for arrival in arrivals_of(number, input, given, now, came, self._limits.get(name), self.tables):
                if arrival.rejected is not None:
                    step.counts["rejected"] += 1
                    step.side.append(Payload("rejected", arrival.rejected, arrival.time, arrival.original))
                    continue
                if not arrival.left_out:
                    arrivals.append(arrival)
                self._observe(generator, input, arrival)
            if advance and input.source.name in advance:
                generator.advance_to(advance[input.source.name])
        step.counts["rows_in"] = len(arrivals) + step.counts["rejected"]
        if arrivals:
            self._take(arrivals, self.watermark, now, step)
        return self._end(step, now)

    def mark_idle(self, source: str, now: int = 0) -> Step:
        """The source stops holding the watermark back until it has rows again."""
        for name, input in self._inputs.items():
            if input.source.name == source:
                self._propagator.mark_idle(name)
        return self._end(Step(), now)

    def tick(self, now: int = 0) -> Step:
        """Processing time has passed, which is what EMIT EVERY waits for."""
        step = Step(watermark=self.watermark)
        self._tick(self.watermark, now, step)
        return self._finished(step)

    def flush(self, now: int = 0) -> Step:
        """A graceful stop: emits what has begun by the latest event time."""
        step = Step(watermark=self.watermark)
        if self._newest is not None:
            self._flush(self._newest, self.watermark, now, step)
        return self._finished(step)

    @abstractmethod
    def _take(self, arrivals: list[Arrival], watermark: int | None, now: int, step: Step) -> None:
        """Take in the rows of a batch; counts, raw main rows and payloads go to `step`."""

    @abstractmethod
    def _pass_time(self, watermark: int, now: int, step: Step) -> None:
        """The watermark is at `watermark` now."""

    @abstractmethod
    def _tick(self, watermark: int | None, now: int, step: Step) -> None: ...

    @abstractmethod
    def _flush(self, until: int, watermark: int | None, now: int, step: Step) -> None: ...

    def _observe(self, generator: WatermarkGenerator, input: Input, arrival: Arrival) -> None:
        """A row with a problem never moves the watermark; one that carries a watermark moves it by that alone."""
        if arrival.problem is not None or arrival.time is None:
            return
        self._newest = arrival.time if self._newest is None else max(self._newest, arrival.time)
        if not arrival.is_declared:
            return
        if isinstance(input.watermark, EventTimeWatermark) and input.watermark.told:
            return
        if not is_carried(input):
            generator.observe(arrival.time)
        elif arrival.watermark is not None:
            generator.advance_to(arrival.watermark)

    def _end(self, step: Step, now: int) -> Step:
        """The end of a batch: the watermark moves, and what was waiting for it happens."""
        for name, generator in self._generators.items():
            claimed = None if generator.current is None else generator.current // self._resolution * self._resolution
            if claimed is not None and claimed != self._propagator.watermark(name):
                self._propagator.emit(name, claimed)
        step.watermark = self.watermark
        if step.watermark is not None:
            self._pass_time(step.watermark, now, step)
        return self._finished(step)

    def _finished(self, step: Step) -> Step:
        used = sum(count for name, count in step.counts.items() if name != "rows_in")
        if used != step.counts["rows_in"]:
            raise EngineError(f"{step.counts['rows_in']} rows came in, but the counts are {dict(step.counts)}")
        self.totals.update(step.counts)
        finished = sorted(
            finish(self.physical, step.main), key=lambda each: min(each[2], 0)
        )  # first what is taken back
        step.main, step.times = [row for row, _, _ in finished], [time for _, time, _ in finished]
        step.ops = [op for _, _, op in finished]
        return step


def _lag(input: Input) -> int:
    return input.watermark.lag if isinstance(input.watermark, EventTimeWatermark) else 0


# From the operator's output to the user's columns --------------------------------------------------------------------


def finish(physical: Physical, rows: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int, int]]:
    """HAVING and the select list, over rows with the operator's columns; and the event time and the op of each row."""
    change = physical.change_column
    for row in rows:
        known = {name.lower(): value for name, value in row.items()}
        if known.get("window_start") is not None and not isinstance(physical.operator, ForwardRows | RankRows):
            known["window_id"] = window_id(physical.plan_id, known["window_start"], known["window_end"])
        if physical.having is None or holds(physical.having, known):
            given = {named.name: evaluate(named.sql, known) for named in physical.outputs}
            yield given, _time_of(physical, known), 1 if change is None else known[change.lower()]


def _time_of(physical: Physical, row: Mapping[str, Any]) -> int:
    """A row's own time, or the last moment of its window; of a sliding window, the time of the row that it is of."""
    if row.get(ROWTIME) is not None:
        return micros_of(row[ROWTIME])
    window = physical.operator.window if isinstance(physical.operator, AggregateWindows) else None
    return micros_of(row["window_end"]) - ((window.lookahead or 0) if isinstance(window, Slide) else 1)


def window_id(plan_id: str, start: Any, end: Any) -> str:
    nanos = [micros_of(moment) * 1000 for moment in (start, end)]
    return hashlib.sha256(f"{plan_id}:{nanos[0]}:{nanos[1]}".encode()).hexdigest()[:32]
