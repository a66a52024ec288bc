"""The late ledger: how late rows were, by how much they missed their windows, and what would have caught them.

Pure functions of a stream's definition, its payloads and its last account. Durations are microseconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eventide.diagnose.join_words import on_time_until, sides_of
from eventide.eventtime.durations import HOUR, MINUTE, SECOND
from eventide.plan.joins import OverlappingSessions, SameWindow
from eventide.plan.logical import Join, Rank, Stream
from eventide.plan.modes import EmitMode, LatePolicy
from eventide.plan.names import owner_of
from eventide.plan.reads import sources_of, window_of
from eventide.plan.stream_source import is_stream
from eventide.plan.windows import Cumulate, Hop, Session, Tumble
from eventide.storage.results import Account

DAY = 24 * HOUR
BOUNDS = (SECOND // 10, SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 6 * HOUR, DAY)
TARGETS = (99.0, 99.9, 100.0)
_RESOLUTION = 1000  # watermarks are whole milliseconds


@dataclass(frozen=True)
class Ledger:
    """The late rows of a stream. `behind`: how far behind the watermark they were; `missed`: how much longer their
    window would have had to wait.
    """

    rows: int
    reasons: dict[str, int]
    behind: tuple[int, ...]  # ascending
    missed: tuple[int, ...]  # ascending

    def histogram(self) -> list[tuple[int | None, int]]:
        """Pairs of a bound and how many rows were at most that late, but later than the previous bound; the last bound
        is None: no limit.
        """
        counts = Counter(next((bound for bound in BOUNDS if value <= bound), None) for value in self.behind)
        used = [place for place, bound in enumerate((*BOUNDS, None)) if counts[bound]]
        return [(bound, counts[bound]) for bound in (*BOUNDS, None)[used[0] : used[-1] + 1]] if used else []

    def quantile(self, share: float) -> int | None:
        """The lateness that this share of the late rows does not exceed."""
        return self.behind[max(0, math.ceil(share * len(self.behind)) - 1)] if self.behind else None


@dataclass(frozen=True)
class Advice:
    """To use `percent` of the rows, `extra` more lag or allowed lateness is needed; 0 if none."""

    percent: float
    extra: int
    more_windows: int  # open at any one time, per group
    more_bytes: int | None  # of state; None if there is no basis for an estimate


def ledger(stream: Stream, payloads: pa.Table) -> Ledger:
    """`payloads` are those of kind `late`, as in PAYLOAD_SCHEMA."""
    watermark = payloads["watermark"].cast(pa.int64())
    behind = pc.subtract(watermark, payloads["event_time"].cast(pa.int64()))
    ends = _ends(stream, payloads)
    missed = pc.coalesce(pc.subtract(watermark, pc.add(ends, stream.emit.allowed_lateness)), behind)
    reasons = {pair["values"]: pair["counts"] for pair in payloads["reason"].value_counts().to_pylist()}
    return Ledger(payloads.num_rows, reasons, _ascending(behind), _ascending(missed))


def _ends(stream: Stream, payloads: pa.Table) -> pa.ChunkedArray:
    """The watermark at which each row became late, without the allowed lateness; NULL where it is not known."""
    ends = pc.struct_field(payloads["window"], "end").cast(pa.int64())
    query = stream.query
    if not isinstance(query, Join) or isinstance(query.bound, OverlappingSessions):
        return ends
    times = payloads["event_time"].cast(pa.int64()).to_numpy()
    until = np.full(len(times), np.iinfo(np.int64).max)
    for name in set(payloads["source"].to_pylist()):
        rows = pc.equal(payloads["source"], name).to_numpy()
        for side in sides_of(query, name):
            until[rows] = np.minimum(until[rows], on_time_until(query, side, times[rows]))
    return pa.chunked_array([until])


def advise(stream: Stream, found: Ledger, account: Account) -> list[Advice]:
    """How much more lag or allowed lateness would have let 99, 99.9 and 100 % of the used and late rows be used."""
    used = account.totals.get("used", 0)
    total = used + found.rows
    advice = []
    for percent in TARGETS:
        wanted = math.ceil(round(total * percent / 100, 6)) - used
        extra = 0 if wanted <= 0 else -(-(found.missed[min(wanted, found.rows) - 1] + 1) // _RESOLUTION) * _RESOLUTION
        advice.append(Advice(percent, extra, *_cost(stream, account, extra)))
    return advice


def remedies(stream: Stream, missed: int) -> list[str]:
    """The statements that let windows wait as long as the latest of the late rows would have needed."""
    if missed <= 0:
        return []
    extra = -(-(missed + 1) // _RESOLUTION) * _RESOLUTION
    found = []
    if _takes_lateness(stream):
        wait = stream.emit.allowed_lateness + extra
        found.append(f"ALTER STREAM {owner_of(stream.name)} SET ('allowed_lateness' = '{_milliseconds(wait)}')")
    for source in {source.name: source for source in sources_of(stream.query)}.values():
        if source.event_time is not None and source.watermark_sql is None and not is_stream(source):
            lag = (source.watermark_lag or 0) + extra
            found.append(f"ALTER SOURCE {source.name} SET ('watermark.lag' = '{_milliseconds(lag)}')")
    return found


def _takes_lateness(stream: Stream) -> bool:
    """Whether ALLOW LATENESS is for this stream: windows that wait, and joins."""
    window = window_of(stream.query)
    waits = isinstance(stream.query, Join | Rank) or isinstance(window, Tumble | Hop | Cumulate | Session)
    return waits and stream.emit.mode is not EmitMode.FINAL and stream.options.late_policy is LatePolicy.WINDOW


def _milliseconds(micros: int) -> str:
    whole, rest = divmod(micros, SECOND)
    return f"{whole} seconds" if not rest else f"{micros // _RESOLUTION} milliseconds"


def used_share(found: Ledger, account: Account) -> float | None:
    """Percentage of the rows that were on time."""
    used = account.totals.get("used", 0)
    return None if used + found.rows == 0 else 100 * used / (used + found.rows)


def _cost(stream: Stream, account: Account, extra: int) -> tuple[int, int | None]:
    """How many more windows are open at once if they wait `extra` longer, and their bytes, if they hold as much as
    today's.
    """
    every = _period(stream)
    more = 0 if every is None else -(-extra // every)
    gauges = Counter[str]()
    for name, value in account.gauges.items():
        gauges[name.split("#")[0]] += value
    open_now = gauges["open_windows"]
    return more, None if not open_now or every is None else gauges["state_bytes"] * more // open_now


def _period(stream: Stream) -> int | None:
    """The time between the starts of two windows of the same group."""
    query = stream.query
    joined = query.bound.window if isinstance(query, Join) and isinstance(query.bound, SameWindow) else None
    match joined or window_of(query):
        case Tumble(size=period) | Hop(slide=period) | Cumulate(step=period) | Session(gap=period):
            return period
        case _:
            return None


def _ascending(values: pa.ChunkedArray) -> tuple[int, ...]:
    kept: Sequence[int] = values.drop_null().to_pylist()
    return tuple(sorted(kept))
