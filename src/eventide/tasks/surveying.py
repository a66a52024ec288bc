"""What a task finds out about the rows of a source with limits before it packs them: see `admission.batch_admission`.

Rows stand in the order (arrival, SEQ). A part of the input is a run of rows whose SEQ goes up one by one: no row of
another task stands within it, so that the order does not depend on who reads what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventide.admission.batch_admission import Arrivals, Bools, Ints, Tickets
from eventide.admission.gate import PRIORITY_CODE, SHED_PAYLOADS, by_priority
from eventide.admission.lags import lag_counts, sample
from eventide.admission.options import AdmissionSpec
from eventide.admission.shed_log import ShedLog
from eventide.admission.shedder import Priorities, ShedOrder, priority_codes, row_hashes, starts_of
from eventide.admission.source_admission import Admission, ShedInput
from eventide.admission.trust import Trusted
from eventide.eventtime.durations import MILLISECOND
from eventide.eventtime.resolution import DECLARED, FROM_PROCESSING
from eventide.kernels.contract import DETAIL, SEQ, TS
from eventide.kernels.vector.columns import column, ints
from eventide.storage.paths import AnyPath
from eventide.tasks.packing import ARRIVED, HOW, KEPT, NOW, PART, PRIORITY


@dataclass(frozen=True)
class Surveyed:
    rows: pa.Table  # those that the filters keep, with tickets
    slices: pa.Table | None  # None: no row was surveyed
    arrived: Ints  # when each of `rows` came
    out: Bools  # for each of `rows`: it will be rejected for its lag, or shed unless it is rejected
    order: bytes | None = None  # of the shedder; None: nothing is to be shed
    left_out: dict[int, int] = field(default_factory=dict)  # rows that were shed here, by priority
    rest: pa.Table | None = None  # rows that the filters leave out, and that may be admitted: their time counts


@dataclass(frozen=True)
class Surveying:
    """`numbered`: rows go on with SEQ, since the operator must know the order of arrival."""

    spec: AdmissionSpec
    numbered: bool
    orders: AnyPath | None = None  # of the shedder's log, where rows may be shed
    identity: str | None = None  # the column that tells rows apart; None: their place, or all columns and the arrival
    keys: tuple[str, ...] = ()  # of a group
    window: tuple[int, int] | None = None  # offset and size, where whole windows go
    weight: str | None = None  # the column that says how many rows one stands for, if anybody asks
    by_place: bool = False  # the source itself numbers its rows: their place tells them apart
    rest_counts: bool = True  # the time of rows that the filters leave out: not where the query says what the time is

    @property
    def needs_history(self) -> bool:
        return self.spec.needs_history

    @property
    def columns(self) -> tuple[str, ...]:
        """What rows must have beside what travels."""
        return (ARRIVED, KEPT) if self.orders is None else (ARRIVED, KEPT, NOW, PRIORITY)

    def is_calm(self, now: int) -> bool:
        """Whether nothing is shed of a batch that began then."""
        return self.orders is None or not Admission(self.spec, ShedLog(self.orders).at(now)).sheds

    def rejects(self, rows: pa.Table) -> Bools:
        """Which rows come too late for their source, as is known without asking anybody. They have ARRIVED, TS, HOW."""
        most = self.spec.sla.max_lag
        if most is None:
            return np.zeros(rows.num_rows, np.bool_)
        return (ints(rows, ARRIVED) - _times(rows) > most) & _mask(pc.equal(column(rows, HOW), DECLARED))

    def trusted(self, rows: pa.Table, arrived: Ints) -> Trusted:
        """What is told of rows that need not be asked for."""
        every = np.ones(rows.num_rows, np.bool_)
        places, each = sample(every)
        lags = lag_counts(arrived[places] - _times(rows)[places], each)
        return Trusted(rows.num_rows, lags, by_priority(rows, self.spec, every) if self.spec.sheds else {})

    def survey(self, rows: pa.Table, first: int, *, trusts: bool = False) -> Surveyed:
        """`rows` have SEQ, TS, HOW and `columns`; their numbers go up from `first`. A row that is an error is not
        surveyed: it takes no token and ends no gap. Who `trusts` needs tickets only if some row is rejected here.
        """
        order = ShedOrder() if self.orders is None else ShedLog(self.orders).at(rows[NOW][0].as_py())
        rows, unseen = _without_counts(rows) if self.by_place else (rows, 0)
        how, kept = column(rows, HOW), column(rows, KEPT)
        is_good = _mask(pc.less_equal(how, FROM_PROCESSING))
        priorities = self._priorities(rows)
        out = np.zeros(rows.num_rows, np.bool_)
        slices = None
        admission = Admission(self.spec, order)
        if is_good.any():
            load = self._load(rows, priorities, is_good) if admission.sheds and priorities is not None else None
            made = admission.survey(self._arrivals(rows, how, is_good, first), load)
            slices, tickets = made.slices, _spread(made.tickets, is_good)
            out = tickets.out
            needs_tickets = not trusts and (self.needs_history or len(slices["at"].unique()) > 1)
            if needs_tickets or tickets.flags is not None:
                for name, values in tickets.columns().items():
                    rows = rows.append_column(name, values)
        if priorities is not None and admission.sheds:
            rows = self._weighted(rows, admission.ratios(priorities, self._starts(rows)))
        arrived = _arrived(rows) if rows.num_rows else np.empty(0, np.int64)
        dropped = [*self.columns, PART, *(() if self.numbered else (SEQ,))]
        rows = rows.drop_columns([name for name in dropped if name in rows.column_names])
        if priorities is not None and slices is not None and self.spec.priority_sql is not None:
            rows = rows.append_column(PRIORITY_CODE, pa.array(priorities))
        told = order.to_bytes() if admission.sheds else None
        rest = None
        if not pc.all(kept).as_py():
            is_kept = _mask(kept)
            counts = is_good & ~is_kept & ~out if self.rest_counts else np.zeros_like(is_kept)
            rest = rows.filter(pa.array(counts)) if counts.any() else None
            rows, out, arrived = rows.filter(kept), out[is_kept], arrived[is_kept]
        left_out = {int(self.spec.priority): unseen} if unseen else {}
        found = Surveyed(rows, slices, arrived, out, told, left_out, rest)
        return found if self.needs_history or told is None or slices is None else self._without_shed(found)

    def _without_shed(self, found: Surveyed) -> Surveyed:
        """Rows whose fate is known here need not travel: they are counted, and some do, to leave a payload."""
        goes = Tickets.of(found.rows).to_be_shed
        goes[np.flatnonzero(goes)[:SHED_PAYLOADS]] = False
        if not goes.any():
            return found
        left_out = dict(Counter(found.left_out) + Counter(by_priority(found.rows, self.spec, goes)))
        rows = found.rows.filter(pa.array(~goes))
        return replace(found, rows=rows, arrived=found.arrived[~goes], out=found.out[~goes], left_out=left_out)

    @staticmethod
    def _arrivals(rows: pa.Table, how: pa.Array, is_good: Bools, first: int) -> Arrivals:
        seq = ints(rows, SEQ)
        if PART in rows.column_names:
            part, number = ints(rows, PART), seq
        else:
            part, number = _run_starts(seq), np.arange(first, first + rows.num_rows)
        found = Arrivals(_arrived(rows), part, number, _times(rows), _mask(pc.equal(how, DECLARED)))
        return found if is_good.all() else found.where(is_good)

    def _priorities(self, rows: pa.Table) -> Priorities | None:
        """None where nothing is ever shed."""
        if self.orders is None:
            return None
        if self.spec.priority_sql is None:
            return np.full(rows.num_rows, self.spec.priority, np.int8)
        return priority_codes(column(rows, PRIORITY), self.spec.priority)[0]

    def _load(self, rows: pa.Table, priorities: Priorities, is_good: Bools) -> ShedInput:
        """What the shedder looks at, for the rows that are no errors."""
        starts = self._starts(rows)
        hashes = row_hashes([column(rows, name) for name in self._told_apart(rows)], rows.num_rows)
        return ShedInput(priorities[is_good], hashes[is_good], None if starts is None else starts[is_good])

    def _told_apart(self, rows: pa.Table) -> Sequence[str]:
        """The columns by which the choice is made."""
        if self.window is not None:
            return self.keys
        if self.identity is not None:
            return (self.identity,)
        if self.by_place:
            return (SEQ,)
        hidden = (SEQ, PART, TS, HOW, DETAIL, KEPT, NOW, PRIORITY, self.weight)
        return [name for name in rows.column_names if name not in hidden]

    def _starts(self, rows: pa.Table) -> Ints | None:
        """The start of each row's window, where whole windows go."""
        return None if self.window is None else starts_of(_times(rows), self.window)

    def _weighted(self, rows: pa.Table, ratios: npt.NDArray[np.float64]) -> pa.Table:
        """A row that is kept stands for those that went in its place; one of a kind of which all go never counts."""
        if self.weight is None:
            return rows
        weights = 1 / np.maximum(1 - ratios, np.finfo(np.float64).tiny)
        return rows.set_column(rows.column_names.index(self.weight), self.weight, pa.array(weights))


