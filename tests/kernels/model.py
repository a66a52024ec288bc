"""The reference: every window kind row by row, in plain Python, written to be read rather than to be fast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]


def sums(values: list[int | None]) -> Row:
    """count(*) and sum(v)."""
    known = [value for value in values if value is not None]
    return (len(values), sum(known) if known else None)


@dataclass
class PaneModel:
    """Tumbling and hopping windows that emit when they close."""

    size: int
    slide: int
    offset: int = 0
    lateness: int = 0
    open: dict[tuple[int, Any], list[int | None]] = field(default_factory=dict)
    late: list[Row] = field(default_factory=list)
    newest: int | None = None
    flushed: int | None = None

    def step(self, rows: list[Row], watermark: int | None) -> list[Row]:
        emitted = self.close(watermark)
        self.see(rows)
        for row in rows:
            starts = [s for s in self.starts(row[0]) if self.takes(s, watermark)]
            for start in starts:
                self.open.setdefault((start, row[1]), []).append(row[2])
            if not starts:
                self.late.append(row)
        return emitted

    def close(self, watermark: int | None) -> list[Row]:
        return [self.pop(place) for place in list(self.open) if self.closed(place[0], watermark)]

    def flush(self) -> list[Row]:
        self.flushed = self.newest
        return [self.pop(place) for place in list(self.open)]

    def takes(self, start: int, watermark: int | None) -> bool:
        return not self.closed(start, watermark) and (self.flushed is None or start > self.flushed)

    def see(self, rows: list[Row]) -> None:
        self.newest = max((row[0] for row in [*rows, (self.newest,)] if row[0] is not None), default=None)

    def pop(self, place: tuple[int, Any]) -> Row:
        values = self.open.pop(place)
        return (place[0], place[0] + self.size, 0, 1, place[1], *sums(values))

    def starts(self, ts: int) -> Iterator[int]:
        start = (ts - self.offset) // self.slide * self.slide + self.offset
        while start + self.size > ts:
            yield start
            start -= self.slide

    def closed(self, start: int, watermark: int | None) -> bool:
        return watermark is not None and start + self.size + self.lateness <= watermark


class CumulateModel(PaneModel):
    """Windows that begin every `size` and grow by `slide` at a time; they are told apart by their ends, here called
    starts.
    """

    def pop(self, place: tuple[int, Any]) -> Row:
        _, end, *rest = super().pop(place)
        return (self.begin(end), end, *rest)

    def begin(self, end: int) -> int:
        return (end - 1 - self.offset) // self.size * self.size + self.offset

    def starts(self, ts: int) -> Iterator[int]:
        begin = (ts - self.offset) // self.size * self.size + self.offset
        yield from (end - self.size for end in range(begin + self.slide, begin + self.size + 1, self.slide) if end > ts)


@dataclass(eq=False)
class Open:
    """One group's window: its values, and what of it was emitted."""

    start: int
    end: int
    key: Any
    values: list[int | None] = field(default_factory=list)
    epoch: int = 0
    waits: bool = False
    shown: Row | None = None

    def row(self, op: int, epoch: int) -> Row:
        return (self.start, self.end, epoch, op, self.key, *sums(self.values))

    def emit(self) -> Row:
        self.shown = self.row(1, self.epoch)
        self.epoch, self.waits = self.epoch + 1, False
        return self.shown


def retraction(shown: Row) -> Row:
    return (*shown[:3], -1, *shown[4:])


@dataclass
class LivePaneModel:
    """Tumbling and hopping windows in any emit mode."""

    window: PaneModel
    mode: str
    max_groups: int | None = None
    open: dict[tuple[int, Any], Open] = field(default_factory=dict)
    late: int = 0
    evicted: int = 0

    def step(self, rows: list[Row], watermark: int | None) -> list[Row]:
        emitted = self.pass_time(watermark)
        self.window.see(rows)
        touched: dict[tuple[int, Any], None] = {}
        for ts, key, value, *_ in rows:
            starts = [s for s in self.window.starts(ts) if self.window.takes(s, watermark)]
            fitting = [s for s in sorted(starts) if self.fits(s, key)]
            for start in fitting:
                place = (start, key)
                self.open.setdefault(place, Open(start, start + self.window.size, key)).values.append(value)
                self.open[place].waits = True
                touched[place] = None
            self.late += not starts
            self.evicted += bool(starts and not fitting)
        return emitted + self.changed([self.open[place] for place in touched], watermark)

    def fits(self, start: int, key: Any) -> bool:
        held = {place[1] for place in self.open if place[0] == start}
        return self.max_groups is None or key in held or len(held) < self.max_groups

    def changed(self, groups: list[Open], watermark: int | None) -> list[Row]:
        if self.mode == "changes":
            for group in groups:
                group.waits = group.shown is None or group.shown[4:] != group.row(1, 0)[4:]
            groups = [group for group in groups if group.waits]
            return [retraction(group.shown) for group in groups if group.shown] + [group.emit() for group in groups]
        past = [
            group
            for group in groups
            if self.mode == "on watermark" and watermark is not None and group.end <= watermark
        ]
        return [group.emit() for group in (groups if self.mode == "on update" else past)]

    def pass_time(self, watermark: int | None) -> list[Row]:
        emitted = []
        for place, group in list(self.open.items()):
            closed = self.window.closed(group.start, watermark)
            ended = self.mode == "on watermark" and watermark is not None and group.end <= watermark
            if (group.waits and (closed or ended)) or (closed and self.mode == "every"):
                emitted.append(group.emit())
            if closed:
                del self.open[place]
        return emitted

    def tick(self) -> list[Row]:
        return [group.emit() for group in self.open.values() if group.waits]

    def flush(self) -> list[Row]:
        emitted = [group.emit() for group in self.open.values() if group.waits or self.mode == "every"]
        self.window.flushed = self.window.newest
        self.open.clear()
        return emitted


