"""The places of rows in the reference model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eventide.plan.physical import Physical, RankRows, ToldPlaces
from eventide.testing.aggregates import frozen
from eventide.testing.operators import LATE, Operator, Refused, Timed, forwarded, put


class Ranking(Operator):
    """Rows with their place, when the watermark has passed them."""

    def __init__(self, physical: Physical, rank: RankRows) -> None:
        super().__init__(physical)
        self.rank, self.lateness = rank, physical.emit.allowed_lateness
        self.waiting: list[Timed] = []
        self.passed: int | None = None

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        for row in rows:
            if self.passed is not None and row.time <= self.passed:
                self.sides.route("late", Refused(row, LATE))
            else:
                self.waiting.append(row)

    def pass_time(self, watermark: int) -> None:
        self._release(watermark - 1 - self.lateness)

    def flush(self, until: int) -> None:
        self._release(until)

    def _release(self, until: int) -> None:
        self.passed = until if self.passed is None else max(until, self.passed)
        leaving = [row for row in self.waiting if row.time <= self.passed]
        self.waiting = [row for row in self.waiting if row.time > self.passed]
        groups: dict[Any, list[Timed]] = {}
        for row in leaving:
            keys = [row.packed[key.sql] for key in self.physical.inputs[0].keys]
            groups.setdefault((row.time, frozen(keys)), []).append(row)
        for rows in groups.values():
            self.emitted += [{**forwarded(row), "__place": place} for row, place in placed(self.rank, rows)]


def placed(rank: RankRows, rows: list[Timed]) -> list[tuple[Timed, int]]:
    """Rows with their places, best first; of equal ones in the order in which they are given."""
    for key in reversed(rank.order):
        known = [row for row in rows if row.packed[key.column] is not None]
        nulls = [row for row in rows if row.packed[key.column] is None]
        known = sorted(known, key=lambda row: row.packed[key.column], reverse=key.descending)
        rows = [*nulls, *known] if key.nulls_first else [*known, *nulls]
    found: list[tuple[Timed, int]] = []
    distinct: list[Any] = []
    first = 0
    for number, row in enumerate(rows, 1):
        value = [row.packed[key.column] for key in rank.order]
        if not distinct or distinct[-1] != value:
            distinct.append(value)
            first = number
        place = {"row_number": number, "rank": first, "dense_rank": len(distinct)}[rank.function.value]
        found.append((row, place))
    return found


@dataclass(eq=False)
class _Partition:
    """Rows in the order of arrival, what was told of them, and the time of the newest."""

    rows: list[Timed] = field(default_factory=list)
    told: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)  # what makes it differ, and the row
    newest: int = 0


class RankChanges(Operator):
    """The rows of some places of each partition, every change told."""

    def __init__(self, physical: Physical, rank: RankRows, told: ToldPlaces) -> None:
        super().__init__(physical)
        self.rank, self.told = rank, told
        self.partitions: dict[Any, _Partition] = {}

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        touched: dict[Any, _Partition] = {}
        for row in rows:
            key = frozen([row.packed[each.sql] for each in self.physical.inputs[0].keys])
            partition = self.partitions.setdefault(key, _Partition(newest=row.time))
            partition.newest = max(partition.newest, row.time)
            put(partition.rows, row, self.physical.inputs[0].changes)
            touched[key] = partition
        gone, come = [], []
        for key, partition in touched.items():
            before, now = partition.told, self._now(partition)
            left = list(before)
            partition.told = []
            for identity, given in now:
                known = next((each for each in left if each[0] == identity), None)
                if known is None:
                    come.append({**given, "__op": 1})
                else:
                    left.remove(known)
                partition.told.append(known or (identity, given))
            gone += [{**given, "__op": -1} for _, given in left]
            if not partition.rows:
                del self.partitions[key]
        self.emitted += [*gone, *come]

    def pass_time(self, watermark: int) -> None:
        ttl = self.told.ttl
        if ttl is not None:
            self.partitions = {key: each for key, each in self.partitions.items() if each.newest + ttl > watermark}

    def _now(self, partition: _Partition) -> list[tuple[Any, dict[str, Any]]]:
        rows = partition.rows[::-1] if self.told.latest_first else partition.rows
        found = [(row, place) for row, place in placed(self.rank, rows) if self.told.first <= place <= self.told.last]
        return [
            (
                frozen([*(row.packed[name] for name in self.told.shown), place if self.told.shows_place else 0]),
                {**forwarded(row), "__place": place},
            )
            for row, place in found
        ]
