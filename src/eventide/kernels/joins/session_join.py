"""Session joins: each side has its own sessions per key; two that overlap are joined when both have closed.

    rows -> sessions: bounds per key and side, looked up by key     every batch
         -> rows by time and key, appended and not looked at
    watermark -> closed sessions -> the rows of those that meet -> pairs, rows alone

A closed session takes no more rows, and stays as long as one that it overlaps is open. Rows that come meanwhile, within
its bounds, make a session of their own; so a row belongs to a session by its time and by the number of its arrival.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import OLDEST_ROW, TS, Batch, Clock, Output, Store
from eventide.kernels.joins.memory import Memory, MemoryBlob
from eventide.kernels.joins.session_pairs import SessionPairs, SessionRows
from eventide.kernels.joins.sides import ARRIVAL, Fresh, Side, Taking
from eventide.kernels.state.keyed_table import END, GONE, HASH, NEVER, START, Directory, KeyedTable, Summary
from eventide.kernels.state.row_index import RowIndex, Slots
from eventide.kernels.vector.columns import Ints, Mask, column, ints
from eventide.kernels.vector.intervals import Runs, covered, islands, meetings, overlapping
from eventide.kernels.vector.nearest import numbered
from eventide.plan.joins import OverlappingSessions

if TYPE_CHECKING:
    from eventide.kernels.joins.spec import JoinSpec

SIDE = "side"
SINCE, UNTIL = "since", "until"  # numbers of arrival between which the rows of a session came
OPEN, CLOSED, FLUSHED = 0, 1, 2  # in the column GONE; a flushed session is remembered and has no rows
_NO_MARKS = pa.schema([(TS, pa.int64()), (HASH, pa.int64())])


@dataclass
class _State:
    """What a call has loaded; `passed` is the watermark without the allowed lateness."""

    memory: Memory
    sessions: Directory
    held: tuple[Slots, Slots]
    passed: int | None


class SessionJoin:
    def __init__(self, spec: JoinSpec, bound: OverlappingSessions) -> None:
        self._gap, self._lateness, self._keys = bound.gap, spec.lateness, spec.keys
        self._sides = (Side(spec, 0), Side(spec, 1))
        self._taking = Taking(spec, self._sides)
        plan = spec.fingerprint()
        head = [pa.field(name, pa.int64()) for name in (START, END, SINCE, UNTIL, SIDE, GONE, HASH)]
        keys = [pa.field(key, kind) for key, kind in zip(spec.keys, spec.key_types, strict=True)]
        self._schema = pa.schema([*head, *keys])
        self._sessions = KeyedTable("sessions", self._schema, plan, _summary, waiting=np.minimum)
        self._indexes = tuple(RowIndex(side.name, side.schema, plan, bound.gap, _NO_MARKS) for side in self._sides)
        self._pairs = SessionPairs(spec, self._sides)
        self._memory = MemoryBlob(plan)

    def on_rows(self, batch: Batch, clock: Clock, store: Store) -> Output:
        state, output = self._begin(clock, store)
        if batch:
            self._take(batch, state, store, output)
        return self._finish(state, store, output)

    def on_time(self, clock: Clock, store: Store) -> Output:
        state, output = self._begin(clock, store)
        return self._finish(state, store, output)

    def on_tick(self, clock: Clock, store: Store) -> Output:
        return self.on_time(clock, store)

    def on_flush(self, until: int, clock: Clock, store: Store) -> Output:
        """Sessions are closed before their time, and remembered until it: rows that would have joined one are late."""
        state, output = self._begin(clock, store)
        buckets = np.flatnonzero(state.sessions.rows > 0)
        if len(buckets):
            self._close(buckets, None, until, state, store, output)
        return self._finish(state, store, output)

    # What time does ------------------------------------------------------------------------------------------------

    def _begin(self, clock: Clock, store: Store) -> tuple[_State, Output]:
        passed = None if clock.watermark is None else clock.watermark - self._lateness
        held = (self._indexes[0].load(store), self._indexes[1].load(store))
        state, output = _State(self._memory.load(store), self._sessions.load(store), held, passed), Output()
        if passed is not None:
            buckets = np.flatnonzero((state.sessions.due <= passed) & (state.sessions.rows > 0))
            if len(buckets):
                self._close(buckets, passed, None, state, store, output)
        return state, output

    def _close(
        self, buckets: Ints, passed: int | None, until: int | None, state: _State, store: Store, output: Output
    ) -> None:
        """Close the sessions of some buckets whose time has `passed`, or that began by `until`; join and forget what
        waits for no other any more.
        """
        table = self._sessions.read(buckets, state.sessions, store).combine_chunks()
        start, end, what = (ints(table, name) for name in (START, END, GONE))
        fresh = what == OPEN
        fresh &= start <= until if until is not None else end <= (passed or 0)
        output.events["sessions_closed"] += int(fresh.sum())
        table = _changed(table, GONE, np.where(fresh, CLOSED, what))
        table = _changed(table, UNTIL, np.where(fresh, state.memory.arrived, ints(table, UNTIL)))
        concerned = np.isin(ints(table, HASH), ints(table, HASH)[fresh])
        over = np.zeros(len(fresh), np.bool_)
        if fresh.any():
            some = table.filter(pa.array(concerned)).combine_chunks()
            over[concerned] = self._join(some, fresh[concerned], state, store, output)
        remembered = _changed(table.filter(pa.array(over & fresh)), GONE, np.full(int((over & fresh).sum()), FLUSHED))
        forgotten = over | ((what == FLUSHED) & (end <= passed if passed is not None else False))
        kept = table.filter(pa.array(~forgotten))
        if until is not None:
            kept = pa.concat_tables([kept, remembered])
        self._sessions.write(buckets, kept.slice(0, 0), kept, state.sessions, store)

    def _join(self, table: pa.Table, fresh: Mask, state: _State, store: Store, output: Output) -> Mask:
        """Give out the pairs of closed sessions of which one is `fresh`, and rows alone; which sessions are over."""
        group = numbered(ints(table, HASH), [column(table, key) for key in self._keys])
        able = ~self._sides[0].keyless(table)
        side, what = ints(table, SIDE), ints(table, GONE)
        over: Mask = what == CLOSED
        for one in (0, 1):
            closed = np.flatnonzero((what == CLOSED) & (side == one) & able)
            mine, _ = self._meeting(table, group, closed, np.flatnonzero((what == OPEN) & (side != one) & able))
            over[mine] = False
        left, right = (np.flatnonzero((what == CLOSED) & (side == one) & able) for one in (0, 1))
        mine, theirs = self._meeting(table, group, left, right)
        given = fresh[mine] | fresh[theirs]
        mine, theirs = mine[given], theirs[given]
        rows = [
            self._rows_of(one, table, np.unique(places), over, state, store) for one, places in ((0, mine), (1, theirs))
        ]
        bounds = (ints(table, START), ints(table, END))
        self._pairs.give(rows[0], rows[1], (mine, theirs), bounds, over, store, output)
        return over

    def _meeting(self, table: pa.Table, group: Ints, one: Ints, other: Ints) -> tuple[Ints, Ints]:
        """The places of sessions that overlap."""
        start, end = ints(table, START), ints(table, END)
        mine, theirs = meetings(
            Runs(group[one], start[one], end[one], one), Runs(group[other], start[other], end[other], other)
        )
        return one[mine], other[theirs]

    def _rows_of(
        self, side: int, table: pa.Table, joined: Ints, over: Mask, state: _State, store: Store
    ) -> SessionRows:
        """The rows of sessions that are joined, or over on a side whose rows may come out alone."""
        wanted = joined
        if self._pairs.keeps(side):
            wanted = np.union1d(wanted, np.flatnonzero(over & (ints(table, SIDE) == side)))
        return self._pairs.fetch(
            self._indexes[side], state.held[side], self._sides[side], table, wanted, self._gap, store
        )

    # What rows do --------------------------------------------------------------------------------------------------

    def _take(self, batch: Batch, state: _State, store: Store, output: Output) -> None:
        packed = self._taking.packed(batch, state.memory.arrived)
        state.memory.arrived += sum(fresh.rows.num_rows for fresh in packed)
        state.memory.changed = True
        hashes = np.concatenate([ints(fresh.rows, HASH) for fresh in packed])
        if len(hashes) == 0:
            return
        found = self._sessions.find(hashes, state.sessions, store)
        held = found.asked.combine_chunks()
        group = self._groups(packed, held)
        counts = np.cumsum([fresh.rows.num_rows for fresh in packed])
        open_ones = ints(held, GONE) == OPEN
        changed = [held.filter(pa.array(~open_ones))]
        for side, mine in enumerate(np.split(group, counts)[:2]):
            some = np.flatnonzero(ints(held, SIDE) == side)
            changed.append(
                self._take_side(
                    side,
                    packed[side],
                    mine,
                    held.take(pa.array(some)),
                    group[counts[1] :][some],
                    batch,
                    state,
                    store,
                    output,
                )
            )
        self._sessions.write(found.buckets, found.others, pa.concat_tables(changed), state.sessions, store)

    def _groups(self, packed: tuple[Fresh, Fresh], held: pa.Table) -> Ints:
        tables = [packed[0].rows, packed[1].rows, held]
        hashes = np.concatenate([ints(table, HASH) for table in tables])
        return numbered(hashes, [pa.concat_arrays([column(table, key) for table in tables]) for key in self._keys])

    def _take_side(
        self,
        side: int,
        fresh: Fresh,
        group: Ints,
        held: pa.Table,
        held_group: Ints,
        batch: Batch,
        state: _State,
        store: Store,
        output: Output,
    ) -> pa.Table:
        """Take the rows of a side that are not late; its open sessions as they are then."""
        what = ints(held, GONE)
        open_ones, open_group = held.filter(pa.array(what == OPEN)), held_group[what == OPEN]
        late, missed = self._late(fresh, group, held, held_group, state)
        fresh = self._taking.without_late(side, fresh, late, missed, batch, output)
        rows = fresh.rows if self._pairs.keeps(side) else fresh.able
        self._indexes[side].add(rows, state.held[side], store)
        return self._merged(side, fresh.rows, group[~late], open_ones, open_group)

    def _late(
        self, fresh: Fresh, group: Ints, held: pa.Table, held_group: Ints, state: _State
    ) -> tuple[Mask, tuple[Ints, Ints]]:
        """A row is late that a flushed session would have taken; or if its island is over and no open session takes
        it.
        """
        ts, what = ints(fresh.rows, TS), ints(held, GONE)
        start, end = ints(held, START), ints(held, END)
        gone, opened = what == FLUSHED, what == OPEN
        late = covered(held_group[gone], start[gone] - self._gap, end[gone], group, ts, ts)
        missed = (ts.copy(), ts + self._gap)
        rest = np.flatnonzero(~late)
        if state.passed is not None and len(rest):
            runs = islands(group[rest], ts[rest], self._gap)
            old = np.flatnonzero(runs.end <= state.passed)
            met = covered(
                held_group[opened], start[opened], end[opened], runs.group[old], runs.start[old], runs.end[old]
            )
            is_late = np.zeros(len(runs.start), np.bool_)
            is_late[old] = ~met
            late[rest] = is_late[runs.number]
            missed[0][rest], missed[1][rest] = runs.start[runs.number], runs.end[runs.number]
        return late, missed

    def _merged(self, side: int, rows: pa.Table, group: Ints, opened: pa.Table, open_group: Ints) -> pa.Table:
        """Open sessions, grown by new rows or made of them."""
        ts = ints(rows, TS)
        groups = np.concatenate((open_group, group))
        if len(groups) == 0:
            return opened
        start, end = np.concatenate((ints(opened, START), ts)), np.concatenate((ints(opened, END), ts + self._gap))
        runs = overlapping(groups, start, end)
        since = np.full(len(runs.start), NEVER)
        np.minimum.at(since, runs.number, np.concatenate((ints(opened, SINCE), ints(rows, ARRIVAL))))
        first = np.unique(runs.number, return_index=True)[1]
        named = pa.concat_tables([table.select([HASH, *self._keys]) for table in (opened, rows)]).take(pa.array(first))
        head = (
            runs.start,
            runs.end,
            since,
            np.full(len(since), NEVER),
            np.full(len(since), side),
            np.full(len(since), OPEN),
        )
        return pa.Table.from_arrays([*map(pa.array, head), *named.columns], schema=self._schema)

    # What is left --------------------------------------------------------------------------------------------------

    def _finish(self, state: _State, store: Store, output: Output) -> Output:
        sessions = state.sessions
        oldest = int(sessions.waiting[sessions.rows > 0].min(initial=NEVER))
        for index, held in zip(self._indexes, state.held, strict=True):
            index.forget(lambda last: last < oldest, held, store)
            index.save(held, store)
        self._sessions.save(sessions, store)
        self._memory.save(state.memory, bool(sessions.rows.any()), store)
        left, right = (held.rows for held in state.held)
        size = sum(part.state_bytes(store) for part in self._indexes)
        size += self._sessions.state_bytes(store) + self._pairs.state_bytes(store)
        output.gauges.update(left_buffered=left, right_buffered=right, buffer_size=left + right, state_bytes=size)
        output.gauges["open_windows"] = int(sessions.rows.sum() - sessions.gone.sum())
        if oldest < NEVER:
            output.gauges[OLDEST_ROW] = oldest
        due = sessions.next_due
        output.wake_at = None if due is None else due + self._lateness
        return output


def _summary(table: pa.Table) -> Summary:
    """A session is due when it ends; a closed one with those that it waits for. Rows of flushed ones are gone."""
    what = ints(table, GONE)
    oldest = np.where(what == FLUSHED, NEVER, ints(table, START))
    return Summary(np.where(what == CLOSED, NEVER, ints(table, END)), oldest, (what != OPEN).astype(np.int64))


def _changed(table: pa.Table, name: str, values: Ints) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values))
