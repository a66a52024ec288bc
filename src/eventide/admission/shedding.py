"""Load shedding of one running stream: what the driver does when a batch has ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from eventide.admission.backpressure import LoadSheddingManager
from eventide.admission.gate import offered_as
from eventide.admission.load import BatchLoad
from eventide.admission.options import AdmissionSpec
from eventide.admission.shed_log import ShedLog
from eventide.admission.sla import Priority
from eventide.eventtime.durations import SECOND
from eventide.storage.results import Account

_MEMORY_FILE = Path("/proc/meminfo")
_FRESH = 0.3  # weight of a batch in what a byte is worth


class Shedding:
    """`specs` are those of the stream's sources that depend on load, by name; the shortest target counts. `kept` is for
    how long behind the watermark the rows of a window may come, where whole windows go.
    """

    def __init__(self, specs: Mapping[str, AdmissionSpec], log: ShedLog, kept: int | None = None) -> None:
        self._specs, self._log, self._kept = specs, log, kept
        target = min(spec.shed.target_latency for spec in specs.values() if spec.shed is not None)
        self._manager = LoadSheddingManager(target, log.latest())
        self._sheds = any(spec.sheds for spec in specs.values())
        self._per_byte: float | None = None

    def observe(self, account: Account, now: int, taken: int = 0, waiting: int | None = None) -> None:
        """The batch of `account` has ended at `now`, in microseconds; an order that differs is logged. It took `taken`
        bytes, and so many are `waiting`; None: nobody knows.
        """
        if account.began is None or not account.counts.get("rows_in"):
            return
        shed = account.counts.get("shed", 0)
        offered = account.counts["rows_in"] - account.counts.get("rejected", 0)
        rows = self._rows_of(waiting, offered, taken)
        if account.lanes:
            rows = (rows or 0) + self._unread(account)
        load = BatchLoad(offered, offered - shed, account.began / SECOND, now / SECOND, rows, _memory(), _cpu())
        before = self._manager.order
        order = self._manager.observe(load, self._mix(account, offered), *self._windows(account))
        if self._sheds and order.ratios != before.ratios:
            self._log.add(now, order)

    def _rows_of(self, waiting: int | None, offered: int, taken: int) -> int | None:
        """About how many rows wait, going by the length of those that were taken of late."""
        if taken > 0:
            fresh = offered / taken
            self._per_byte = fresh if self._per_byte is None else self._per_byte + _FRESH * (fresh - self._per_byte)
        return None if waiting is None or self._per_byte is None else round(waiting * self._per_byte)

    @staticmethod
    def _unread(account: Account) -> int:
        """Messages that wait in the partitions of a topic."""
        return sum(int(lane.get("unread") or 0) for lanes in account.lanes.values() for lane in lanes.values())

    def _windows(self, account: Account) -> tuple[int | None, int | None]:
        """The latest event time so far, and the start of the oldest window that may still get rows."""
        seen = [times["offered"] for times in account.sources.values() if "offered" in times]
        oldest = None if account.watermark is None or self._kept is None else account.watermark - self._kept
        return max(seen, default=None), oldest

    @property
    def keep(self) -> float:
        """The share of what comes that the next batch will keep."""
        return self._manager.keep if self._sheds else 1.0

    def figures(self) -> dict[str, float | str]:
        """The load as it was measured last, and what is to be shed."""
        order, score = self._manager.order, self._manager.score
        parts = {f"load_{name}": round(value, 4) for name, value in score.parts.items()}
        ratios = {f"shed_ratio_{name}": round(value, 4) for name, value in vars(order.ratios).items()}
        share = {"shed_share": round(order.share, 4), **ratios} if self._sheds else {}
        return {"load": round(score.value, 4), **parts, **share, "load_cause": score.cause}

    def _mix(self, account: Account, offered: int) -> dict[Priority, int]:
        """The batch's rows by priority. Rows of sources that are never shed are critical."""
        mix = {
            priority: sum(int(account.events.get(offered_as(name, priority), 0)) for name in self._specs)
            for priority in Priority
        }
        mix[Priority.CRITICAL] += max(offered - sum(mix.values()), 0)
        return mix


def kept_of(account: Account) -> float:
    """The share of a batch's rows that was not shed."""
    rows, shed = account.counts.get("rows_in", 0), account.counts.get("shed", 0)
    return 1 - shed / rows if rows else 1.0


def _cpu() -> float:
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def _memory() -> float | None:
    """The share of the machine's memory that is in use; None where the system does not tell."""
    try:
        lines = dict(line.split(":") for line in _MEMORY_FILE.read_text().splitlines())
        total, available = (int(lines[name].split()[0]) for name in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError, ValueError):
        return None
    return 1 - available / total
