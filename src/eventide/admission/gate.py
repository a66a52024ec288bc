"""Admission where the operator runs: the rows of a shard that go on, and payloads for those that do not.

Every shard works out the same decision from the slices of all tasks, and keeps the same state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.admission.batch_admission import TICKET_FIELDS, Bools, Codes, Ints, Outcome, Tickets
from eventide.admission.controller import AdmissionState
from eventide.admission.lags import lag_counts, sample
from eventide.admission.options import AdmissionSpec
from eventide.admission.shedder import Priorities, ShedOrder, starts_of
from eventide.admission.sla import Priority
from eventide.admission.source_admission import Admission, Decided, ShardRows, counts_of
from eventide.admission.trust import Trusted
from eventide.kernels.contract import CLAIM, CLAIM_LAG, PROBLEM, TS, Output, Store
from eventide.kernels.side_rows import SideRows
from eventide.kernels.vector.columns import column, ints

SPACE = "admission"  # of the shard's store; a bucket of it is the state of one input
ADMITTED, REJECTED, SHED, TOKENS_LEFT = "admitted", "rejected", "shed", "tokens_left"
SHED_PAYLOADS = 1000  # of a piece of a batch: more are counted and leave none, since what is shed must cost little
PRIORITY_CODE = "__rank"  # int8; of rows that may be shed, where not all have the priority of their source
REFUSED = tuple(f"{REJECTED}_{outcome.word}" for outcome in (Outcome.JITTER, Outcome.RATE))  # not known to tasks
FIGURES = (ADMITTED, *(f"{REJECTED}_{outcome.word}" for outcome in (Outcome.LAG, Outcome.JITTER, Outcome.RATE)), SHED)


@dataclass
class LetIn:
    """What one shard made of a batch. All but `output` is by input.

    `claims` are the watermarks that admitted rows allow, and `tops` the latest event times, where no task could tell
    them. `figures` are FIGURES, counts of lags, and TOKENS_LEFT, which all shards know alike. `offered` are the latest
    event times of all rows, those that were shed included, where whole windows go.
    """

    rows: dict[int, list[pa.Table]] = field(default_factory=dict)
    output: Output = field(default_factory=Output)
    claims: dict[int, int] = field(default_factory=dict)
    tops: dict[int, int] = field(default_factory=dict)
    figures: dict[int, dict[str, float]] = field(default_factory=dict)
    offered: dict[int, int] = field(default_factory=dict)
    is_overdrawn: bool = False  # rows were let pass that limits do not admit: the batch must be taken again

    def noted(self, number: int, rows: pa.Table) -> pa.Table:
        """Notes what admitted rows say about time; gives them without what only this needs."""
        if CLAIM in rows.column_names:
            self.note(number, _good(rows))
            return rows.drop_columns([CLAIM])
        lag, top = (rows.schema.metadata or {}).get(CLAIM_LAG), pc.max(rows[TS]).as_py()
        if lag is not None and top is not None:
            _raise(self.claims, number, top - int(lag))
            _raise(self.tops, number, top)
        return rows

    def note(self, number: int, admitted: pa.Table) -> None:
        """What rows say about time: CLAIM and TS."""
        for times, name in ((self.claims, CLAIM), (self.tops, TS)):
            latest = pc.max(admitted[name]).as_py()
            if latest is not None:
                _raise(times, number, latest)


class Gate:
    """`specs` are those of the inputs that have limits, by number. `window` is the tumbling window (offset, size) that
    may go as a whole; None: rows go one by one.
    """

    def __init__(
        self, specs: Mapping[int, AdmissionSpec], side_rows: SideRows, window: tuple[int, int] | None = None
    ) -> None:
        self._specs = specs
        self._side_rows = side_rows
        self._window = window

    def let_in(
        self,
        slices: Mapping[int, Mapping[int, pa.Table]],
        rows: Mapping[int, Sequence[tuple[int | None, pa.Table]]],
        store: Store,
        orders: Mapping[int, ShedOrder] | None = None,
        left_out: Mapping[int, Mapping[int, int]] | None = None,
        rest: Mapping[int, Sequence[tuple[int, pa.Table]]] | None = None,
        trusted: Mapping[int, Sequence[Trusted]] | None = None,
    ) -> LetIn:
        """`slices` by input and survey, of all tasks; `rows` of this shard by input, each table with its survey, or
        None if it has none: then it has errors only. `orders` are those under which the slices were made, where rows
        are to be shed, `left_out` how many rows tasks have shed by themselves, by input and priority. `rest` are
        tickets, TS and CLAIM of rows that the query leaves out, each with its survey: those that are admitted tell
        about time, and nothing else. `trusted` is what tasks tell of rows that they let pass. Must be called for every
        batch in which there are slices.
        """
        found = LetIn(rows={number: [table for _, table in tables] for number, tables in rows.items()})
        for number in sorted(slices):
            order = (orders or {}).get(number)
            others = (rest or {}).get(number, ())
            passed = (trusted or {}).get(number, ())
            found.rows[number] = self._judged(
                number, slices[number], rows.get(number, ()), order, store, found, others, bool(passed)
            )
            for told in passed:
                self._add_trusted(number, told, found)
            self._add_left_out(number, (left_out or {}).get(number, {}), found)
        return found

    def _judged(
        self,
        number: int,
        slices: Mapping[int, pa.Table],
        tables: Sequence[tuple[int | None, pa.Table]],
        order: ShedOrder | None,
        store: Store,
        found: LetIn,
        rest: Sequence[tuple[int, pa.Table]],
        some_passed: bool,
    ) -> list[pa.Table]:
        spec, kept = self._specs[number], store.read(SPACE, number)
        state = AdmissionState.from_bytes(kept[0]) if kept else AdmissionState()
        surveyed = [(survey, table) for survey, table in tables if survey is not None]
        asked = [_asked(spec, survey, table, self._window) for survey, table in surveyed]
        if self._window is not None:
            latest = [top for _, table in surveyed if (top := pc.max(_good(table)[TS]).as_py()) is not None]
            found.offered.update({number: max(latest)} if latest else {})
        asked += [ShardRows(survey, Tickets.of(table), ints(table, TS)) for survey, table in rest]
        decision = Admission(spec, order).decide(state, slices, asked)
        decided, new = decision.rows, decision.state
        found.is_overdrawn |= some_passed and not decision.admits_all_takers
        if spec.needs_history:
            store.replace(SPACE, number, new.to_bytes())
        figures: dict[str, float] = dict.fromkeys(FIGURES, 0)
        if new.bucket is not None:
            figures[TOKENS_LEFT] = float(new.bucket.measure.tokens(new.bucket.level))
        found.figures[number] = figures
        let_in = [table for survey, table in tables if survey is None]
        of_rows, of_rest = decided[: len(surveyed)], decided[len(surveyed) :]
        for (_, table), each in zip(rest, of_rest, strict=True):
            found.note(number, table.filter(pa.array(each.outcomes == Outcome.ADMITTED)))
        for (_, table), each in zip(surveyed, of_rows, strict=True):
            table = self._without_rejected(number, table, each, found.output, figures)
            let_in.append(found.noted(number, table))
        return [table for table in let_in if table.num_rows]

    def _add_trusted(self, number: int, told: Trusted, found: LetIn) -> None:
        figures = found.figures[number]
        figures[ADMITTED] += told.admitted
        for size, rows in told.lags.items():
            figures[size] = figures.get(size, 0) + rows
        for priority, rows in told.offered.items():
            found.output.events[offered_as(self._side_rows.source(number), Priority(priority))] += rows
        if told.top is not None:
            _raise(found.tops, number, told.top)
            if self._window is not None:
                _raise(found.offered, number, told.top)

    def _add_left_out(self, number: int, left_out: Mapping[int, int], found: LetIn) -> None:
        count = sum(left_out.values())
        if count:
            found.output.counts[SHED] += count
            found.figures[number][SHED] += count
        for priority, rows in left_out.items():
            found.output.events[offered_as(self._side_rows.source(number), Priority(priority))] += rows

    def _without_rejected(
        self, number: int, table: pa.Table, decided: Decided, output: Output, figures: dict[str, float]
    ) -> pa.Table:
        is_error = _errors(table)
        outcomes = decided.outcomes
        if is_error is not None:
            outcomes = np.where(is_error, np.uint8(Outcome.ADMITTED), outcomes)
        for word, count in counts_of(outcomes if is_error is None else outcomes[~is_error]).items():
            figures[word if word in (ADMITTED, SHED) else f"{REJECTED}_{word}"] += count
        admitted = outcomes == Outcome.ADMITTED if is_error is None else (outcomes == Outcome.ADMITTED) & ~is_error
        places, each = sample(admitted)
        for size, rows in lag_counts(decided.lags(places), each).items():
            figures[size] = figures.get(size, 0) + rows
        self._count_offered(number, table, outcomes, is_error, output)
        table = table.drop_columns([name for name in (*TICKET_FIELDS, PRIORITY_CODE) if name in table.column_names])
        shed = outcomes == Outcome.SHED
        rejected = (outcomes != Outcome.ADMITTED) & ~shed
        if shed.any():
            told = np.flatnonzero(shed)[:SHED_PAYLOADS]
            self._put(output, SHED, number, table.take(pa.array(told)), decided.at(told), np.ones(len(told), np.bool_))
            output.counts[SHED] += int(shed.sum()) - len(told)
        if rejected.any():
            table = self._put(output, REJECTED, number, table, decided, rejected)
        return table if not shed.any() else table.filter(pa.array(~shed[~rejected]))

    def _put(self, output: Output, kind: str, number: int, rows: pa.Table, decided: Decided, chosen: Bools) -> pa.Table:
        """Puts the chosen rows aside; returns the others."""
        reasons, details = decided.reasons, decided.details
        return self._side_rows.put(output, rows, chosen, kind, reasons, input=number, detail=details)

    def _count_offered(
        self, number: int, table: pa.Table, outcomes: Codes, is_error: Bools | None, output: Output
    ) -> None:
        """Rows that limits admit, by priority: what the shedder has to choose from."""
        if not self._specs[number].sheds:
            return
        offered = (outcomes == Outcome.ADMITTED) | (outcomes == Outcome.SHED)
        offered = offered if is_error is None else offered & ~is_error
        for priority, count in by_priority(table, self._specs[number], offered).items():
            output.events[offered_as(self._side_rows.source(number), Priority(priority))] += count


def offered_as(source: str, priority: Priority) -> str:
    """The event that counts rows of `source` which limits admitted, whatever the shedder made of them."""
    return f"offered_{source}_{priority.word}"


def _raise(times: dict[int, int], number: int, time: int) -> None:
    times[number] = max(time, times.get(number, time))


def by_priority(rows: pa.Table, spec: AdmissionSpec, chosen: Bools) -> dict[int, int]:
    """How many of the chosen rows have each priority."""
    if PRIORITY_CODE not in rows.column_names:
        count = int(np.count_nonzero(chosen))
        return {int(spec.priority): count} if count else {}
    counts = np.bincount(column(rows, PRIORITY_CODE).to_numpy()[chosen], minlength=len(Priority))
    return {priority: count for priority, count in enumerate(counts.tolist()) if count}


def _ranks(rows: pa.Table, spec: AdmissionSpec) -> Priorities | None:
    """The priority of each row; None where nothing is ever shed."""
    if PRIORITY_CODE in rows.column_names:
        ranks: Priorities = column(rows, PRIORITY_CODE).to_numpy()
        return ranks
    return np.full(rows.num_rows, spec.priority, np.int8) if spec.sheds else None


def _asked(spec: AdmissionSpec, survey: int, table: pa.Table, window: tuple[int, int] | None) -> ShardRows:
    times = ints(table, TS) if _errors(table) is None else _filled(table)
    ranks = _ranks(table, spec)
    return ShardRows(survey, Tickets.of(table), times, ranks, None if window is None else starts_of(times, window))


def _errors(table: pa.Table) -> Bools | None:
    """Which rows are errors, which were not surveyed and whose tickets mean nothing; None if none is."""
    if PROBLEM not in table.column_names or table[PROBLEM].null_count == table.num_rows:
        return None
    return np.asarray(column(table, PROBLEM).is_valid())


def _good(table: pa.Table) -> pa.Table:
    errors = _errors(table)
    return table if errors is None else table.filter(pa.array(~errors))


def _filled(table: pa.Table) -> Ints:
    times: Ints = column(table, TS).fill_null(0).to_numpy(zero_copy_only=False)
    return times
