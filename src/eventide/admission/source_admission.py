"""One source's admission as the engine runs it: `survey` in the tasks that read, `decide` in the shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventide.admission.batch_admission import Arrivals, Bools, Codes, Ints, Outcome, Survey, Tickets, settle, survey
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


@dataclass(frozen=True)
class Decided:
    """For each row of a `ShardRows`, in order."""

    outcomes: Codes
    reasons: pa.Array  # string; NULL where admitted
    details: pa.Array  # string, JSON; NULL where admitted
    lags: Ints  # microseconds between event time and arrival

    @property
    def admitted(self) -> Bools:
        return np.equal(self.outcomes, Outcome.ADMITTED)

    def counts(self) -> Counter[str]:
        return counts_of(self.outcomes)


def counts_of(outcomes: Codes) -> Counter[str]:
    """Rows by the word of their outcome."""
    found = np.bincount(outcomes, minlength=len(Outcome))
    return Counter({outcome.word: int(found[outcome]) for outcome in Outcome if found[outcome]})


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

    def decide(
        self, state: AdmissionState, slices: Mapping[int, pa.Table], rows: Sequence[ShardRows]
    ) -> tuple[list[Decided], AdmissionState]:
        """`slices` of all surveys of the batch, of all tasks; `rows` are those of this shard."""
        settlement, new = settle(self._spec.sla, state, slices)
        figures = Figures(self._spec.sla, settlement, self._shedder)
        found = []
        for some in rows:
            outcomes = settlement.outcomes(some.survey, some.tickets)
            details = figures.details(some.survey, some.tickets, outcomes, some.event_time)
            if some.priorities is not None and outcomes.any():
                details = figures.shed_details(details, outcomes, some.priorities, some.window_starts)
            lags = settlement.arrivals_of(some.survey, some.tickets) - some.event_time
            found.append(Decided(outcomes, reasons(outcomes), details, lags))
        return found, new
