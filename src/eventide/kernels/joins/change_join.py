"""Joins without a bound in time: rows of both sides are kept, and every change of the result is emitted.

A batch removes some rows of a side, adds others, and leaves the rest. Only pairs with a row that was removed or added
are looked at: those of a removed row with the rows that were there before are taken back, those of an added row with
the rows that are there now are new. Every row knows how many partners it has, so that it comes out alone, or is taken
back, when that number reaches zero or leaves it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import CHANGE, TS, USED, Batch, Clock, Output, Store
from eventide.kernels.joins.pairs import Matches, PairTables, gives_pairs, keeps
from eventide.kernels.joins.sides import ARRIVAL, Fresh, Side, Taking
from eventide.kernels.state.codec import Codec
from eventide.kernels.state.keyed_table import HASH, NEVER, BucketRows, Directory, KeyedTable, Summary
from eventide.kernels.stateful_kernel import StatefulKernel
from eventide.kernels.vector.columns import Ints, Mask, column, combined_rank, dense_rank, distinct, ints
from eventide.kernels.vector.matching import Questions, candidates
from eventide.kernels.vector.pairing import paired
from eventide.plan.joins import AnyTime
from eventide.plan.modes import JoinKind

if TYPE_CHECKING:
    from eventide.kernels.joins.spec import JoinSpec

_PARTNERS = pa.field("partners", pa.int64())
_COUNTER = pa.schema([("arrived", pa.int64())])
_META = "meta"


@dataclass
class _Rows:
    """The rows of one side with the keys that a batch is about: `held` before it, `now` with it.

    The first `left` rows of `now` are those of `held` that stay, in their order; `gone` are the others of `held`.
    """

    found: BucketRows
    held: pa.Table
    now: pa.Table
    stays: Mask

    @property
    def left(self) -> int:
        return int(self.stays.sum())

    @property
    def gone(self) -> pa.Table:
        return self.held.filter(pa.array(~self.stays))

    @property
    def rest(self) -> pa.Table:
        return self.now.slice(0, self.left)

    @property
    def added(self) -> pa.Table:
        return self.now.slice(self.left)


@dataclass
class _Changes:
    """What a batch takes back and what it adds, as tables of pairs and of rows alone."""

    minus: list[pa.Table]
    plus: list[pa.Table]


class ChangeJoin(StatefulKernel[list[Directory]]):
    def __init__(self, spec: JoinSpec, bound: AnyTime) -> None:
        self._spec, self._ttl, self._kind = spec, bound.ttl, spec.kind
        self._sides = (Side(spec, 0), Side(spec, 1))
        self._taking, self._pairs = Taking(spec, self._sides), PairTables(spec, self._sides)
        self._tables = tuple(
            KeyedTable(side.name, side.schema.append(_PARTNERS), spec.fingerprint(), self._summary)
            for side in self._sides
        )
        self._counter = Codec(spec.fingerprint(), _COUNTER)

    def _flush(self, until: int, state: list[Directory], store: Store, output: Output) -> None:
        """Nothing waits: every change has been emitted with its batch."""

    def _summary(self, table: pa.Table) -> Summary:
        nothing = np.zeros(table.num_rows, np.int64)
        due = np.full(table.num_rows, NEVER) if self._ttl is None else ints(table, TS) + self._ttl
        return Summary(due, nothing, nothing)

    def _begin(self, clock: Clock, store: Store) -> tuple[list[Directory], Output]:
        """Forget rows that have outlived their time; what they took part in stays as it was emitted."""
        directories, output = [table.load(store) for table in self._tables], Output()
        for table, directory in zip(self._tables, directories, strict=True):
            watermark = np.iinfo(np.int64).min if clock.watermark is None else clock.watermark
            buckets = np.flatnonzero(directory.due <= watermark)
            if len(buckets):
                rows = table.read(buckets, directory, store)
                is_over = self._summary(rows).due <= watermark
                output.events["rows_expired"] += int(is_over.sum())
                table.write(buckets, rows.filter(pa.array(~is_over)), rows.slice(0, 0), directory, store)
        return directories, output

    def _finish(self, state: list[Directory], store: Store, output: Output) -> Output:
        due = []
        for side, table, directory in zip(self._sides, self._tables, state, strict=True):
            table.save(directory, store)
            due += [] if directory.next_due is None else [directory.next_due]
            output.gauges[f"{side.name}_buffered"] = int(directory.rows.sum())
        output.wake_at = min(due, default=None)
        output.gauges["state_bytes"] = sum(table.state_bytes(store) for table in self._tables)
        return output

    def _take(self, batch: Batch, state: list[Directory], store: Store, output: Output) -> None:
        blobs = store.read(_META, 0)
        arrived = int(ints(self._counter.decode(blobs[0]), "arrived")[0]) if blobs else 0
        fresh = self._taking.packed(batch, arrived)
        count = sum(each.rows.num_rows for each in fresh)
        counted = pa.Table.from_pydict({"arrived": [arrived + count]}, schema=_COUNTER)
        store.replace(_META, 0, self._counter.encode(counted))
        output.counts[USED] += count
        changes = _Changes([], [])
        ops = [self._ops(side, each, batch) for side, each in enumerate(fresh)]
        for side in (0, 1):
            output.events[f"{self._sides[side].name}_rows"] += fresh[side].rows.num_rows
            self._give_keyless(side, fresh[side], ops[side], changes)
        able = [np.flatnonzero(~each.keyless) for each in fresh]
        if self._only_adds:
            self._add([_with_partners(each.able) for each in fresh], changes, state, store, output)
            self._emit(changes, output)
            return
        hashes = np.concatenate([ints(each.rows, HASH)[some] for each, some in zip(fresh, able, strict=True)])
        if len(hashes):
            rows = [
                self._rows(side, fresh[side], able[side], ops[side], hashes, state[side], store, output)
                for side in (0, 1)
            ]
            self._change(rows, changes, output)
            for side in (0, 1):
                found = rows[side].found
                self._tables[side].write(found.buckets, found.others, rows[side].now, state[side], store)
        self._emit(changes, output)

    @property
    def _only_adds(self) -> bool:
        """Whether pairs are all that comes out, and none is ever taken back: nobody asks how many partners a row has,
        and rows that are kept stay as they are.
        """
        return self._kind is JoinKind.INNER and self._spec.changes == (None, None)

    def _add(
        self, added: list[pa.Table], changes: _Changes, state: list[Directory], store: Store, output: Output
    ) -> None:
        """Find the pairs of new rows with those that are kept and with each other. Buckets are read where they may hold
        the keys of the other side's new rows, and none is written again.
        """
        held = []
        for table, directory, mine, other in zip(self._tables, state, added, reversed(added), strict=True):
            asked = distinct(ints(other, HASH))
            table.make_room(max(mine.num_rows, len(asked)), directory, store)
            held.append(table.look_up(asked, directory, store))
        right = pa.concat_tables([held[1], added[1]]).combine_chunks()
        for mine, theirs in ((added[0], right), (held[0], added[1])):
            for found in self._matches(mine, theirs):
                self._take_pairs(found, changes.plus)
                output.events["pairs"] += len(found.left_at)
        for table, directory, rows in zip(self._tables, state, added, strict=True):
            table.add(rows, directory, store)

    def _ops(self, side: int, fresh: Fresh, batch: Batch) -> Ints:
        """The op of each row of a side, in the order of `fresh`."""
        name = self._spec.changes[side]
        inputs = [number for number, its_side in enumerate(self._spec.sides) if its_side == side and number in batch]
        if name is None or not inputs:
            return np.ones(fresh.rows.num_rows, np.int64)
        return np.concatenate([ints(batch[number], name) for number in inputs])[fresh.order]

    def _give_keyless(self, side: int, fresh: Fresh, ops: Ints, changes: _Changes) -> None:
        """Rows with NULL in a key are alone, and need not be kept for that."""
        if keeps(self._kind, side) and fresh.keyless.any():
            for tables, chosen in ((changes.minus, ops < 0), (changes.plus, ops > 0)):
                self._add_alone(side, fresh.rows.filter(pa.array(fresh.keyless & chosen)), tables)

    def _rows(
        self,
        side: int,
        fresh: Fresh,
        able: Ints,
        ops: Ints,
        hashes: Ints,
        directory: Directory,
        store: Store,
        output: Output,
    ) -> _Rows:
        """What a batch makes of the rows that are kept of a side."""
        found = self._tables[side].find(hashes, directory, store)
        held = found.asked
        rows, ops = _with_partners(fresh.able), ops[able]
        added, taken = rows.filter(pa.array(ops > 0)), rows.filter(pa.array(ops < 0))
        stays, is_new = np.ones(held.num_rows, np.bool_), np.ones(added.num_rows, np.bool_)
        if taken.num_rows:
            # of equal rows those of the batch go first: then nothing has happened
            everything = pa.concat_tables([added, held, taken])
            names = [name for name in everything.column_names if name not in (ARRIVAL, _PARTNERS.name)]
            kinds = combined_rank([dense_rank(column(everything, name)) for name in names], everything.num_rows)
            goes, known = paired(kinds[: -taken.num_rows], kinds[-taken.num_rows :])
            is_new[goes[goes < added.num_rows]] = False
            stays[goes[goes >= added.num_rows] - added.num_rows] = False
            output.events["not_there_to_take_back"] += taken.num_rows - len(known)
        now = pa.concat_tables([held.filter(pa.array(stays)), added.filter(pa.array(is_new))])
        return _Rows(found, held, now.combine_chunks(), stays)

    def _change(self, rows: list[_Rows], changes: _Changes, output: Output) -> None:
        """Find the pairs that are no more and those that are new, and with them who is alone."""
        left, right = rows
        before = [ints(side.held, _PARTNERS.name)[side.stays] for side in rows]
        now = [ints(side.now, _PARTNERS.name).copy() for side in rows]
        places = [np.where(side.stays, np.cumsum(side.stays) - 1, -1) for side in rows]  # of held rows in `now`
        for found in self._matches(left.gone, right.held):
            self._take_pairs(found, changes.minus)
            np.add.at(now[1], places[1][found.right_at][right.stays[found.right_at]], -1)
        for found in self._matches(left.rest, right.gone):
            self._take_pairs(found, changes.minus)
            np.add.at(now[0], found.left_at, -1)
        for found in self._matches(left.added, right.now):
            self._take_pairs(found, changes.plus)
            output.events["pairs"] += len(found.left_at)
            np.add.at(now[0], found.left_at + left.left, 1)
            np.add.at(now[1], found.right_at, 1)
        for found in self._matches(left.rest, right.added):
            self._take_pairs(found, changes.plus)
            output.events["pairs"] += len(found.left_at)
            np.add.at(now[0], found.left_at, 1)
            np.add.at(now[1], found.right_at + right.left, 1)
        for side, each in enumerate(rows):
            self._give_lone(side, each, before[side], now[side], changes)
            at = each.now.schema.get_field_index(_PARTNERS.name)
            each.now = each.now.set_column(at, _PARTNERS, pa.array(now[side]))

    def _matches(self, left: pa.Table, right: pa.Table) -> Iterator[Matches]:
        nothing = np.zeros(left.num_rows, np.int64)
        asked = Questions(ints(left, HASH), nothing, nothing)
        for left_at, right_at in candidates(asked, ints(right, HASH), np.zeros(right.num_rows, np.int64)):
            found = Matches(left, left_at, right, right_at)
            yield found.chosen(self._pairs.true_ones(found))

    def _take_pairs(self, found: Matches, tables: list[pa.Table]) -> None:
        if gives_pairs(self._kind) and len(found.left_at):
            tables.append(self._pairs.pairs(found, None))

    def _give_lone(self, side: int, rows: _Rows, before: Ints, now: Ints, changes: _Changes) -> None:
        """Rows that begin or cease to be what comes out by itself: without a partner, or of a semi join with one."""
        is_semi = self._kind is JoinKind.SEMI and side == 0
        if not keeps(self._kind, side) and not is_semi:
            return
        was_out, is_out = (before > 0, now > 0) if is_semi else (before == 0, now == 0)
        gone = ints(rows.gone, _PARTNERS.name)
        gone_was_out = gone > 0 if is_semi else gone == 0
        self._add_alone(side, rows.gone.filter(pa.array(gone_was_out)), changes.minus)
        self._add_alone(side, rows.rest.filter(pa.array(was_out & ~is_out[: rows.left])), changes.minus)
        comes = is_out.copy()
        comes[: rows.left] &= ~was_out
        self._add_alone(side, rows.now.filter(pa.array(comes)), changes.plus)

    def _add_alone(self, side: int, rows: pa.Table, tables: list[pa.Table]) -> None:
        if rows.num_rows:
            tables.append(self._pairs.alone(side, self._sides[side].columns(rows), ints(rows, TS), None))

    def _emit(self, changes: _Changes, output: Output) -> None:
        """What is taken back and added in one batch has not changed."""
        if changes.minus and changes.plus:
            minus, plus = pa.concat_tables(changes.minus), pa.concat_tables(changes.plus)
            both = pa.concat_tables([minus, plus])
            kinds = combined_rank([dense_rank(column(both, name)) for name in both.column_names], both.num_rows)
            old, new = paired(kinds[: minus.num_rows], kinds[minus.num_rows :])
            changes = _Changes([_without(minus, old)], [_without(plus, new)])
        told = ((changes.minus, -1), (changes.plus, 1)) if self._spec.emits_changes else ((changes.plus, 1),)
        for tables, op in told:
            for table in tables:
                if table.num_rows:
                    ops = pa.repeat(pa.scalar(op, pa.int32()), table.num_rows)
                    output.main.append(table.append_column(pa.field(CHANGE, pa.int32()), ops))


def _with_partners(rows: pa.Table) -> pa.Table:
    return rows.append_column(_PARTNERS, pa.array(np.zeros(rows.num_rows, np.int64)))


def _without(table: pa.Table, places: Ints) -> pa.Table:
    kept = np.ones(table.num_rows, np.bool_)
    kept[places] = False
    return table.filter(pa.array(kept))
