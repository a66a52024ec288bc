"""The figures of each stage of a plan: what EXPLAIN shows beside it."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from eventide.diagnose.observer import Observed
from eventide.kernels.contract import SIDE_KINDS
from eventide.storage.history import PHASES, gauge_totals, rates, read_rates

_SHOWN = {
    "open_windows": "open windows",
    "open_groups": "open groups",
    "buffer_size": "waiting rows",
    "left_buffered": "rows of the left side",
    "right_buffered": "rows of the right side",
    "state_bytes": "state, bytes",
    "dedup_bytes": "remembered ids, bytes",
}


def stage_figures(seen: Observed) -> dict[str, list[tuple[str, Any]]]:
    """By stage, as `Node.stage` names it: pairs of a name and a value."""
    account, now = seen.account, time.time_ns() // 1000
    if account is None:
        return {}
    rate, read, gauges = rates(seen.points, now), read_rates(seen.points, now), gauge_totals(account)
    totals = account.totals
    unused = [(kind, totals[kind]) for kind in SIDE_KINDS if totals.get(kind)]
    given = totals.get("rows_out", 0)
    found: dict[str, list[tuple[str, Any]]] = {
        "stream": [("batches", account.batch + 1), *_phases(seen)],
        "route": [("rows", given), *unused],
        "output": [("rows", given), ("rows/s", rate.get("given", 0.0))],
        "operator": [
            ("used", totals.get("used", 0)),
            *((label, gauges[name]) for name, label in _SHOWN.items() if name in gauges),
            *((name.replace("_", " "), totals[name]) for name in ("windows_closed", "pairs") if totals.get(name)),
        ],
    }
    for name, figures in account.sources.items():
        rows = [("rows", figures["rows"]), ("rows/s", read.get(name, 0.0))] if "rows" in figures else []
        found[f"scan {name}"] = found[f"pack {name}"] = rows
        marks = [("watermark", "watermark"), ("newest time", "max_timestamp_seen")]
        found[f"watermark {name}"] = [(label, {"time": figures[key] // 1000}) for label, key in marks if key in figures]
    return found


def _phases(seen: Observed) -> list[tuple[str, Any]]:
    """Milliseconds that a batch took of late, on average, by phase."""
    recent = seen.points[-30:]
    took: Counter[str] = Counter()
    for point in recent:
        took.update(point.took)
    batches = sum(point.batches for point in recent)
    return [(f"{phase} ms", round(took[phase] / batches / 1000, 1)) for phase in PHASES if batches and took[phase]]
