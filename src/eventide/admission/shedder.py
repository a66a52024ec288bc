"""Which rows go when a share of them must: lower priorities first, and among equals by a hash, so that a replay sheds
the same rows. The sets are nested: a row that goes at 20 % goes at 30 % as well.

The driver decides an order, logs it, and the tasks carry it out. CRITICAL rows never go, and all rows of class platinum
are critical.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventide.admission.sla import Priority
from eventide.kernels.vector.hashing import Hashes, hash_rows, mixed

Bools = npt.NDArray[np.bool_]
Priorities = npt.NDArray[np.int8]

_SALT = 0x73686564  # so that shedding is independent of the choice of shards, which hashes the same keys
_ALL = 1 << 32


@dataclass(frozen=True)
class ShedRatios:
    """The share that goes, by priority. A priority is touched only when all below it is gone."""

    low: float = 0.0
    medium: float = 0.0
    high: float = 0.0

    @classmethod
    def of_share(cls, share: float, mix: Mapping[Priority, int]) -> ShedRatios:
        """To shed `share` of all rows. `mix` are the rows of each priority that came of late.

        >>> ShedRatios.of_share(0.5, {Priority.LOW: 40, Priority.MEDIUM: 40, Priority.CRITICAL: 20})
        ShedRatios(low=1.0, medium=0.25, high=0.0)
        """
        if share <= 0:
            return cls()
        left = share * sum(mix.values())
        ratios = []
        for priority in (Priority.LOW, Priority.MEDIUM, Priority.HIGH):
            rows = mix.get(priority, 0)
            ratios.append(min(1.0, left / rows) if rows else float(left > 0))
            left = max(0.0, left - rows)
        return cls(*ratios)

    def by_priority(self) -> npt.NDArray[np.float64]:
        return np.array([self.low, self.medium, self.high, 0.0])

    def of(self, priority: Priority) -> float:
        return float(self.by_priority()[priority])


@dataclass(frozen=True)
class ShedOrder:
    """The driver's decision for the next batch, as data. `since` are earlier ratios by the event time from which they
    hold: a window keeps those under which it began, and only `shed.mode = windows` looks at them.
    """

    ratios: ShedRatios = ShedRatios()
    share: float = 0.0  # of all rows
    score: float = 0.0
    cause: str = ""
    since: tuple[tuple[int, ShedRatios], ...] = ()

    def changed(self, ratios: ShedRatios, seen: int | None, oldest: int | None) -> tuple[tuple[int, ShedRatios], ...]:
        """`since` of an order with other ratios. They hold for windows that start behind `seen`, the latest event time
        so far: none of these has a row yet. What held only for windows that start before `oldest` is left out.
        """
        history = self.since
        if ratios != (history[-1][1] if history else ShedRatios()):
            start = _BEGINNING if seen is None else seen + 1
            history = (*(each for each in history if each[0] < start), (start, ratios))
        if oldest is not None:
            past = bisect.bisect_right([start for start, _ in history], oldest) - 1
            history = history[max(past, 0) :]
        return history

    @property
    def sheds_windows(self) -> bool:
        """Whether any window goes, be it one that began under an earlier order."""
        return any(ratios != ShedRatios() for _, ratios in self.since)

    def to_bytes(self) -> bytes:
        own = {**vars(self), "ratios": _listed(self.ratios), "since": [(at, _listed(each)) for at, each in self.since]}
        return json.dumps(own).encode()

    @classmethod
    def from_bytes(cls, blob: bytes) -> ShedOrder:
        found: dict[str, Any] = json.loads(blob)
        since = tuple((at, ShedRatios(*each)) for at, each in found["since"])
        return cls(**{**found, "ratios": ShedRatios(*found["ratios"]), "since": since})


_BEGINNING = -(1 << 63)


def _listed(ratios: ShedRatios) -> list[float]:
    return [ratios.low, ratios.medium, ratios.high]


class LoadShedder:
    """Carries an order out."""

    def __init__(self, order: ShedOrder) -> None:
        self.order = order
        self._starts = np.array([start for start, _ in order.since], np.int64)
        self._since = np.array([each.by_priority() for each in (ShedRatios(), *(each for _, each in order.since))])

    def rows(self, priorities: Priorities, hashes: Hashes) -> Bools:
        """mode `rows`: True for each row that goes. `hashes` are those of `row_hashes`."""
        return _falls(hashes, self.ratios(priorities))

    def windows(self, priorities: Priorities, key_hashes: Hashes, starts: npt.NDArray[np.int64]) -> Bools:
        """mode `windows`: True for each (key, window) that goes, given the key's hash and the window's start. All rows
        of it must have the same priority. A row goes if all its windows do; a window that goes is not emitted.
        """
        return _falls(mixed(key_hashes ^ mixed(starts.view(np.uint64))), self.ratios(priorities, starts))

    def ratios(self, priorities: Priorities, starts: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.float64]:
        """The ratio in force for each row, or for each window with its start."""
        if starts is None:
            return self.order.ratios.by_priority()[priorities]
        return self._since[np.searchsorted(self._starts, starts, side="right"), priorities]


def _falls(hashes: Hashes, ratios: npt.NDArray[np.float64]) -> Bools:
    """By the upper half of a hash."""
    fallen: Bools = hashes >> np.uint64(32) < np.round(ratios * _ALL).astype(np.uint64)
    return fallen


def starts_of(times: npt.NDArray[np.int64], window: tuple[int, int]) -> npt.NDArray[np.int64]:
    """The start of the tumbling window (offset, size) that each time is in."""
    offset, size = window
    return (times - offset) // size * size + offset


def row_hashes(identity: Sequence[pa.Array], rows: int) -> Hashes:
    """Hashes for shedding from what makes up a row's identity: its id where it has one, else all columns and the
    arrival. Rows that agree in all of it share their fate. For windows: from the group's keys.
    """
    return hash_rows(list(identity), rows, seed=_SALT)


def priority_codes(words: pa.Array, default: Priority) -> tuple[Priorities, int]:
    """(the priority of each row, how many had a word that is none). They and NULLs have the default."""
    known = pa.array([priority.word for priority in Priority])
    codes = pc.index_in(pc.utf8_lower(words.cast(pa.string())), known)
    unknown = codes.null_count - words.null_count
    return codes.fill_null(int(default)).to_numpy(zero_copy_only=False).astype(np.int8), unknown
