"""Watermark algebra: how far event time has advanced for one source, for several, and through a graph of operators.

Times are microseconds since the epoch. A watermark W says: no more on-time rows with event time <= W. None means that
there is none yet, and sorts before every watermark. A watermark never goes back.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from eventide.errors import OptionError, WatermarkViolationError

Name = TypeVar("Name", bound=Hashable)


def later(one: int | None, other: int | None) -> int | None:
    """The later of two watermarks."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


class WatermarkGenerator:
    """The watermark of one source whose rows are out of order by at most `max_out_of_orderness`.

    With every `advance_threshold`-th event the watermark becomes the newest event time seen less that bound, unless
    that would take it back. `advance_to` sets an external watermark, which overrides what the rows say.
    """

    def __init__(self, max_out_of_orderness: int = 0, advance_threshold: int = 1) -> None:
        if max_out_of_orderness < 0:
            raise OptionError("a watermark's lag cannot be negative")
        if advance_threshold < 1:
            raise OptionError(
                "advance_threshold must be 1 or more: a watermark cannot advance more often than with every event"
            )
        self._lag, self._threshold = max_out_of_orderness, advance_threshold
        self._events = 0
        self.max_timestamp_seen: int | None = None
        self.current: int | None = None

    def observe(self, event_time: int) -> int | None:
        """Record an event; returns the watermark if this event moved it, None otherwise."""
        self._events += 1
        self.max_timestamp_seen = later(self.max_timestamp_seen, event_time)
        return self.advance() if self._events % self._threshold == 0 else None

    def advance(self) -> int | None:
        """Advance now, without waiting for the n-th event; returns the watermark if that moved it, None otherwise."""
        return None if self.max_timestamp_seen is None else self.advance_to(self.max_timestamp_seen - self._lag)

    def advance_to(self, watermark: int) -> int | None:
        """Apply a watermark from outside; returns it if that is an advance, None otherwise."""
        if self.current is not None and watermark <= self.current:
            return None
        self.current = watermark
        return watermark


class WatermarkAligner(Generic[Name]):
    """One watermark for several sources: the minimum of theirs.

    * No sources, or one that has no watermark yet: no watermark, None.
    * An idle source does not count until it has an update. If all are idle, the watermark stays where it is.
    * A reported watermark stands: it does not go back, whatever source is added or wakes up.
    """

    def __init__(self) -> None:
        self._watermarks: dict[Name, int | None] = {}
        self._idle: set[Name] = set()
        self._reported: int | None = None

    def add(self, source: Name) -> None:
        """Add a source without a watermark; one that is already known keeps its own."""
        self._watermarks.setdefault(source, None)

    def remove(self, source: Name) -> None:
        """The source has ended for good."""
        self._watermarks.pop(source, None)
        self._idle.discard(source)

    def update(self, source: Name, watermark: int) -> int | None:
        """Update a source's own watermark; one lower than before is ignored. Returns the aligned watermark."""
        self._watermarks[source] = later(self._watermarks.get(source), watermark)
        self._idle.discard(source)
        return self.watermark

    def mark_idle(self, source: Name) -> int | None:
        """The source is idle for now. Returns the aligned watermark."""
        self.add(source)
        self._idle.add(source)
        return self.watermark

    @property
    def watermark(self) -> int | None:
        active = [watermark for source, watermark in self._watermarks.items() if source not in self._idle]
        known = [watermark for watermark in active if watermark is not None]
        if active and len(known) == len(active):
            self._reported = later(self._reported, min(known))
        return self._reported


@dataclass
class _Operator:
    upstreams: WatermarkAligner[str] = field(default_factory=WatermarkAligner)
    feeders: list[str] = field(default_factory=list)
    downstreams: list[str] = field(default_factory=list)
    emitted: int | None = None


class WatermarkPropagator:
    """The minimum rule through a graph of operators.

    * An operator without upstreams is a source: it emits through `emit`. Every other operator emits the minimum of what
    its upstreams emitted last, as soon as that moves.
    * What an operator emits never decreases. A decrease, an unknown operator, an edge that would close a cycle and an
    `emit` for an operator with upstreams are violations.
    * The global watermark is the minimum over all sinks, the operators without downstreams.
    """

    def __init__(self) -> None:
        self._operators: dict[str, _Operator] = {}

    def add_operator(self, operator_id: str) -> None:
        if operator_id in self._operators:
            raise WatermarkViolationError(operator_id, "there is already an operator of this name")
        self._operators[operator_id] = _Operator()

    def add_edge(self, upstream: str, downstream: str) -> None:
        above, below = self._known(upstream), self._known(downstream)
        if self._reaches(downstream, upstream):
            raise WatermarkViolationError(downstream, f"an edge from {upstream} would close a cycle")
        if downstream in above.downstreams:
            raise WatermarkViolationError(downstream, f"there is already an edge from {upstream}")
        above.downstreams.append(downstream)
        below.feeders.append(upstream)
        below.upstreams.add(upstream)
        if above.emitted is not None:
            self._pass_on(downstream, upstream, above.emitted)

    def emit(self, operator_id: str, watermark: int) -> int | None:
        """Emit a source's next watermark and pass it on as far as it moves others. Returns the global watermark."""
        operator = self._source(operator_id)
        if operator.emitted is not None and watermark < operator.emitted:
            raise WatermarkViolationError(
                operator_id, f"it emitted {operator.emitted} and cannot go back to {watermark}"
            )
        operator.emitted = watermark
        for downstream in operator.downstreams:
            self._pass_on(downstream, operator_id, watermark)
        return self.global_watermark

    def mark_idle(self, operator_id: str) -> int | None:
        """Mark a source as idle: it holds nobody back until it emits again. Returns the global watermark."""
        for downstream in self._source(operator_id).downstreams:
            self._moved(downstream, self._operators[downstream].upstreams.mark_idle(operator_id))
        return self.global_watermark

    def watermark(self, operator_id: str) -> int | None:
        """What an operator emitted last."""
        return self._known(operator_id).emitted

    @property
    def global_watermark(self) -> int | None:
        sinks = [operator.emitted for operator in self._operators.values() if not operator.downstreams]
        known = [watermark for watermark in sinks if watermark is not None]
        return min(known) if known and len(known) == len(sinks) else None

    def _pass_on(self, operator_id: str, upstream: str, watermark: int) -> None:
        self._moved(operator_id, self._operators[operator_id].upstreams.update(upstream, watermark))

    def _moved(self, operator_id: str, watermark: int | None) -> None:
        operator = self._operators[operator_id]
        if watermark is None or watermark == operator.emitted:
            return
        operator.emitted = watermark
        for downstream in operator.downstreams:
            self._pass_on(downstream, operator_id, watermark)

    def _reaches(self, start: str, goal: str) -> bool:
        return start == goal or any(self._reaches(below, goal) for below in self._operators[start].downstreams)

    def _source(self, operator_id: str) -> _Operator:
        operator = self._known(operator_id)
        if operator.feeders:
            raise WatermarkViolationError(
                operator_id, f"its watermark is that of its upstreams {', '.join(operator.feeders)}"
            )
        return operator

    def _known(self, operator_id: str) -> _Operator:
        if operator_id not in self._operators:
            raise WatermarkViolationError(operator_id, "there is no such operator")
        return self._operators[operator_id]
