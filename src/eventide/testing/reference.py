"""The reference model: what a stream means, row by row in one process, written to be read rather than to be fast.

It shares nothing with the kernels. Spark and the kernels are right if they agree with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from eventide.plan.co_location import late_policy
from eventide.plan.identity import aggregate_identities
from eventide.plan.logical import Stream
from eventide.plan.modes import EmitMode, LatePolicy
from eventide.plan.physical import Physical
from eventide.testing.arrivals import Arrival
from eventide.testing.batches import MILLISECOND, BatchRunner, Payload, Step
from eventide.testing.lateness import Keep, LateDataHandler, Reassign, SideOutput
from eventide.testing.operator_of import operator
from eventide.testing.operators import BEHIND, Refused, Timed, Windows

DUPLICATE = "duplicate_id"


@dataclass(frozen=True)
class _Seen:
    time: int
    within: int


class ReferenceModel(BatchRunner):
    """One stream. Each call returns a `Step`: main rows, payloads, counts of the batch, the watermark after it."""

    def __init__(self, stream: Stream, resolution: int = MILLISECOND) -> None:
        super().__init__(stream, resolution)
        self._operator = operator(self.physical)
        self._handler = _handler(self.physical)
        self._seen: dict[object, list[_Seen]] = {}  # by id, the rows that were used
        self._keeps_late = self.physical.emit.mode is not EmitMode.FINAL
        self._known = frozenset(aggregate_identities(self.physical).values())

    def change(self, stream: Stream) -> None:
        before = self._operator
        super().change(stream)
        self._operator, self._handler = operator(self.physical), _handler(self.physical)
        self._keeps_late = self.physical.emit.mode is not EmitMode.FINAL
        self._known = frozenset(aggregate_identities(self.physical).values())
        self._operator.go_on_from(before, self.watermark)

    @property
    def is_open(self) -> bool:
        """Whether a window is waiting for time to pass."""
        return isinstance(self._operator, Windows) and bool(self._operator.open)

    @property
    def output_watermark(self) -> int | None:
        """The watermark of what the stream gives."""
        return None if self.watermark is None else self._operator.output_watermark(self.watermark)

    def _take(self, arrivals: list[Arrival], watermark: int | None, now: int, step: Step) -> None:
        rows = []
        self._forget(watermark)
        for arrival in arrivals:
            time = self._admit(arrival, watermark, step)
            if time is not None:
                rows.append(Timed(time, arrival.packed, arrival.original, arrival.input, self._known))
        self._operator.take(rows, watermark)
        self._collect(step)
        refused = sum(step.counts[kind] for kind in ("late", "duplicate", "error", "evicted"))
        step.counts["used"] = len(arrivals) - refused

    def _admit(self, arrival: Arrival, watermark: int | None, step: Step) -> int | None:
        """The event time with which the row reaches the operator; None if it does not."""
        if arrival.problem is not None or arrival.time is None:
            self._put_aside(step, "error", arrival.problem or "", arrival, arrival.time)
            return None
        decision = Keep(arrival.time) if self._handler is None else self._handler.handle(arrival.time, watermark)
        if not isinstance(decision, Keep):
            self._put_aside(step, "late", BEHIND, arrival, arrival.time)
            return None
        if self._is_duplicate(arrival, arrival.time):
            self._put_aside(step, "duplicate", DUPLICATE, arrival, arrival.time)
            return None
        return decision.event_time

    def _is_duplicate(self, arrival: Arrival, time: int) -> bool:
        """Whether a row with the same id, at most `within` away in time, was used."""
        if arrival.identity is None:
            return False
        known = self._seen.setdefault(arrival.identity, [])
        if any(abs(time - seen.time) <= seen.within for seen in known):
            return True
        known.append(_Seen(time, arrival.within))
        return False

    def _forget(self, watermark: int | None) -> None:
        """An id is forgotten once the watermark is so far past it that a row near it would be late anyway."""
        if watermark is not None:
            for identity, known in list(self._seen.items()):
                self._seen[identity] = [
                    seen for seen in known if seen.time + seen.within + self._operator.horizon > watermark
                ]

    def _pass_time(self, watermark: int, now: int, step: Step) -> None:
        self._operator.pass_time(watermark)
        self._collect(step)

    def _tick(self, watermark: int | None, now: int, step: Step) -> None:
        self._operator.tick()
        self._collect(step)

    def _flush(self, until: int, watermark: int | None, now: int, step: Step) -> None:
        if self.physical.options.late_policy is LatePolicy.REASSIGN and watermark is not None:
            until = max(until, watermark)  # where rows may have been moved to
        self._operator.flush(until)
        self._collect(step)

    def _collect(self, step: Step) -> None:
        step.main += self._operator.emitted
        self._operator.emitted = []
        for kind in ("late", "evicted"):
            for refused in self._operator.sides.drain(kind):
                self._refused(step, kind, refused)

    def _refused(self, step: Step, kind: str, refused: Refused) -> None:
        step.counts[kind] += 1
        if kind != "late" or self._keeps_late:
            step.side.append(self._payload(kind, refused.reason, refused.row.time, refused.row))

    def _put_aside(self, step: Step, kind: str, reason: str, arrival: Arrival, time: int | None) -> None:
        step.counts[kind] += 1
        if kind != "late" or self._keeps_late:
            step.side.append(self._payload(kind, reason, time, arrival))

    def _payload(self, kind: str, reason: str, time: int | None, row: Arrival | Timed) -> Payload:
        return Payload(kind, reason, time, row.original, self.physical.inputs[row.input].source.name)


def _handler(physical: Physical) -> LateDataHandler | None:
    """What happens to rows behind the watermark before any window sees them."""
    policy, late = physical.options.late_policy, SideOutput("late")
    if late_policy(physical) is LatePolicy.STRICT:
        return LateDataHandler(late)
    if policy is LatePolicy.REASSIGN:
        return LateDataHandler(Reassign(physical.options.max_lateness or 0, late))
    return None
