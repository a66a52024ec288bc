"""ASOF joins: each left row with the one right row that is nearest, when no better one can come on time.

    left rows, right rows -> logs by time -> passed by the watermark -> answers
                                                   |
                       past: right rows that may answer left rows to come (mostly the newest of each key)
                       waiting: left rows that time has passed and that wait for a right row behind them

*Passed* is the time up to which only late rows come: the watermark less the allowed lateness, or what a flush has
closed. Rows are logged as they come and looked at once, when time passes them; so nothing is looked up on arrival, but
for right rows that are late, which are used if they are the newest of their key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.contract import TS, Batch, Clock, Output, Store
from eventide.kernels.joins.memory import Memory, MemoryBlob
from eventide.kernels.joins.pairs import Matches, PairTables, keeps
from eventide.kernels.joins.sides import ARRIVAL, Fresh, Side, Taking
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.keyed_table import END, HASH, NEVER, START, Directory, KeyedTable, Summary
from eventide.kernels.state.time_log import TimeLog
from eventide.kernels.stateful_kernel import StatefulKernel
from eventide.kernels.vector.columns import Ints, Mask, column, ints
from eventide.kernels.vector.nearest import Accept, GroupTimes, Timeline, numbered
from eventide.plan.joins import Asof, Nearest

if TYPE_CHECKING:
    from eventide.kernels.joins.spec import JoinSpec

_EMPTY = np.empty(0, np.int64)


@dataclass
class _State:
    memory: Memory
    past: Directory
    waiting: Directory
    passed: int | None


class AsofJoin(StatefulKernel[_State]):
    def __init__(self, spec: JoinSpec, bound: Asof) -> None:
        self._bound, self._lateness, self._keys, self._reached = bound, spec.lateness, spec.keys, spec.reached
        self._sides = (Side(spec, 0), Side(spec, 1))
        self._taking, self._tables = Taking(spec, self._sides), PairTables(spec, self._sides)
        self._has_condition, self._keeps_left = spec.condition is not None, keeps(spec.kind, 0)
        plan = spec.fingerprint()
        self._logs = tuple(TimeLog(side.name, Codec(plan, side.schema), TS) for side in self._sides)
        start, end = pa.field(START, pa.int64()), pa.field(END, pa.int64())
        self._past_schema = pa.schema([start, *list(self._sides[1].schema)[1:]])
        self._past = KeyedTable("past", self._past_schema, plan, self._past_summary, due=np.maximum)
        self._waiting_schema = pa.schema([start, end, *list(self._sides[0].schema)[1:]])
        self._waiting = KeyedTable("waiting", self._waiting_schema, plan, _waiting_summary)
        self._memory = MemoryBlob(plan)

    def _flush(self, until: int, state: _State, store: Store, output: Output) -> None:
        """Left rows that are there by then get their answer as it is known; no earlier one may follow."""
        if state.passed is None or until > state.passed:
            state.passed = state.memory.flushed = until
            state.memory.changed = True
        self._pass_time(state, store, output, at_once=True)

    # What time does ------------------------------------------------------------------------------------------------

    def _begin(self, clock: Clock, store: Store) -> tuple[_State, Output]:
        memory, output = self._memory.load(store), Output()
        passed = self._reached(clock.watermark)
        if memory.flushed is not None and passed is not None and passed >= memory.flushed:
            memory.flushed, memory.changed = None, True
        known = [moment for moment in (passed, memory.flushed) if moment is not None]
        state = _State(memory, self._past.load(store), self._waiting.load(store), max(known, default=None))
        self._pass_time(state, store, output)
        return state, output

    def _pass_time(self, state: _State, store: Store, output: Output, at_once: bool = False) -> None:
        """Answer what can be answered (`at_once`: everything that waits); forget what is no longer of use."""
        if state.passed is None:
            return
        left, right = (self._taken(side, state, store) for side in (0, 1))
        awaited = self._due_hashes(NEVER if at_once else state.passed, state, store)
        if left.num_rows or right.num_rows or len(awaited):
            self._settle(left, right, awaited, state, store, output, at_once)
        self._forget(state, store)

    def _taken(self, side: int, state: _State, store: Store) -> pa.Table:
        """The rows of a log that time has passed."""
        log, passed = self._logs[side], state.passed
        earliest = log.earliest(store)
        if earliest is None or passed is None or earliest > passed:
            return self._sides[side].schema.empty_table()
        rows = log.take(passed, store).combine_chunks()
        self._count(side, -rows.num_rows, state)
        return rows

    def _count(self, side: int, more: int, state: _State) -> None:
        if side == 0:
            state.memory.left += more
        else:
            state.memory.right += more
        state.memory.changed = True

    def _due_hashes(self, until: int, state: _State, store: Store) -> Ints:
        """Of left rows that have waited long enough."""
        buckets = np.flatnonzero((state.waiting.due <= until) & (state.waiting.rows > 0))
        if len(buckets) == 0:
            return _EMPTY
        rows = self._waiting.read(buckets, state.waiting, store)
        return ints(rows, HASH)[ints(rows, END) <= until]

    def _forget(self, state: _State, store: Store) -> None:
        """Right rows that no left row to come is near enough to, in buckets that have no others, unread."""
        over = np.flatnonzero((state.past.due <= (state.passed or 0)) & (state.past.rows > 0))
        if len(over):
            nothing = self._past_schema.empty_table()
            self._past.write(over, nothing, nothing, state.past, store)

    # Answers -------------------------------------------------------------------------------------------------------

    def _settle(
        self, left: pa.Table, right: pa.Table, awaited: Ints, state: _State, store: Store, output: Output, at_once: bool
    ) -> None:
        """Answer left rows that time has passed, new ones and those that right rows or time concern; right rows, new
        to the past, are of use from now on.
        """
        left = self._without_keyless(left, output)
        right = right.filter(pa.array(~self._sides[1].keyless(right)))
        named = np.concatenate([ints(left, HASH), ints(right, HASH), awaited])
        if len(named) == 0:
            return
        waited = None
        if self._bound.which is not Nearest.BEFORE:
            waited = self._waiting.find(named, state.waiting, store)
            old = waited.asked.drop_columns([END]).rename_columns(left.column_names)
            left = pa.concat_tables([left, old]).combine_chunks()
        known = self._past.find(np.concatenate([named, ints(left, HASH)]), state.past, store)
        choices = pa.concat_tables([known.asked.rename_columns(right.column_names), right]).combine_chunks()
        group = self._groups(left, choices)
        timeline = _timeline(choices, group[left.num_rows :])
        best = self._best(left, choices, group[: left.num_rows], timeline)
        certain = self._certain(ints(left, TS), best, choices)
        answered = np.ones(len(best), np.bool_) if at_once else certain <= (state.passed or 0)
        self._give(left, choices, best, np.flatnonzero(answered), output)
        if waited is not None:
            rest = _with_due(left, certain, self._waiting_schema).filter(pa.array(~answered))
            self._waiting.write(waited.buckets, waited.others, rest, state.waiting, store)
        kept = choices.filter(pa.array(self._is_of_use(choices, timeline, state.passed or 0)))
        kept = kept.rename_columns(self._past_schema.names)
        self._past.write(known.buckets, known.others, kept, state.past, store)

    def _without_keyless(self, left: pa.Table, output: Output) -> pa.Table:
        keyless = self._sides[0].keyless(left)
        if keyless.any():
            self._give_alone(left.filter(pa.array(keyless)), output)
            left = left.filter(pa.array(~keyless))
        return left

    def _groups(self, *tables: pa.Table) -> Ints:
        hashes = np.concatenate([ints(table, HASH) for table in tables])
        keys = [pa.concat_arrays([column(table, key) for table in tables]) for key in self._keys]
        return numbered(hashes, keys)

    def _best(self, left: pa.Table, choices: pa.Table, group: Ints, timeline: Timeline) -> Ints:
        """Of each left row the place of its answer, or -1."""
        bound, ts, moments = self._bound, ints(choices, TS), ints(left, TS)
        asked, accept = GroupTimes(group, moments), self._accept(left, choices)
        if len(ts) == 0:
            return np.full(len(moments), -1)
        if bound.which is Nearest.BEFORE:
            return timeline.before(asked, bound.strict, bound.tolerance, accept)
        after = timeline.after(asked, bound.strict, bound.tolerance, accept)
        if bound.which is Nearest.AFTER:
            return after
        before = timeline.before(asked, bound.strict, bound.tolerance, accept)
        is_nearer = (after < 0) | ((before >= 0) & (moments - ts[before] <= ts[after] - moments))
        return np.where(is_nearer, before, after)

    def _accept(self, left: pa.Table, choices: pa.Table) -> Accept | None:
        if not self._has_condition:
            return None
        return lambda asked, at: self._tables.holds(Matches(left, asked, choices, at))

    def _certain(self, moments: Ints, best: Ints, choices: pa.Table) -> Ints:
        """The time that must have passed before no better answer can come."""
        if self._bound.which is Nearest.BEFORE:
            return moments
        tolerance = self._bound.tolerance
        never = np.full(len(moments), NEVER) if tolerance is None else moments + tolerance
        if choices.num_rows == 0:
            return never
        answer = ints(choices, TS)[best]
        mirrored = np.maximum(2 * moments - answer - 1, moments)  # a later row, as near, is no better
        return np.where(best < 0, never, np.where(answer > moments, answer, mirrored))

    def _give(self, left: pa.Table, choices: pa.Table, best: Ints, answered: Ints, output: Output) -> None:
        answered = answered[np.lexsort((ints(left, ARRIVAL)[answered], ints(left, TS)[answered]))]
        found = answered[best[answered] >= 0]
        if len(found):
            output.main.append(self._tables.pairs(Matches(left, found, choices, best[found]), None))
            output.events["pairs"] += len(found)
        self._give_alone(left.take(pa.array(answered[best[answered] < 0])), output)

    def _give_alone(self, left: pa.Table, output: Output) -> None:
        if self._keeps_left and left.num_rows:
            output.main.append(self._tables.alone(0, self._sides[0].columns(left), ints(left, TS), None))
            output.events["left_alone"] += left.num_rows

    def _is_of_use(self, right: pa.Table, timeline: Timeline, passed: int) -> Mask:
        """Which right rows of times that have passed may answer a left row to come, or one that waits.

        Of each key that is the newest, and of equal times the one that came last; with a condition any row may be.
        """
        ts = ints(right, TS)
        if self._bound.which is Nearest.AFTER:
            return np.zeros(len(ts), np.bool_)
        use = ts + self._span > passed if self._span is not None else np.ones(len(ts), np.bool_)
        if not self._has_condition:
            use &= timeline.is_last()
        return use

    @property
    def _span(self) -> int | None:
        """How long a right row may be of use; a left row that it answers may wait for a nearer one as long again."""
        tolerance = self._bound.tolerance
        return None if tolerance is None else tolerance * (2 if self._bound.which is Nearest.EITHER else 1)

    # What rows do --------------------------------------------------------------------------------------------------

    def _take(self, batch: Batch, state: _State, store: Store, output: Output) -> None:
        memory = state.memory
        packed = self._taking.packed(batch, memory.arrived)
        memory.arrived += sum(side.rows.num_rows for side in packed)
        late = (_passed(packed[0].rows, state), self._useless(packed[1], state, store))
        left, right = (
            self._taking.without_late(side, packed[side], late[side], None, batch, output) for side in (0, 1)
        )
        memory.changed = True
        self._log(left, right, state, store, output)

    def _log(self, left: Fresh, right: Fresh, state: _State, store: Store, output: Output) -> None:
        """Rows wait for time to pass them, but for right rows that it has passed and that are of use at once."""
        old = pa.array(_passed(right.able, state))
        if old.true_count:
            nothing = self._sides[0].schema.empty_table()
            self._settle(nothing, right.able.filter(old), _EMPTY, state, store, output, at_once=False)
        waiting = (left.rows if self._keeps_left else left.able, right.able.filter(pc.invert(old)))
        for side, rows in enumerate(waiting):
            if rows.num_rows:
                self._logs[side].add(rows, store)
                self._count(side, rows.num_rows, state)

    def _useless(self, right: Fresh, state: _State, store: Store) -> Mask:
        """Which right rows are late and can be no answer any more."""
        late = _passed(right.rows, state)
        if late.any():
            late[late] = ~self._may_answer(right.rows.filter(pa.array(late)), state, store)
        return late

    def _may_answer(self, rows: pa.Table, state: _State, store: Store) -> Mask:
        """Of right rows whose time has passed."""
        side, passed = self._sides[1], state.passed or 0
        known = self._past.find(ints(rows, HASH), state.past, store).asked.rename_columns(side.schema.names)
        both = pa.concat_tables([rows, known]).combine_chunks()
        use = self._is_of_use(both, _timeline(both, self._groups(both)), passed)[: rows.num_rows] & ~side.keyless(rows)
        if self._bound.tolerance is not None:
            use &= ints(rows, TS) + self._bound.tolerance > passed
        return use

    # What is left --------------------------------------------------------------------------------------------------

    def _finish(self, state: _State, store: Store, output: Output) -> Output:
        memory, past, waiting = state.memory, state.past, state.waiting
        self._past.save(past, store)
        self._waiting.save(waiting, store)
        left, right = memory.left + int(waiting.rows.sum()), memory.right + int(past.rows.sum())
        self._memory.save(memory, bool(left or right), store)
        size = sum(log.state_bytes(store) for log in self._logs)
        size += self._past.state_bytes(store) + self._waiting.state_bytes(store)
        output.gauges.update(left_buffered=left, right_buffered=right, buffer_size=left + right, state_bytes=size)
        output.wake_at = self._wake_at(state, store)
        return output

    def _wake_at(self, state: _State, store: Store) -> int | None:
        forgets = int(state.past.due.min()) if self._span is not None else NEVER
        moments = [log.earliest(store) for log in self._logs]
        moments += [state.waiting.next_due, None if forgets == NEVER else forgets, state.memory.flushed]
        known = [moment for moment in moments if moment is not None]
        if not known:
            return None
        return (min(known) if state.passed is None else max(min(known), state.passed + 1)) + self._lateness

    def _past_summary(self, table: pa.Table) -> Summary:
        nothing = np.zeros(table.num_rows, np.int64)
        due = np.full(table.num_rows, NEVER) if self._span is None else ints(table, START) + self._span
        return Summary(due, nothing, nothing)


def _timeline(right: pa.Table, group: Ints) -> Timeline:
    return Timeline(GroupTimes(group, ints(right, TS)), ints(right, ARRIVAL))


def _passed(rows: pa.Table, state: _State) -> Mask:
    """Which rows have a time that has passed."""
    if state.passed is None:
        return np.zeros(rows.num_rows, np.bool_)
    passed: Mask = ints(rows, TS) <= state.passed
    return passed


def _waiting_summary(table: pa.Table) -> Summary:
    nothing = np.zeros(table.num_rows, np.int64)
    return Summary(ints(table, END), nothing, nothing)


def _with_due(left: pa.Table, due: Ints, schema: pa.Schema) -> pa.Table:
    """Left rows as they wait."""
    return pa.Table.from_arrays([left.column(0), pa.array(due), *left.columns[1:]], schema=schema)
