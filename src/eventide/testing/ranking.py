"""The places of rows in the reference model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from eventide.plan.physical import Physical, RankRows, SortColumn, ToldPlaces
from eventide.plan.windows import Calendar, PanedWindow
from eventide.testing.aggregates import frozen
from eventide.testing.operators import LATE, Operator, Refused, Timed, forwarded, put
from eventide.testing.row_windows import bounds, windows_of

_START = "__window_start"


class Ranking(Operator):
    """Rows with their place, when the watermark has passed them."""

    def __init__(self, physical: Physical, rank: RankRows) -> None:
        super().__init__(physical)
        self.rank, self.lateness = rank, physical.emit.allowed_lateness
        self.waiting: list[Timed] = []
        self.passed: int | None = None

    def output_watermark(self, watermark: int) -> int:
        return watermark - self.lateness

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        for row in rows:
            if self.passed is not None and row.time <= self.passed:
                self.sides.route("late", Refused(row, LATE))
            else:
                self.waiting.append(row)

    def go_on_from(self, before: Operator, watermark: int | None) -> None:
        if isinstance(before, Ranking):
            self.waiting, self.passed = [self.repacked(row) for row in before.waiting], before.passed

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
            groups.setdefault(self._group(row), []).append(row)
        for rows in groups.values():
            self.emitted += [{**self._given(row), "__place": place} for row, place in self._placed(rows)]

    def _group(self, row: Timed) -> Any:
        """Rows that agree in this are ranked together."""
        return (row.time, frozen([row.packed[key.sql] for key in self.physical.inputs[0].keys]))

    def _given(self, row: Timed) -> dict[str, Any]:
        return forwarded(row)

    def _placed(self, rows: list[Timed]) -> list[tuple[Timed, int]]:
        return placed(self.rank, rows)


def in_order(order: tuple[SortColumn, ...], rows: list[Timed]) -> list[Timed]:
    """Rows sorted; equal ones stay in the order in which they are given."""
    for key in reversed(order):
        known = [row for row in rows if row.packed[key.column] is not None]
        nulls = [row for row in rows if row.packed[key.column] is None]
        known = sorted(known, key=lambda row: row.packed[key.column], reverse=key.descending)
        rows = [*nulls, *known] if key.nulls_first else [*known, *nulls]
    return rows


def placed(rank: RankRows, rows: list[Timed]) -> list[tuple[Timed, int]]:
    """Rows with their places, best first; of equal ones in the order in which they are given."""
    rows = in_order(rank.order, rows)
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
class Partition:
    """Rows in the order of arrival, what was told of them, and the time of the newest."""

    rows: list[Timed] = field(default_factory=list)
    told: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)  # what makes it differ, and the row
    newest: int = 0

    def tell(self, now: list[tuple[Any, dict[str, Any]]]) -> list[dict[str, Any]]:
        """The changes that make of what was told what is there now."""
        left, come = list(self.told), []
        self.told = []
        for identity, given in now:
            known = next((each for each in left if each[0] == identity), None)
            if known is None:
                come.append({**given, "__op": 1})
            else:
                left.remove(known)
            self.told.append(known or (identity, given))
        return [*({**given, "__op": -1} for _, given in left), *come]


class RankingInWindows(Ranking):
    """Rows with their places in every window that holds them, when that has closed. A row waits once for each, with the
    last moment of the window as its time.
    """

    def __init__(self, physical: Physical, rank: RankRows, window: PanedWindow | Calendar) -> None:
        super().__init__(physical, rank)
        self._windows = windows_of(physical, window)
        self._longest = window.longest if isinstance(window, Calendar) else window.size

    @property
    def horizon(self) -> int:
        return self._longest + self.lateness

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        for row in rows:
            windows = [each for each in self._windows(row.time) if self.passed is None or each[1] - 1 > self.passed]
            if not windows:
                self.sides.route("late", Refused(row, LATE))
            self.waiting += [replace(row, time=end - 1, packed={**row.packed, _START: start}) for start, end in windows]

    def flush(self, until: int) -> None:
        self._release(max(end for _, end in self._windows(until)) - 1)

    def _group(self, row: Timed) -> Any:
        return (super()._group(row), row.packed[_START])

    def _given(self, row: Timed) -> dict[str, Any]:
        return {**bounds(row.packed[_START], row.time + 1), **forwarded(row)}

    def _placed(self, rows: list[Timed]) -> list[tuple[Timed, int]]:
        return placed(self.rank, rows[::-1] if self.rank.latest_first else rows)


class RankChanges(Operator):
    """The rows of some places of each partition, every change told."""

    def __init__(self, physical: Physical, rank: RankRows, told: ToldPlaces) -> None:
        super().__init__(physical)
        self.rank, self.told = rank, told
        self.partitions: dict[Any, Partition] = {}

    def take(self, rows: list[Timed], watermark: int | None) -> None:
        touched: dict[Any, Partition] = {}
        for row in rows:
            key = frozen([row.packed[each.sql] for each in self.physical.inputs[0].keys])
            partition = self.partitions.setdefault(key, Partition(newest=row.time))
            partition.newest = max(partition.newest, row.time)
            put(partition.rows, row, self.physical.inputs[0].changes)
            touched[key] = partition
        for key, partition in touched.items():
            self.emitted += partition.tell(self._now(partition))
            if not partition.rows:
                del self.partitions[key]

    def go_on_from(self, before: Operator, watermark: int | None) -> None:
        if isinstance(before, Ranking):
            self.waiting, self.passed = [self.repacked(row) for row in before.waiting], before.passed

    def pass_time(self, watermark: int) -> None:
        ttl = self.told.ttl
        if ttl is not None:
            self.partitions = {key: each for key, each in self.partitions.items() if each.newest + ttl > watermark}

    def _now(self, partition: Partition) -> list[tuple[Any, dict[str, Any]]]:
        rows = partition.rows[::-1] if self.told.latest_first else partition.rows
        found = [(row, place) for row, place in placed(self.rank, rows) if self.told.first <= place <= self.told.last]
        return [
            (
                frozen([*(row.packed[name] for name in self.told.shown), place if self.told.shows_place else 0]),
                {**forwarded(row), "__place": place},
            )
            for row, place in found
        ]
