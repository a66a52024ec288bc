"""One source's admission as the engine runs it: `survey` in the tasks that read, `decide` in the shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventide.admission.batch_admission import (
    Arrivals,
    Bools,
    Codes,
    Ints,
    Outcome,
    Settlement,
    Survey,
    Tickets,
    settle,
    survey,
)
from eventide.admission.controller import AdmissionState
from eventide.admission.figures import Figures, reasons
from eventide.admission.options import AdmissionSpec, ShedMode, SlaBackpressurePolicy
from eventide.admission.shedder import LoadShedder, Priorities, ShedOrder
from eventide.errors import EngineError
from eventide.kernels.vector.hashing import Hashes


@dataclass(frozen=True)
class ShedInput:
    """What the shedder looks at, for each row. `hashes` are of the row, and in mode `windows` of its group's keys; that
    mode also needs the start of the one window that a row is in.
    """

    priorities: Priorities
    hashes: Hashes
    window_starts: Ints | None = None


@dataclass(frozen=True)
class ShardRows:
    """Rows of one survey that came to this shard. `priorities`, and `window_starts` in mode `windows`, are needed where
    rows may be shed, for the figures.
    """

    survey: int
    tickets: Tickets
    event_time: Ints
    priorities: Priorities | None = None
    window_starts: Ints | None = None

    def at(self, places: Ints) -> ShardRows:
        """Those at some places."""
        priorities = None if self.priorities is None else self.priorities[places]
        starts = None if self.window_starts is None else self.window_starts[places]
        return ShardRows(self.survey, self.tickets.at(places), self.event_time[places], priorities, starts)


@dataclass(frozen=True)
class Decided:
    """What became of each row of a `ShardRows`, in order. What few rows need is worked out when it is asked for."""

    outcomes: Codes
    _rows: ShardRows
    _settlement: Settlement
    _figures: Figures

    @property
    def admitted(self) -> Bools:
        return np.equal(self.outcomes, Outcome.ADMITTED)

    @property
    def reasons(self) -> pa.Array:
        """Words; NULL where admitted."""
        return reasons(self.outcomes)

    @property
    def details(self) -> pa.Array:
        """JSON; NULL where admitted."""
        some = self._rows
        details = self._figures.details(some.survey, some.tickets, self.outcomes, some.event_time)
        if some.priorities is None or not self.outcomes.any():
            return details
        return self._figures.shed_details(details, self.outcomes, some.priorities, some.window_starts)

    def at(self, places: Ints) -> Decided:
        """Of the rows at these places."""
        return Decided(self.outcomes[places], self._rows.at(places), self._settlement, self._figures)

    def lags(self, places: Ints) -> Ints:
        """Microseconds between event time and arrival, of the rows at these places."""
        some = self._rows.at(places)
        return self._settlement.arrivals_of(some.survey, some.tickets) - some.event_time

    def counts(self) -> Counter[str]:
        return counts_of(self.outcomes)


@dataclass(frozen=True)
class Decision:
    rows: list[Decided]
    state: AdmissionState
    admits_all_takers: bool  # every row of the batch that wants a token gets one, in all shards


def counts_of(outcomes: Codes) -> Counter[str]:
    """Rows by the word of their outcome."""
    if not outcomes.any():
        return Counter({Outcome.ADMITTED.word: len(outcomes)} if len(outcomes) else {})
    found = {outcome.word: int(np.count_nonzero(outcomes == outcome)) for outcome in Outcome}
    return Counter({word: count for word, count in found.items() if count})


class Admission:
    """`order` is what the driver has decided about load for this batch; the same one must be given in tasks and shards.

    The state must be kept by every shard, and `decide` must be called in every shard for each batch in which the
    source had rows, even if none came to this shard.
    """

    def __init__(self, spec: AdmissionSpec, order: ShedOrder | None = None) -> None:
        self._spec = spec
        self._order = order or ShedOrder()
        self._shedder = LoadShedder(self._order)

    @property
    def sheds(self) -> bool:
        """Whether the order lets any row go."""
        return self._order.sheds_windows if self._by_windows else self._order.share > 0

    @property
    def _by_windows(self) -> bool:
        return self._spec.shed is not None and self._spec.shed.mode is ShedMode.WINDOWS

    def ratios(self, priorities: Priorities, window_starts: Ints | None) -> npt.NDArray[np.float64]:
        """The share that goes of rows like each of these."""
        return self._shedder.ratios(priorities, window_starts)

    def survey(self, rows: Arrivals, load: ShedInput | None = None) -> Survey:
        return survey(self._spec.sla, rows, None if load is None else self._to_be_shed(load))

    def _to_be_shed(self, load: ShedInput) -> Bools | None:
        shed = self._spec.shed
        if shed is None or shed.policy is not SlaBackpressurePolicy.STRICT:
            return None
        if shed.mode is ShedMode.ROWS:
            return self._shedder.rows(load.priorities, load.hashes)
        if load.window_starts is None:
            raise EngineError("shed.mode 'windows' was not told the window of each row")
        return self._shedder.windows(load.priorities, load.hashes, load.window_starts)

    def decide(self, state: AdmissionState, slices: Mapping[int, pa.Table], rows: Sequence[ShardRows]) -> Decision:
        """`slices` of all surveys of the batch, of all tasks; `rows` are those of this shard."""
        settlement, new = settle(self._spec.sla, state, slices)
        figures = Figures(self._spec.sla, settlement, self._shedder)
        outcomes = [settlement.outcomes(some.survey, some.tickets) for some in rows]
        decided = [Decided(codes, some, settlement, figures) for codes, some in zip(outcomes, rows, strict=True)]
        return Decision(decided, new, settlement.admits_all_takers)
