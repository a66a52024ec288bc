"""What a task finds out about the rows of a source with limits before it packs them: see `admission.batch_admission`.

Rows stand in the order (arrival, SEQ). A part of the input is a run of rows whose SEQ goes up one by one: no row of
another task stands within it, so that the order does not depend on who reads what.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.admission.admission import Admission
from eventide.admission.batch_admission import Arrivals, Bools, Ints, Tickets
from eventide.admission.options import AdmissionSpec
from eventide.eventtime.durations import MILLISECOND
from eventide.eventtime.resolution import DECLARED, FROM_PROCESSING
from eventide.kernels.contract import SEQ, TS
from eventide.kernels.vector.columns import column, ints
from eventide.tasks.packing import ARRIVED, HOW, KEPT


@dataclass(frozen=True)
class Surveyed:
    rows: pa.Table  # those that the filters keep, with tickets
    slices: pa.Table | None  # None: no row was surveyed
    too_late: Bools  # for each of `rows`: it will be rejected for its lag


@dataclass(frozen=True)
class Surveying:
    """`numbered`: rows go on with SEQ, since the operator must know the order of arrival."""

    spec: AdmissionSpec
    numbered: bool

    @property
    def needs_history(self) -> bool:
        return self.spec.needs_history

    def survey(self, rows: pa.Table, first: int) -> Surveyed:
        """`rows` have SEQ, TS, HOW, ARRIVED and KEPT; their numbers go up from `first`. A row that is an error is not
        surveyed: it takes no token and ends no gap.
        """
        how, kept = column(rows, HOW), column(rows, KEPT)
        is_good, is_kept = np.asarray(pc.less_equal(how, FROM_PROCESSING)), np.asarray(kept)
        slices, too_late = None, np.zeros(rows.num_rows, np.bool_)
        if is_good.any():
            made = Admission(self.spec).survey(self._arrivals(rows, how, is_good, first))
            slices, tickets = made.slices, _spread(made.tickets, is_good)
            too_late = tickets.too_late
            for name, values in tickets.columns().items():
                rows = rows.append_column(name, values)
        rows = rows.drop_columns([ARRIVED, KEPT] if self.numbered else [ARRIVED, KEPT, SEQ])
        return Surveyed(rows.filter(kept), slices, too_late[is_kept])

    @staticmethod
    def _arrivals(rows: pa.Table, how: pa.Array, is_good: Bools, first: int) -> Arrivals:
        arrived = ints(rows, ARRIVED) // MILLISECOND * MILLISECOND
        numbers = np.arange(first, first + rows.num_rows)
        times = column(rows, TS).fill_null(0).to_numpy(zero_copy_only=False)
        every = [arrived, _run_starts(ints(rows, SEQ)), numbers, times, np.asarray(pc.equal(how, DECLARED))]
        return Arrivals(*(every if is_good.all() else [values[is_good] for values in every]))


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
    return Tickets(tickets.slice[places], tickets.before[places], tickets.mark[places])
