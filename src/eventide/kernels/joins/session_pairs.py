"""What comes out of sessions that are joined: the pairs of their rows, and rows alone.

Rows that have matched while their session waits for another one are remembered by key; that is rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import TS, Output, Store
from eventide.kernels.joins.pairs import Bounds, Matches, PairTables, gives_pairs, keeps
from eventide.kernels.joins.sides import ARRIVAL, KeyEquality, Side
from eventide.kernels.state.keyed_table import END, HASH, START, KeyedTable, Summary
from eventide.kernels.state.row_index import RowIndex, Slots
from eventide.kernels.vector.columns import Ints, Mask, distinct, ints
from eventide.kernels.vector.intervals import by_group_and_time
from eventide.kernels.vector.matching import Questions, candidates, pieces
from eventide.plan.modes import JoinKind

if TYPE_CHECKING:
    from eventide.kernels.joins.spec import JoinSpec

_MATCHED = pa.schema([(START, pa.int64()), (HASH, pa.int64())])  # START: the number of a row's arrival


@dataclass
class SessionRows:
    """Rows of some sessions of one side, ordered by session; `session` is the place of the session of each."""

    rows: pa.Table
    session: Ints
    matched: Mask

    def runs(self, sessions: Ints) -> tuple[Ints, Ints]:
        """Where the rows of sessions begin, and how many there are."""
        first = np.searchsorted(self.session, sessions, "left")
        return first, np.searchsorted(self.session, sessions, "right") - first


class SessionPairs:
    def __init__(self, spec: JoinSpec, sides: tuple[Side, Side]) -> None:
        self._kind, self._sides = spec.kind, sides
        self._tables, self._equal = PairTables(spec, sides), KeyEquality(spec)
        noted = [side for side in (0, 1) if keeps(spec.kind, side) or (spec.kind is JoinKind.SEMI and side == 0)]
        self._matched = {
            side: KeyedTable(f"{sides[side].name}_matched", _MATCHED, spec.fingerprint(), _summary) for side in noted
        }

    def keeps(self, side: int) -> bool:
        return keeps(self._kind, side)

    def state_bytes(self, store: Store) -> int:
        return sum(table.state_bytes(store) for table in self._matched.values())

    def fetch(
        self, index: RowIndex, held: Slots, side: Side, sessions: pa.Table, wanted: Ints, gap: int, store: Store
    ) -> SessionRows:
        """The rows of the wanted ones of some sessions."""
        asked = sessions.take(pa.array(wanted)).combine_chunks()
        questions = Questions(ints(asked, HASH), ints(asked, START), ints(asked, END) - gap)
        since, until, cut, cut_at = (ints(asked, name) for name in ("since", "until", "cut", "cut_at"))
        tables, numbers = [side.schema.empty_table()], [np.empty(0, np.int64)]
        for found in index.probe(questions.hashes, questions.first, questions.last, held, store):
            arrival, ts = ints(found.rows, ARRIVAL), ints(found.rows, TS)
            for at, row in candidates(questions, ints(found.rows, HASH), ts):
                good = (arrival[row] >= since[at]) & (arrival[row] < until[at])
                good &= (ts[row] > cut[at]) | (arrival[row] >= cut_at[at])
                good[good] = self._equal(asked, at[good], found.rows, row[good])
                tables.append(found.rows.take(pa.array(row[good])))
                numbers.append(wanted[at[good]])
        rows, session = pa.concat_tables(tables).combine_chunks(), np.concatenate(numbers)
        order = by_group_and_time(session, ints(rows, ARRIVAL))
        rows = rows.take(pa.array(order))
        return SessionRows(rows, session[order], self._known(side.number, rows, store))

    def give(
        self,
        left: SessionRows,
        right: SessionRows,
        joined: tuple[Ints, Ints],
        bounds: Bounds,
        over: Mask,
        store: Store,
        output: Output,
    ) -> None:
        """The pairs of joined sessions, given by their places; then rows alone of those that are `over`."""
        for found, pair in self._candidates(left, right, joined):
            true_ones = self._tables.true_ones(found)
            self._give_matches(left, found.chosen(true_ones), right, joined, pair[true_ones], bounds, output)
        for side, rows in enumerate((left, right)):
            if self.keeps(side):
                self._give_alone(side, rows, bounds, over, output)
            if side in self._matched:
                self._remember(side, rows, over, store)

    def _candidates(
        self, left: SessionRows, right: SessionRows, joined: tuple[Ints, Ints]
    ) -> Iterator[tuple[Matches, Ints]]:
        """Pairs of rows, and of each the number of the pair of sessions."""
        first, count = left.runs(joined[0])
        start, length = right.runs(joined[1])
        pair = np.repeat(np.arange(len(first)), count)
        row = np.repeat(first - (np.cumsum(count) - count), count) + np.arange(count.sum())
        for run, place in pieces(start[pair], length[pair]):
            yield Matches(left.rows, row[run], right.rows, place), pair[run]

    def _give_matches(
        self,
        left: SessionRows,
        found: Matches,
        right: SessionRows,
        joined: tuple[Ints, Ints],
        pair: Ints,
        bounds: Bounds,
        output: Output,
    ) -> None:
        if len(pair) == 0:
            return
        output.events["pairs"] += len(pair)
        if self._kind is JoinKind.SEMI:
            fresh = distinct(found.left_at[~left.matched[found.left_at]])
            if len(fresh):
                self._give_rows(0, left, fresh, bounds, output)
        left.matched[found.left_at] = True
        right.matched[found.right_at] = True
        if gives_pairs(self._kind):
            mine, theirs = joined[0][pair], joined[1][pair]
            both = (np.minimum(bounds[0][mine], bounds[0][theirs]), np.maximum(bounds[1][mine], bounds[1][theirs]))
            output.main.append(self._tables.pairs(found, both))

    def _give_alone(self, side: int, rows: SessionRows, bounds: Bounds, over: Mask, output: Output) -> None:
        alone = np.flatnonzero(over[rows.session] & ~rows.matched)
        if len(alone):
            self._give_rows(side, rows, alone, bounds, output)
            output.events[f"{self._sides[side].name}_alone"] += len(alone)

    def _give_rows(self, side: int, rows: SessionRows, at: Ints, bounds: Bounds, output: Output) -> None:
        session = rows.session[at]
        columns = [values.take(pa.array(at)) for values in self._sides[side].columns(rows.rows)]
        own = (bounds[0][session], bounds[1][session])
        output.main.append(self._tables.alone(side, columns, ints(rows.rows, TS)[at], own))

    # Rows that matched before --------------------------------------------------------------------------------------

    def _known(self, side: int, rows: pa.Table, store: Store) -> Mask:
        """Which rows have matched in an earlier call."""
        if side not in self._matched or rows.num_rows == 0:
            return np.zeros(rows.num_rows, np.bool_)
        table = self._matched[side]
        directory = table.load(store)
        if not directory.rows.any():
            return np.zeros(rows.num_rows, np.bool_)
        known = table.find(ints(rows, HASH), directory, store).asked
        table.save(directory, store)
        return np.isin(ints(rows, ARRIVAL), ints(known, START))

    def _remember(self, side: int, rows: SessionRows, over: Mask, store: Store) -> None:
        """Matched rows of sessions that stay; those of sessions that are over are forgotten."""
        table = self._matched[side]
        directory = table.load(store)
        stays = rows.matched & ~over[rows.session]
        if rows.rows.num_rows == 0 or not (stays.any() or directory.rows.any()):
            return
        found = table.find(ints(rows.rows, HASH), directory, store)
        looked_at = np.isin(ints(found.asked, START), ints(rows.rows, ARRIVAL))
        fresh = [ints(rows.rows, name)[stays] for name in (ARRIVAL, HASH)]
        noted = pa.Table.from_arrays([pa.array(values) for values in fresh], schema=_MATCHED)
        kept = pa.concat_tables([found.asked.filter(pa.array(~looked_at)), noted])
        table.write(found.buckets, found.others, kept, directory, store)
        table.save(directory, store)


def _summary(table: pa.Table) -> Summary:
    nothing = np.zeros(table.num_rows, np.int64)
    return Summary(nothing, nothing, nothing)