@dataclass
class SessionModel:
    """Sessions in any emit mode."""

    gap: int
    lateness: int = 0
    mode: str = "on window close"
    open: list[Open] = field(default_factory=list)
    gone: list[Open] = field(default_factory=list)
    late: int = 0
    merged: int = 0

    def step(self, rows: list[Row], watermark: int | None) -> list[Row]:
        emitted = self.pass_time(watermark)
        fresh = []
        for ts, key, value, *_ in rows:
            if any(g.key == key and g.start - self.gap <= ts <= g.end for g in self.gone):
                self.late += 1
            else:
                fresh.append(Open(ts, ts + self.gap, key, [value]))
        taken_back: list[Row] = []
        touched: list[Open] = []
        for key in {part.key for part in fresh}:
            mine = [part for part in self.open + fresh if part.key == key]
            for parts in self.runs(mine):
                self.settle(parts, watermark, taken_back, touched)
        if self.mode == "changes":
            return emitted + taken_back + [session.emit() for session in touched if session.waits]
        past = self.mode == "on watermark" and watermark is not None
        now = [s for s in touched if self.mode == "on update" or (past and s.end <= watermark)]  # type: ignore[operator]
        return emitted + [session.emit() for session in now]

    def runs(self, parts: list[Open]) -> list[list[Open]]:
        found: list[list[Open]] = []
        for part in sorted(parts, key=lambda p: p.start):
            if found and part.start <= max(p.end for p in found[-1]):
                found[-1].append(part)
            else:
                found.append([part])
        return found

    def settle(self, parts: list[Open], watermark: int | None, taken_back: list[Row], touched: list[Open]) -> None:
        stored = [part for part in parts if part in self.open]
        start, end = min(part.start for part in parts), max(part.end for part in parts)
        if len(stored) == len(parts):
            return
        if not stored and watermark is not None and end + self.lateness <= watermark:
            self.late += len(parts)
            return
        whole = Open(start, end, parts[0].key, [value for part in parts for value in part.values], waits=True)
        self.merged += max(0, len(stored) - 1)
        for part in stored:
            self.open.remove(part)
            if (part.start, part.end) == (start, end):
                whole.epoch, whole.shown = part.epoch, part.shown
        self.open.append(whole)
        touched.append(whole)
        if whole.shown is not None and whole.shown[4:] == whole.row(1, 0)[4:] and self.mode == "changes":
            whole.waits = False
        else:
            taken_back += [retraction(part.shown) for part in stored if part.shown]

    def pass_time(self, watermark: int | None) -> list[Row]:
        if watermark is None:
            return []
        emitted = []
        for session in list(self.open):
            closed = session.end + self.lateness <= watermark
            ended = self.mode == "on watermark" and session.end <= watermark
            if (session.waits and (closed or ended)) or (closed and self.mode == "every"):
                emitted.append(session.emit())
            if closed:
                self.open.remove(session)
        self.gone = [g for g in self.gone if g.end + self.lateness > watermark]
        return emitted

    def tick(self) -> list[Row]:
        return [session.emit() for session in self.open if session.waits]

    def flush(self) -> list[Row]:
        emitted = [session.emit() for session in self.open if session.waits or self.mode == "every"]
        self.gone += self.open
        self.open = []
        return emitted


@dataclass
class SlideModel:
    """Data-triggered sliding windows."""

    lookback: int
    lookahead: int | None = None
    lateness: int = 0
    rows: list[Row] = field(default_factory=list)
    waiting: list[Row] = field(default_factory=list)
    emissions: dict[tuple[int, Any], int] = field(default_factory=dict)
    late: int = 0

    def step(self, rows: list[Row], watermark: int | None) -> list[Row]:
        emitted = self.pass_time(watermark)
        fresh = [row for row in rows if not self.closed(row[0], watermark)]
        self.late += len(rows) - len(fresh)
        self.rows += fresh
        if self.lookahead is None:
            return emitted + [self.answer(row) for row in fresh]
        self.waiting += fresh
        return emitted

    def closed(self, ts: int, watermark: int | None) -> bool:
        return watermark is not None and ts + (self.lookahead or 0) + self.lateness <= watermark

    def pass_time(self, watermark: int | None) -> list[Row]:
        due = [row for row in self.waiting if self.closed(row[0], watermark)]
        self.waiting = [row for row in self.waiting if row not in due]
        return [self.answer(row) for row in due]

    def flush(self) -> list[Row]:
        due, self.waiting = self.waiting, []
        return [self.answer(row) for row in due]

    def answer(self, trigger: Row) -> Row:
        ts, key = trigger[:2]
        start, end = ts - self.lookback, ts + (self.lookahead or 0)
        values = [row[2] for row in self.rows if row[1] == key and start <= row[0] <= end]
        epoch = self.emissions.get((ts, key), 0)
        self.emissions[ts, key] = epoch + 1
        return (start, end, epoch, 1, key, *sums(values))
