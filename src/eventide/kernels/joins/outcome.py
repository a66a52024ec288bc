"""What a kind of join makes of matches: pairs, left rows with their first match, or rows that find nobody.

A row is known by its *entry*: its number and which of its windows it is about. Entries that have matched are kept where
they are needed: for rows that may come out alone in a log by time (see `unmatched`), for semi joins beside the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import TS, Output, Store
from eventide.kernels.joins.pairs import Matches, PairTables, gives_pairs, keeps
from eventide.kernels.joins.partner_times import PartnerTimes
from eventide.kernels.joins.sides import ARRIVAL, Fresh, Side
from eventide.kernels.joins.unmatched import ENTRY, FOR_EVER, WINDOW, Unmatched, among
from eventide.kernels.state.row_index import HASH
from eventide.kernels.vector.columns import Ints, column, ints
from eventide.plan.modes import JoinKind

if TYPE_CHECKING:
    from eventide.kernels.joins.spec import JoinSpec

MATCHED = pa.schema([(TS, pa.int64()), (HASH, pa.int64()), (ENTRY, pa.int64())])


@dataclass
class Noted:
    """The entries of one side that matched in this call, with what is needed to keep them."""

    entries: list[Ints] = field(default_factory=list)
    dues: list[Ints] = field(default_factory=list)
    rows: list[tuple[Ints, Ints]] = field(default_factory=list)  # times and hashes

    def add(self, entry: Ints, due: Ints, ts: Ints, hashes: Ints) -> None:
        first = np.unique(entry, return_index=True)[1]
        self.entries.append(entry[first])
        self.dues.append(due[first])
        self.rows.append((ts[first], hashes[first]))

    def before(self, arrival: int, per_row: int) -> tuple[Ints, Ints, Ints, Ints]:
        """(entry, due, ts, hash), each once, of rows that came before the row with this number."""
        if not self.entries:
            nothing = np.empty(0, np.int64)
            return nothing, nothing, nothing, nothing
        entry, first = np.unique(np.concatenate(self.entries), return_index=True)
        earlier = entry < arrival * per_row
        ts, hashes = (np.concatenate(parts) for parts in zip(*self.rows, strict=True))
        first = first[earlier]
        return entry[earlier], np.concatenate(self.dues)[first], ts[first], hashes[first]


class Outcome:
    def __init__(self, spec: JoinSpec, sides: tuple[Side, Side], partner_times: PartnerTimes) -> None:
        self._kind, self._sides, self._partner_times = spec.kind, sides, partner_times
        self._tables = PairTables(spec, sides)
        self._unmatched = {
            number: Unmatched(sides[number], spec.fingerprint()) for number in (0, 1) if keeps(spec.kind, number)
        }

    @property
    def kept_sides(self) -> tuple[int, ...]:
        return tuple(self._unmatched)

    @property
    def remembers_matches(self) -> bool:
        """Whether rows that have matched once must be known when they match again."""
        return self._kind is JoinKind.SEMI

    def notes(self) -> tuple[Noted, Noted]:
        return Noted(), Noted()

    def given(
        self, found: Matches, done: Ints, closed: int | None, noted: tuple[Noted, Noted], output: Output
    ) -> tuple[pa.Table, Ints | None] | None:
        """The main rows that candidates give, and the ends of their windows, if any.

        `done` are left entries that have matched before.
        """
        true_ones = self._tables.true_ones(found)
        if len(true_ones) < len(found.left_at):
            found = found.chosen(true_ones)
        at, window = self._partner_times.pair_windows(found.left_ts, found.right_ts, closed)
        if len(at) != len(found.left_at) or self._partner_times.windows_per_row > 1:
            found = found.chosen(at)
        if len(found.left_at) == 0:
            return None
        output.events["pairs"] += len(found.left_at)
        if self._kind is JoinKind.SEMI:
            return self._first_matches(found, window, done, noted[0])
        for side in self._unmatched:
            self._note(side, found, window, noted[side])
        if not gives_pairs(self._kind):
            return None
        bounds = self._partner_times.pair_bounds(found.left_ts, found.right_ts, window)
        return self._tables.pairs(found, bounds), None if bounds is None else bounds[1]

    def settle(
        self, fresh: tuple[Fresh, Fresh], arrived: int, closed: int | None, noted: tuple[Noted, Noted], store: Store
    ) -> None:
        """Keep what is to be known of the rows of this call: who waits, and who of the earlier ones has matched."""
        for side, unmatched in self._unmatched.items():
            rows, per_row = fresh[side].rows, self._partner_times.windows_per_row
            entry, due, _, _ = noted[side].before(arrived, per_row)
            unmatched.match(entry, due, store)
            ts = ints(rows, TS)
            at, window = self._partner_times.row_windows(side, ts, closed)
            entry = self._entries(side, rows, at, window)
            waits = np.flatnonzero(~among(entry, noted[side].entries))
            at, entry, window = at[waits], entry[waits], window[waits]
            unmatched.wait(rows, at, entry, window, self._partner_times.ends(side, ts[at], window), store)

    def newly_matched(self, arrived: int, noted: tuple[Noted, Noted]) -> pa.Table:
        """The entries of left rows that have matched for the first time, as notes on those rows."""
        entry, _, ts, hashes = noted[0].before(arrived, self._partner_times.windows_per_row)
        return pa.Table.from_arrays([pa.array(ts), pa.array(hashes), pa.array(entry)], schema=MATCHED)

    def pass_time(self, until: int, store: Store, output: Output) -> None:
        for side, unmatched in self._unmatched.items():
            self._give_alone(side, unmatched.take(until, store), output)

    def flush(self, until: int, store: Store, output: Output) -> None:
        """Rows that had begun to wait by then come out alone before their time."""
        for side, unmatched in self._unmatched.items():
            rows = unmatched.take(FOR_EVER, store)
            begun = ints(rows, TS) <= until
            unmatched.put_back(rows.filter(pa.array(~begun)), store)
            self._give_alone(side, rows.filter(pa.array(begun)), output)

    def earliest(self, store: Store) -> int | None:
        found = [unmatched.earliest(store) for unmatched in self._unmatched.values()]
        return min((moment for moment in found if moment is not None), default=None)

    def state_bytes(self, store: Store) -> int:
        return sum(unmatched.state_bytes(store) for unmatched in self._unmatched.values())

    def _give_alone(self, side: int, rows: pa.Table, output: Output) -> None:
        if rows.num_rows:
            ts, window = ints(rows, TS), ints(rows, WINDOW)
            columns = [column(rows, field.name) for field in self._sides[side].shown_schema]
            bounds = self._partner_times.row_bounds(side, ts, window)
            output.main.append(self._tables.alone(side, columns, ts, bounds))
            output.events[f"{self._sides[side].name}_alone"] += rows.num_rows

    def _first_matches(
        self, found: Matches, window: Ints, done: Ints, noted: Noted
    ) -> tuple[pa.Table, Ints | None] | None:
        entry = self._entries(0, found.left, found.left_at, window)
        first = np.unique(entry, return_index=True)[1]
        first = np.sort(first[~among(entry[first], [done, *noted.entries])])
        if len(first) == 0:
            return None
        found, window = found.chosen(first), window[first]
        self._note(0, found, window, noted)
        columns = [values.take(pa.array(found.left_at)) for values in self._sides[0].columns(found.left)]
        bounds = self._partner_times.row_bounds(0, found.left_ts, window)
        return self._tables.alone(0, columns, found.left_ts, bounds), None if bounds is None else bounds[1]

    def _note(self, side: int, found: Matches, window: Ints, noted: Noted) -> None:
        rows, at = (found.left, found.left_at) if side == 0 else (found.right, found.right_at)
        ts = ints(rows, TS)[at]
        entry, due = self._entries(side, rows, at, window), self._partner_times.ends(side, ts, window)
        noted.add(entry, due, ts, ints(rows, HASH)[at])

    def _entries(self, side: int, rows: pa.Table, at: Ints, window: Ints) -> Ints:
        ts = ints(rows, TS)[at]
        return ints(rows, ARRIVAL)[at] * self._partner_times.windows_per_row + self._partner_times.ordinal(
            side, ts, window
        )
