"""Joins in which each row has partners within a range of time: windows, panes, intervals.

    rows -> partners among the rows that are held (and that came with them) -> pairs
         -> held by time and key until no partner can come

A pair is given in the batch that brings its second row. Time passes before rows are taken, so that the outcome does not
depend on whether a batch without data came in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import TS, Batch, Clock, Output, Store
from eventide.kernels.joins.memory import Memory, MemoryBlob
from eventide.kernels.joins.outcome import MATCHED, Outcome
from eventide.kernels.joins.pairs import Matches
from eventide.kernels.joins.partner_times import PartnerTimes, closed_windows
from eventide.kernels.joins.sides import Fresh, KeyEquality, Side, Taking
from eventide.kernels.joins.unmatched import DUE, ENTRY, FOR_EVER
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.row_index import HASH, Found, RowIndex, Slots
from eventide.kernels.state.time_log import TimeLog
from eventide.kernels.stateful_kernel import StatefulKernel
from eventide.kernels.vector.columns import Ints, Mask, ints
from eventide.kernels.vector.matching import Questions, candidates, first_answers
from eventide.plan.joins import Interval, SameWindow
from eventide.plan.modes import JoinKind

if TYPE_CHECKING:
    from eventide.kernels.joins.spec import JoinSpec

_NOTHING = np.empty(0, np.int64)


@dataclass
class _State:
    """What a call has loaded; `passed` is the watermark without the allowed lateness."""

    memory: Memory
    held: tuple[Slots, Slots]
    passed: int | None

    def closed(self, partner_times: PartnerTimes) -> int | None:
        return partner_times.last_closed(self.passed, self.memory.flushed)


class RangeJoin(StatefulKernel[_State]):
    def __init__(self, spec: JoinSpec, partner_times: PartnerTimes) -> None:
        self._partner_times, self._lateness, self._at_close = partner_times, spec.lateness, spec.at_close
        self._reached = spec.reached
        is_about_left = spec.kind in (JoinKind.SEMI, JoinKind.ANTI) and spec.condition is None
        has_one_window = isinstance(spec.bound, Interval | SameWindow) and partner_times.windows_per_row == 1
        self._one_will_do = is_about_left and has_one_window
        self._equal = KeyEquality(spec)
        self._sides = (Side(spec, 0), Side(spec, 1))
        self._taking = Taking(spec, self._sides)
        plan = spec.fingerprint()
        self._indexes = tuple(
            RowIndex(side.name, side.schema, plan, partner_times.width, MATCHED) for side in self._sides
        )
        self._outcome = Outcome(spec, self._sides, partner_times)
        self._memory = MemoryBlob(plan)
        waiting = pa.schema([pa.field(DUE, pa.int64()), *spec.main_schema])
        self._waiting = TimeLog("pairs", Codec(plan, waiting), DUE)

    def _flush(self, until: int, state: _State, store: Store, output: Output) -> None:
        """Windows that have begun are closed. Where there are none, rows of a side that gives its unmatched ones are:
        these have had their result. Others stay, so that a stop does not lose their pairs.
        """
        self._release(FOR_EVER, store, output)
        self._outcome.flush(until, store, output)
        closes_windows = self._partner_times.flush_is_over(until) is not None
        for side in (0, 1) if closes_windows else self._outcome.kept_sides:
            self._indexes[side].forget(lambda last: last <= until, state.held[side], store)
        if closes_windows:
            state.memory.flushed, state.memory.changed = until, True
            self._count_closed(state, output)

    # What time does ------------------------------------------------------------------------------------------------

    def _begin(self, clock: Clock, store: Store) -> tuple[_State, Output]:
        passed = self._reached(clock.watermark)
        held = (self._indexes[0].load(store), self._indexes[1].load(store))
        state, output = _State(self._memory.load(store), held, passed), Output()
        if passed is not None:
            self._pass_time(passed, state, store, output)
        return state, output

    def _pass_time(self, passed: int, state: _State, store: Store, output: Output) -> None:
        self._release(passed, store, output)
        self._outcome.pass_time(passed, store, output)
        for side, index in enumerate(self._indexes):
            index.forget(partial(self._is_over, side, passed), state.held[side], store)
        memory = state.memory
        if memory.flushed is not None and (self._partner_times.flush_is_over(memory.flushed) or 0) <= passed:
            memory.flushed, memory.changed = None, True
        self._count_closed(state, output)

    def _is_over(self, side: int, passed: int, ts: int) -> bool:
        return int(self._partner_times.waits_until(side, np.array([ts]))[0]) <= passed

    def _release(self, until: int, store: Store, output: Output) -> None:
        """Pairs that waited for their windows to close."""
        if not self._at_close or self._waiting.earliest(store) is None:
            return
        pairs = self._waiting.take(until, store)
        if pairs.num_rows:
            order = np.argsort(ints(pairs, DUE), kind="stable")
            output.main.append(pairs.take(pa.array(order)).drop_columns([DUE]).combine_chunks())

    def _count_closed(self, state: _State, output: Output) -> None:
        grid, memory = self._partner_times.grid, state.memory
        if grid is None:
            return
        last = closed_windows(grid, state.passed, memory.flushed)
        if last is None or (memory.closed is not None and last <= memory.closed):
            return
        if len(memory.slices):
            windows = grid.windows_over(memory.slices, memory.closed)
            output.events["panes_closed"] += int((windows <= last).sum())
            memory.slices, memory.changed = memory.slices[memory.slices >= grid.first_needed(last)], True
        memory.closed = last

    # What rows do --------------------------------------------------------------------------------------------------

    def _take(self, batch: Batch, state: _State, store: Store, output: Output) -> None:
        memory = state.memory
        arrived = memory.arrived
        packed = self._taking.packed(batch, arrived)
        memory.arrived += sum(side.rows.num_rows for side in packed)
        left, right = (self._on_time(side, packed[side], batch, state, output) for side in (0, 1))
        fresh = (left, right)
        closed, noted = state.closed(self._partner_times), self._outcome.notes()
        for found, done in self._candidates(fresh, state, store):
            given = self._outcome.given(found, done, closed, noted, output)
            if given is not None:
                output.main.append(self._hold_back(*given, state, store) if self._at_close else given[0])
        memory.changed = True
        self._outcome.settle(fresh, arrived, closed, noted, store)
        for side in (0, 1):
            self._indexes[side].add(fresh[side].able, state.held[side], store)
            self._count_opened(side, fresh[side].rows, state)
        if self._outcome.remembers_matches:
            self._indexes[0].note(self._outcome.newly_matched(memory.arrived, noted), state.held[0], store)

    def _on_time(self, side: int, fresh: Fresh, batch: Batch, state: _State, output: Output) -> Fresh:
        ts = ints(fresh.rows, TS)
        late = ~self._alive(side, ts, state)
        missed = self._partner_times.missed(side, ts) if late.any() else None
        return self._taking.without_late(side, fresh, late, missed, batch, output)

    def _alive(self, side: int, ts: Ints, state: _State) -> Mask:
        """Whether rows with these times can still find partners."""
        alive = np.ones(len(ts), np.bool_)
        if state.passed is not None:
            alive &= self._partner_times.waits_until(side, ts) > state.passed
        if state.memory.flushed is not None:
            alive &= ~self._partner_times.is_flushed(side, ts, state.memory.flushed)
        return alive

    def _candidates(self, fresh: tuple[Fresh, Fresh], state: _State, store: Store) -> Iterator[tuple[Matches, Ints]]:
        """Pairs of which at least one row is new, with the entries of left rows that are done."""
        left, right = fresh[0].able, fresh[1].able
        if self._one_will_do:
            yield from self._one_each(left, right, state, store)
            return
        asked = [self._questions(side, rows) for side, rows in enumerate((left, right))]
        for place, held, done in self._from_store(1, asked[0], state, store):
            yield Matches(left, place[0], held, place[1]), done
        for place, held, done in self._from_store(0, asked[1], state, store):
            yield Matches(held, place[1], right, place[0]), done
        for at, other in candidates(asked[0], ints(right, HASH), ints(right, TS)):
            yield Matches(left, at, right, other), _NOTHING

    def _one_each(self, left: pa.Table, right: pa.Table, state: _State, store: Store) -> Iterator[tuple[Matches, Ints]]:
        """The same with one pair for a left row: nobody asks how many partners it has, and there may be very many."""
        asked = self._questions(0, left), self._questions(1, right)
        for held in self._probe(1, asked[0], state, store):
            yield self._first(left, held.rows), _NOTHING
        for held in self._probe(0, asked[1], state, store):
            yield self._first(held.rows, right), ints(held.notes, ENTRY)
        yield self._first(left, right), _NOTHING

    def _probe(self, side: int, asked: Questions, state: _State, store: Store) -> Iterator[Found]:
        """Held rows that may answer, without those whose time is over."""
        for held in self._indexes[side].probe(asked.hashes, asked.first, asked.last, state.held[side], store):
            alive = self._alive(side, ints(held.rows, TS), state)
            yield held if alive.all() else replace(held, rows=held.rows.filter(pa.array(alive)))

    def _first(self, left: pa.Table, right: pa.Table) -> Matches:
        at, other = first_answers(
            self._questions(0, left),
            ints(right, HASH),
            ints(right, TS),
            lambda one, two: self._equal(left, one, right, two),
        )
        return Matches(left, at, right, other)

    def _questions(self, side: int, rows: pa.Table) -> Questions:
        return Questions(ints(rows, HASH), *self._partner_times.partners(side, ints(rows, TS)))

    def _from_store(
        self, side: int, asked: Questions, state: _State, store: Store
    ) -> Iterator[tuple[tuple[Ints, Ints], pa.Table, Ints]]:
        """(places of questions and of held rows, held rows, entries that are done) of one side."""
        found = self._indexes[side].probe(asked.hashes, asked.first, asked.last, state.held[side], store)
        for held in found:
            ts = ints(held.rows, TS)
            alive = np.flatnonzero(self._alive(side, ts, state))
            some = np.flatnonzero(held.asked)
            question = Questions(asked.hashes[some], asked.first[some], asked.last[some])
            done = ints(held.notes, ENTRY)
            for at, other in candidates(question, ints(held.rows, HASH)[alive], ts[alive]):
                yield (some[at], alive[other]), held.rows, done

    def _hold_back(self, table: pa.Table, ends: Ints | None, state: _State, store: Store) -> pa.Table:
        """Put pairs whose window is open into the store; the others."""
        if ends is None:
            return table
        waits = np.ones(len(ends), np.bool_) if state.passed is None else ends > state.passed
        if waits.any():
            kept = table.filter(pa.array(waits))
            self._waiting.add(kept.add_column(0, pa.field(DUE, pa.int64()), pa.array(ends[waits])), store)
        return table.filter(pa.array(~waits))

    def _count_opened(self, side: int, rows: pa.Table, state: _State) -> None:
        grid = self._partner_times.grid
        if grid is not None and self._partner_times.is_counted(side) and rows.num_rows:
            state.memory.slices = np.union1d(state.memory.slices, grid.slices_of(ints(rows, TS)))

    def _finish(self, state: _State, store: Store, output: Output) -> Output:
        for index, held in zip(self._indexes, state.held, strict=True):
            index.save(held, store)
        output.wake_at = self._wake_at(state, store)
        output.only_forgets = self._outcome.earliest(store) is None and self._waiting.earliest(store) is None
        self._memory.save(state.memory, output.wake_at is not None, store)
        left, right = (held.rows for held in state.held)
        size = sum(index.state_bytes(store) for index in self._indexes)
        size += self._outcome.state_bytes(store) + self._waiting.state_bytes(store)
        output.gauges.update(left_buffered=left, right_buffered=right, buffer_size=left + right, state_bytes=size)
        if self._partner_times.grid is not None:
            open_windows = self._partner_times.grid.windows_over(state.memory.slices, state.memory.closed)
            output.gauges["open_windows"] = len(open_windows)
        return output

    def _wake_at(self, state: _State, store: Store) -> int | None:
        """When the next thing is due: a row alone, a pair that waits, rows to forget, a window to close."""
        moments = [self._outcome.earliest(store), self._waiting.earliest(store)]
        for side, held in enumerate(state.held):
            if held.slots:
                ends = self._partner_times.waits_until(side, np.array([slot.last for slot in held.slots]))
                moments.append(int(ends.min()))
        if state.memory.flushed is not None:
            moments.append(self._partner_times.flush_is_over(state.memory.flushed))
        if self._partner_times.grid is not None and len(state.memory.slices):
            windows = self._partner_times.grid.windows_over(state.memory.slices, state.memory.closed)
            moments += [self._partner_times.grid.closes_at(int(window)) for window in windows[:1]]
        known = [moment for moment in moments if moment is not None]
        if not known:
            return None
        earliest = min(known) if state.passed is None else max(min(known), state.passed + 1)
        return earliest + self._lateness