def left_out_seq(count: int) -> int:
    """The SEQ of a row that only says how many rows its source has left out, shed and unseen."""
    return -count


def _without_counts(rows: pa.Table) -> tuple[pa.Table, int]:
    """The rows, and how many others were left out before them."""
    seq = ints(rows, SEQ)
    is_count = seq < 0
    return (rows, 0) if not is_count.any() else (rows.filter(pa.array(~is_count)), int(-seq[is_count].sum()))


def _arrived(rows: pa.Table) -> Ints:
    """When each row came, in whole milliseconds."""
    arrived = ints(rows, ARRIVED)
    first = arrived[0] // MILLISECOND * MILLISECOND
    if first == arrived.min() and first == arrived.max():  # dividing each of them takes longer than all the rest
        return arrived
    return arrived // MILLISECOND * MILLISECOND


def _mask(values: pa.BooleanArray) -> Bools:
    """Without NULLs; quickly where all is True, as it mostly is."""
    return np.ones(len(values), np.bool_) if pc.all(values).as_py() else np.asarray(values)


def _times(rows: pa.Table) -> Ints:
    times: Ints = column(rows, TS).fill_null(0).to_numpy(zero_copy_only=False)
    return times


def _run_starts(seq: Ints) -> Ints:
    """For each row the SEQ of the first row of its run. Rows of one line of a file have the same one."""
    step = np.diff(seq)
    if len(seq) and (step == 1).all():
        return np.full(len(seq), seq[0])
    begins = np.concatenate((np.ones(min(len(seq), 1), np.bool_), (step != 0) & (step != 1)))
    starts = np.flatnonzero(begins)
    return np.repeat(seq[starts], np.diff(np.append(starts, len(seq))))


def _spread(tickets: Tickets, is_good: Bools) -> Tickets:
    """Tickets for all rows, those of errors meaning nothing."""
    if is_good.all():
        return tickets
    return tickets.at(np.maximum(np.cumsum(is_good) - 1, 0))
