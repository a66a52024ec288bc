"""Session joins: each side has its own sessions per key; two that overlap are joined when both have closed.

    rows -> sessions: bounds per key and side, looked up by key     every batch
         -> rows by time and key, appended and not looked at
    watermark -> closed sessions -> the rows of those that meet -> pairs, rows alone

A closed session takes no more rows, and stays as long as one that it overlaps is open. Rows that come meanwhile, within
its bounds, make a session of their own; so a row belongs to a session by its time and by the number of its arrival. An
open session that grows back over a closed one knows by both which rows were the other's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import OLDEST, TS, Batch, Clock, Output, Store
from eventide.kernels.joins.memory import Memory, MemoryBlob
from eventide.kernels.joins.session_pairs import SessionPairs, SessionRows
from eventide.kernels.joins.sides import ARRIVAL, Fresh, Side, Taking
from eventide.kernels.state.keyed_table import END, GONE, HASH, NEVER, START, Directory, KeyedTable, Summary
from eventide.kernels.state.row_index import RowIndex, Slots
from eventide.kernels.stateful_kernel import StatefulKernel
from eventide.kernels.vector.columns import Ints, Mask, column, distinct, first_of_each, ints
from eventide.kernels.vector.intervals import Runs, covered, islands, meetings, overlapping
from eventide.kernels.vector.nearest import numbered
from eventide.plan.joins import OverlappingSessions

if TYPE_CHECKING:
    from eventide.kernels.joins.spec import JoinSpec

SIDE = "side"
SINCE, UNTIL = "since", "until"  # numbers of arrival between which the rows of a session came
CUT, CUT_AT = "cut", "cut_at"  # rows up to the time CUT that came before the number CUT_AT belonged to closed sessions
_NO_CUT = -NEVER
OPEN, CLOSED, FLUSHED = 0, 1, 2  # in the column GONE; a flushed session is remembered and has no rows
_HEAD = (START, END, SINCE, UNTIL, CUT, CUT_AT, SIDE, GONE)
_NO_NOTES = pa.schema([(TS, pa.int64()), (HASH, pa.int64())])


@dataclass
class _State:
    """What a call has loaded; `passed` is the watermark without the allowed lateness."""

    memory: Memory
    sessions: Directory
    held: tuple[Slots, Slots]
    passed: int | None


@dataclass(frozen=True)
class _Known:
    """Sessions of one side, with the numbers of their groups."""

    table: pa.Table
    group: Ints

    @property
    def start(self) -> Ints:
        return ints(self.table, START)

    @property
    def end(self) -> Ints:
        return ints(self.table, END)

    def of(self, what: int) -> _Known:
        """Those that are OPEN, CLOSED or FLUSHED."""
        some = ints(self.table, GONE) == what
        return _Known(self.table.filter(pa.array(some)), self.group[some])


class SessionJoin(StatefulKernel[_State]):
    def __init__(self, spec: JoinSpec, bound: OverlappingSessions) -> None:
        self._gap, self._lateness, self._keys, self._reached = bound.gap, spec.lateness, spec.keys, spec.reached
        self._sides = (Side(spec, 0), Side(spec, 1))
        self._taking = Taking(spec, self._sides)
        plan = spec.fingerprint()
        head = [pa.field(name, pa.int64()) for name in (*_HEAD, HASH)]
        keys = [pa.field(key, kind) for key, kind in zip(spec.keys, spec.key_types, strict=True)]
        self._schema = pa.schema([*head, *keys])
        self._sessions = KeyedTable("sessions", self._schema, plan, _summary, waiting=np.minimum)
        self._indexes = tuple(RowIndex(side.name, side.schema, plan, bound.gap, _NO_NOTES) for side in self._sides)
        self._pairs = SessionPairs(spec, self._sides)
        self._memory = MemoryBlob(plan)

    def _flush(self, until: int, state: _State, store: Store, output: Output) -> None:
        """Sessions are closed before their time, and remembered until it: rows that would have joined one are late."""
        buckets = np.flatnonzero(state.sessions.rows > 0)
        if len(buckets):
            self._close(buckets, None, until, state, store, output)

    # What time does ------------------------------------------------------------------------------------------------

    def _begin(self, clock: Clock, store: Store) -> tuple[_State, Output]:
        passed = self._reached(clock.watermark)
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
            group = numbered(ints(some, HASH), [column(some, key) for key in self._keys])
            over[concerned] = self._join(some, group, fresh[concerned], state, store, output)
            table = _put(table, concerned, self._cut(some, group, fresh[concerned], state.memory.arrived))
        forgotten = over | ((what == FLUSHED) & (end <= passed if passed is not None else False))
        kept, flushed = table.filter(pa.array(~forgotten)), table.slice(0, 0)
        if until is not None:
            gone = over & fresh
            flushed = pa.concat_tables(
                [kept, _changed(table.filter(pa.array(gone)), GONE, np.full(int(gone.sum()), FLUSHED))]
            )
            kept = kept.slice(0, 0)
        self._sessions.write(buckets, kept, flushed, state.sessions, store)

    def _cut(self, table: pa.Table, group: Ints, fresh: Mask, arrived: int) -> dict[str, Ints]:
        """The cuts of sessions: open ones get another where a session of their key and side has closed."""
        of = 2 * group + ints(table, SIDE)
        last = np.full(int(of.max()) + 1, _NO_CUT)
        np.maximum.at(last, of[fresh], ints(table, END)[fresh] - self._gap)
        cut = (ints(table, GONE) == OPEN) & (last[of] > _NO_CUT)
        return {
            CUT: np.where(cut, last[of], ints(table, CUT)),
            CUT_AT: np.where(cut, arrived, ints(table, CUT_AT)),
        }

    def _join(self, table: pa.Table, group: Ints, fresh: Mask, state: _State, store: Store, output: Output) -> Mask:
        """Give out the pairs of closed sessions of which one is `fresh`, and rows alone; which sessions are over."""
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
            self._rows_of(one, table, distinct(places), over, state, store) for one, places in ((0, mine), (1, theirs))
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
        ends = np.cumsum([fresh.rows.num_rows for fresh in packed])
        *groups, of_held = np.split(self._groups(packed, held), ends)
        changed = [held.filter(pa.array(ints(held, GONE) != OPEN))]
        for side, (fresh, group) in enumerate(zip(packed, groups, strict=True)):
            mine = np.flatnonzero(ints(held, SIDE) == side)
            known = _Known(held.take(pa.array(mine)), of_held[mine])
            late, missed = self._late(fresh, group, known, state)
            fresh = self._taking.without_late(side, fresh, late, missed, batch, output)
            rows = fresh.rows if self._pairs.keeps(side) else fresh.able
            self._indexes[side].add(rows, state.held[side], store)
            changed.append(self._merged(side, fresh.rows, group[~late], known.of(OPEN)))
        self._sessions.write(found.buckets, found.others, pa.concat_tables(changed), state.sessions, store)

    def _groups(self, packed: tuple[Fresh, Fresh], held: pa.Table) -> Ints:
        tables = [packed[0].rows, packed[1].rows, held]
        hashes = np.concatenate([ints(table, HASH) for table in tables])
        return numbered(hashes, [pa.concat_arrays([column(table, key) for table in tables]) for key in self._keys])

    def _late(self, fresh: Fresh, group: Ints, known: _Known, state: _State) -> tuple[Mask, tuple[Ints, Ints]]:
        """A row is late that a flushed session would have taken; or if its island is over and no open session takes
        it. Also the windows that rows have missed, if they have.
        """
        ts = ints(fresh.rows, TS)
        flushed, opened = known.of(FLUSHED), known.of(OPEN)
        late = covered(flushed.group, flushed.start - self._gap, flushed.end, group, ts, ts)
        missed = (ts.copy(), ts + self._gap)
        rest = np.flatnonzero(~late)
        if state.passed is not None and len(rest):
            runs = islands(group[rest], ts[rest], self._gap)
            old = np.flatnonzero(runs.end <= state.passed)
            met = covered(opened.group, opened.start, opened.end, runs.group[old], runs.start[old], runs.end[old])
            is_late = np.zeros(len(runs.start), np.bool_)
            is_late[old] = ~met
            late[rest] = is_late[runs.number]
            missed[0][rest], missed[1][rest] = runs.start[runs.number], runs.end[runs.number]
        return late, missed

    def _merged(self, side: int, rows: pa.Table, group: Ints, known: _Known) -> pa.Table:
        """Open sessions, grown by new rows or made of them."""
        ts, opened = ints(rows, TS), known.table
        groups = np.concatenate((known.group, group))
        if len(groups) == 0:
            return opened
        start, end = np.concatenate((known.start, ts)), np.concatenate((known.end, ts + self._gap))
        runs = overlapping(groups, start, end)
        count = len(runs.start)
        since, cut, cut_at = np.full(count, NEVER), np.full(count, _NO_CUT), np.zeros(count, np.int64)
        np.minimum.at(since, runs.number, np.concatenate((ints(opened, SINCE), ints(rows, ARRIVAL))))
        grown = runs.number[: opened.num_rows]
        np.maximum.at(cut, grown, ints(opened, CUT))  # a later cut is a higher one
        np.maximum.at(cut_at, grown, ints(opened, CUT_AT))
        first = first_of_each(runs.number, count)
        named = pa.concat_tables([table.select([HASH, *self._keys]) for table in (opened, rows)]).take(pa.array(first))
        until, sides, what = (np.full(count, value) for value in (NEVER, side, OPEN))
        head = (runs.start, runs.end, since, until, cut, cut_at, sides, what)
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
        if oldest != NEVER:
            output.gauges[OLDEST] = oldest
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


def _put(table: pa.Table, at: Mask, columns: dict[str, Ints]) -> pa.Table:
    """The table with other values in some rows."""
    for name, values in columns.items():
        changed = ints(table, name).copy()
        changed[at] = values
        table = _changed(table, name, changed)
    return table
