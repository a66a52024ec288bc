"""Running aggregates in the reference model: rows in event-time order, each with the rows before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eventide.plan.physical import OverRows, Physical
from eventide.plan.windows import LagFrame, RangeFrame
from eventide.testing.aggregates import frozen, result
from eventide.testing.operators import BEHIND, Operator, Refused, Timed, forwarded, put
from eventide.testing.ranking import Partition, in_order


@dataclass
class _Past:
    rows: list[Timed] = field(default_factory=list)


class Frames(Operator):
    def __init__(self, physical: Physical, over: OverRows) -> None:
        super().__init__(physical)
        self._over = over
        self._waiting: list[Timed] = []
        self._past: dict[Any, _Past] = {}
        self._flushed: int | None = None

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        for row in rows:
            if self._flushed is not None and row.time <= self._flushed:
                self.sides.route("late", Refused(row, BEHIND))
            else:
                self._waiting.append(row)

    def pass_time(self, watermark: int) -> None:
        passed = sorted((row for row in self._waiting if row.time <= watermark), key=lambda row: row.time)
        self._waiting = [row for row in self._waiting if row.time > watermark]
        for row in passed:
            self._past_of(row).rows.append(row)
        for row in passed:
            frame = self._frame(row)
            packed, times = [each.packed for each in frame], [each.time for each in frame]
            results = {call.name: result(call, packed, times) for call in self._over.aggregates}
            self.emitted.append({**forwarded(row), **results})
        if self._over.ttl is not None:
            ttl = self._over.ttl
            self._past = {key: past for key, past in self._past.items() if past.rows[-1].time + ttl > watermark}

    def flush(self, until: int) -> None:
        self._flushed = until
        self.pass_time(until)

    def _past_of(self, row: Timed) -> _Past:
        key = frozen([row.packed[each.sql] for each in self.physical.inputs[0].keys])
        return self._past.setdefault(key, _Past())

    def _frame(self, row: Timed) -> list[Timed]:
        rows, preceding = self._past_of(row).rows, self._over.frame.preceding
        if isinstance(self._over.frame, RangeFrame):
            least = rows[0].time if preceding is None else row.time - preceding
            return [each for each in rows if least <= each.time <= row.time]
        place = next(number for number, each in enumerate(rows) if each is row)
        if isinstance(self._over.frame, LagFrame):
            return rows[place - (preceding or 0) : place - (preceding or 0) + 1] if place >= (preceding or 0) else []
        return rows[0 if preceding is None else max(0, place - preceding) : place + 1]


class ChangingFrames(Operator):
    """The same as a change log: rows in any order, told anew when their frame changes."""

    def __init__(self, physical: Physical, over: OverRows) -> None:
        super().__init__(physical)
        self._over = over
        self._partitions: dict[Any, Partition] = {}

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        touched: dict[Any, Partition] = {}
        for row in rows:
            key = frozen([row.packed[each.sql] for each in self.physical.inputs[0].keys])
            partition = self._partitions.setdefault(key, Partition(newest=row.time))
            partition.newest = max(partition.newest, row.time)
            put(partition.rows, row, self.physical.inputs[0].changes)
            touched[key] = partition
        for key, partition in touched.items():
            self.emitted += partition.tell(self._now(partition.rows))
            if not partition.rows:
                del self._partitions[key]

    def pass_time(self, watermark: int) -> None:
        ttl = self._over.ttl
        if ttl is not None:
            self._partitions = {key: each for key, each in self._partitions.items() if each.newest + ttl > watermark}

    def _now(self, rows: list[Timed]) -> list[tuple[Any, dict[str, Any]]]:
        ordered = in_order(self._over.order, rows)
        now = []
        for place, row in enumerate(ordered):
            frame = self._frame(ordered, place)
            packed, times = [each.packed for each in frame], [each.time for each in frame]
            results = {call.name: result(call, packed, times) for call in self._over.aggregates}
            mark = frozen([*(row.packed[name] for name in self._over.shown), *results.values()])
            now.append((mark, {**forwarded(row), **results}))
        return now

    def _frame(self, ordered: list[Timed], place: int) -> list[Timed]:
        preceding = self._over.frame.preceding
        if not isinstance(self._over.frame, RangeFrame):
            return ordered[0 if preceding is None else max(0, place - preceding) : place + 1]
        own = self._value(ordered[place])
        last = max(number for number, each in enumerate(ordered) if self._value(each) == own)
        least = None if preceding is None else ordered[place].time - preceding
        return [each for each in ordered[: last + 1] if least is None or each.time >= least]

    def _value(self, row: Timed) -> Any:
        return frozen([row.packed[key.column] for key in self._over.order])
