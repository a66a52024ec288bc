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


class Shedding:
    """`specs` are those of the stream's sources that may be shed, by name; the shortest target counts."""

    def __init__(self, specs: Mapping[str, AdmissionSpec], log: ShedLog) -> None:
        self._specs, self._log = specs, log
        target = min(spec.shed.target_latency for spec in specs.values() if spec.shed is not None)
        self._manager = LoadSheddingManager(target, log.latest())
        self._seen: int | None = None

    def observe(self, account: Account, now: int) -> None:
        """The batch of `account` has ended at `now`, in microseconds; an order that differs is logged."""
        if account.batch == self._seen or account.began is None or not account.counts.get("rows_in"):
            return
        self._seen = account.batch
        shed = account.counts.get("shed", 0)
        offered = account.counts["rows_in"] - account.counts.get("rejected", 0)
        load = BatchLoad(offered, offered - shed, account.began / SECOND, now / SECOND, None, _memory(), _cpu())
        before = self._manager.order
        order = self._manager.observe(load, self._mix(account, offered))
        if order.ratios != before.ratios:
            self._log.add(now, order)

    def figures(self) -> dict[str, float | str]:
        """The load as it was measured last, and what is to be shed."""
        order, score = self._manager.order, self._manager.score
        parts = {f"load_{name}": round(value, 4) for name, value in score.parts.items()}
        return {"load": round(score.value, 4), **parts, "shed_share": round(order.share, 4), "load_cause": score.cause}

    def _mix(self, account: Account, offered: int) -> dict[Priority, int]:
        """The batch's rows by priority. Rows of sources that are never shed are critical."""
        mix = {
            priority: sum(int(account.events.get(offered_as(name, priority), 0)) for name in self._specs)
            for priority in Priority
        }
        mix[Priority.CRITICAL] += max(offered - sum(mix.values()), 0)
        return mix


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
