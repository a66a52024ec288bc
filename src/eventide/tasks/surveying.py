"""What a task finds out about the rows of a source with limits before it packs them: see `admission.batch_admission`.

Rows stand in the order (arrival, SEQ). A part of the input is a run of rows whose SEQ goes up one by one: no row of
another task stands within it, so that the order does not depend on who reads what.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.admission.batch_admission import Arrivals, Bools, Ints, Tickets
from eventide.admission.gate import PRIORITY_CODE
from eventide.admission.options import AdmissionSpec
from eventide.admission.shed_log import ShedLog
from eventide.admission.shedder import Priorities, ShedOrder, priority_codes, row_hashes
from eventide.admission.source_admission import Admission, ShedInput
from eventide.eventtime.durations import MILLISECOND
from eventide.eventtime.resolution import DECLARED, FROM_PROCESSING
from eventide.kernels.contract import DETAIL, SEQ, TS
from eventide.kernels.vector.columns import column, ints
from eventide.tasks.packing import ARRIVED, HOW, KEPT, NOW, PRIORITY


@dataclass(frozen=True)
class Surveyed:
    rows: pa.Table  # those that the filters keep, with tickets
    slices: pa.Table | None  # None: no row was surveyed
    out: Bools  # for each of `rows`: it will be rejected for its lag, or shed unless it is rejected
    order: bytes | None = None  # of the shedder; None: nothing is to be shed


@dataclass(frozen=True)
class Surveying:
    """`numbered`: rows go on with SEQ, since the operator must know the order of arrival."""

    spec: AdmissionSpec
    numbered: bool
    orders: Path | None = None  # of the shedder's log, where rows may be shed
    identity: str | None = None  # the column that tells rows apart; None: all of them together, and the arrival

    @property
    def needs_history(self) -> bool:
        return self.spec.needs_history

    @property
    def columns(self) -> tuple[str, ...]:
        """What rows must have beside what travels."""
        return (ARRIVED, KEPT) if self.orders is None else (ARRIVED, KEPT, NOW, PRIORITY)

    def survey(self, rows: pa.Table, first: int) -> Surveyed:
        """`rows` have SEQ, TS, HOW and `columns`; their numbers go up from `first`. A row that is an error is not
        surveyed: it takes no token and ends no gap.
        """
        how, kept = column(rows, HOW), column(rows, KEPT)
        is_good, is_kept = np.asarray(pc.less_equal(how, FROM_PROCESSING)), np.asarray(kept)
        order = ShedOrder() if self.orders is None else ShedLog(self.orders).at(rows[NOW][0].as_py())
        priorities = self._priorities(rows)
        out = np.zeros(rows.num_rows, np.bool_)
        slices = None
        if is_good.any():
            load = self._load(rows, priorities, is_good) if order.share > 0 and priorities is not None else None
            made = Admission(self.spec, order).survey(self._arrivals(rows, how, is_good, first), load)
            slices, tickets = made.slices, _spread(made.tickets, is_good)
            out = tickets.out
            for name, values in tickets.columns().items():
                rows = rows.append_column(name, values)
        dropped = [*self.columns, *(() if self.numbered else (SEQ,))]
        rows = rows.drop_columns(dropped)
        if priorities is not None and slices is not None:
            rows = rows.append_column(PRIORITY_CODE, pa.array(priorities))
        told = order.to_bytes() if order.share > 0 else None
        if not is_kept.all():
            rows, out = rows.filter(kept), out[is_kept]
        return Surveyed(rows, slices, out, told)

    @staticmethod
    def _arrivals(rows: pa.Table, how: pa.Array, is_good: Bools, first: int) -> Arrivals:
        arrived = ints(rows, ARRIVED) // MILLISECOND * MILLISECOND
        numbers = np.arange(first, first + rows.num_rows)
        times = column(rows, TS).fill_null(0).to_numpy(zero_copy_only=False)
        every = [arrived, _run_starts(ints(rows, SEQ)), numbers, times, np.asarray(pc.equal(how, DECLARED))]
        return Arrivals(*(every if is_good.all() else [values[is_good] for values in every]))

    def _priorities(self, rows: pa.Table) -> Priorities | None:
        """None where nothing is ever shed."""
        if self.orders is None:
            return None
        if self.spec.priority_sql is None:
            return np.full(rows.num_rows, self.spec.priority, np.int8)
        return priority_codes(column(rows, PRIORITY), self.spec.priority)[0]

    def _load(self, rows: pa.Table, priorities: Priorities, is_good: Bools) -> ShedInput:
        """What the shedder looks at, for the rows that are no errors."""
        hidden = (SEQ, TS, HOW, DETAIL, KEPT, NOW, PRIORITY)
        names = [name for name in rows.column_names if name not in hidden] if self.identity is None else [self.identity]
        hashes = row_hashes([column(rows, name) for name in names], rows.num_rows)
        return ShedInput(priorities[is_good], hashes[is_good])


def _run_starts(seq: Ints) -> Ints:
    """For each row the SEQ of the first row of its run. Rows of one line of a file have the same one."""
    step = np.diff(seq)
    begins = np.concatenate((np.ones(min(len(seq), 1), np.bool_), (step != 0) & (step != 1)))
    starts = np.flatnonzero(begins)
    return np.repeat(seq[starts], np.diff(np.append(starts, len(seq))))


def _spread(tickets: Tickets, is_good: Bools) -> Tickets:
    """Tickets for all rows, those of errors meaning nothing."""
    if is_good.all():
        return tickets
    places = np.maximum(np.cumsum(is_good) - 1, 0)
    return Tickets(tickets.slice[places], tickets.before[places], tickets.flags[places])
