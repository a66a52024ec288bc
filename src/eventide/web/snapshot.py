"""What the page shows of all streams at a moment, as values that JSON can hold. Times are milliseconds."""

from __future__ import annotations

import time
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from eventide.diagnose.answers import answer
from eventide.diagnose.observer import FAILED, NEW, RUNNING, STOPPED, Observed, Observer
from eventide.diagnose.why import Seen
from eventide.errors import EventideError
from eventide.eventtime.lanes import held_back_by
from eventide.kernels.contract import SIDE_KINDS, USED
from eventide.plan.joins import SameWindow
from eventide.plan.logical import Join, Source, Stream
from eventide.plan.names import owner_of
from eventide.plan.reads import sources_of, window_of
from eventide.plan.stream_source import IS_LATE, STREAM, is_stream
from eventide.plan.windows import Calendar, Cumulate, Hop, Session, Slide, Tumble
from eventide.secrets import masked
from eventide.sql.catalog import Catalog
from eventide.storage.history import KINDS, PHASES, Point, gauge_totals, rates, read_rates

# What stands where in a point, which is a list: so that a quarter of an hour is a small message.
POINT_COLUMNS = (
    "second",
    "batch",
    "at",
    "batches",
    *KINDS,
    "given",
    "closed",
    "watermark",
    "newest",
    "open",
    "state_bytes",
    *PHASES,
)
_RATES = 30  # seconds of points that rates are made of, at least
_STILL = 15_000_000  # microseconds without a move, after which a stream with something open stands still


class Snapshots:
    """Makes snapshots. What is said in words costs more than figures, so it is kept while nothing has changed."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._said: dict[str, tuple[tuple[Any, ...], list[str]]] = {}

    def take(self, since: int = 0) -> dict[str, Any]:
        """All streams, with their points of the second `since` and later."""
        now, catalog = time.time_ns() // 1000, self._observer.catalog()
        wanted = min(since, now // 1_000_000 - _RATES) if since else 0  # rates need points from before as well
        seen = {name: self._observer.observe(name, wanted) for name in catalog.graph()}
        figures = {name: _rates(each, now) for name, each in seen.items()}
        return {
            "now": now // 1000,
            "version": version("eventide"),
            "kind": self._observer.kind,
            "place": self._observer.layout.root.name,
            "columns": POINT_COLUMNS,
            "graph": graph(catalog, figures),
            "streams": [self._stream(catalog, each, seen, figures[name], now, since) for name, each in seen.items()],
        }

    def _stream(
        self,
        catalog: Catalog,
        seen: Observed,
        all_seen: dict[str, Observed],
        rate: dict[str, Any],
        now: int,
        since: int,
    ) -> dict[str, Any]:
        stream, account = seen.stream, seen.account
        gauges = {} if account is None else dict(gauge_totals(account))
        totals = account.totals if account else {}
        return {
            "name": stream.name,
            "inner": owner_of(stream.name) != stream.name,
            "state": seen.state,
            "error": seen.failure,
            "help": seen.way_out,
            "standing": self._standing(seen, all_seen, now),
            "sql": masked(catalog.text(stream.name)),
            "emit": stream.emit.mode.value,
            "took": {phase: micros / 1_000_000 for phase, micros in seen.took.items()},
            "batch": -1 if account is None else account.batch,
            "accounting": {name: totals.get(name, 0) for name in KINDS},
            "given": totals.get("rows_out", 0),
            "closed": totals.get("windows_closed", 0),
            "rates": rate["kinds"],
            "watermark": _ms(seen.watermark),
            "open": gauges.get("open_windows") or gauges.get("buffer_size", 0),
            "open_what": "rows" if not gauges.get("open_windows") and gauges.get("buffer_size") else "windows",
            "groups": gauges.get("open_groups"),
            "state_bytes": gauges.get("state_bytes", 0) + gauges.get("dedup_bytes", 0),
            "gauges": {name: value for name, value in sorted(gauges.items()) if not name.startswith(("next_", "max_"))},
            "window": window_shape(stream),
            "sources": [_source(source, seen, rate["sources"]) for source in _distinct_sources(stream)],
            "tables": {name: dict(each) for name, each in seen.tables.items()},
            "figures": dict(seen.figures),
            "points": [_row(point) for point in seen.points if point.second >= since],
        }

    def _standing(self, seen: Observed, all_seen: dict[str, Observed], now: int) -> list[str] | None:
        """Why nothing comes out, in words, where nothing does; None for a stream that goes on."""
        if seen.state == FAILED or (seen.state == RUNNING and not stands_still(seen, now)):
            return None
        key = (seen.state, seen.account and seen.account.batch, seen.watermark, now // _STILL)
        known = self._said.get(seen.stream.name)
        if known is None or known[0] != key:
            known = self._said[seen.stream.name] = key, why_lines(seen, all_seen, now)
        return known[1]


def stands_still(seen: Observed, now: int) -> bool:
    """Whether something is open or nothing has come, and nothing has moved for a while."""
    account = seen.account
    if account is None or not account.totals.get("rows_in"):
        return True
    gauges = gauge_totals(account)
    is_open = gauges["open_windows"] or gauges["buffer_size"]
    if not is_open:
        return False
    recent = [point for point in seen.points if point.at > now - _STILL]
    moved = {point.watermark for point in recent if point.closed == 0}
    closed = any(point.closed or point.given for point in recent)
    return not closed and len(moved) <= 1 and (not recent or recent[0].at < now - _STILL // 2)


def why_lines(seen: Observed, all_seen: dict[str, Observed], now: int) -> list[str]:
    def read(name: str) -> Seen:
        other = all_seen[name]
        return Seen(other.stream, other.account, other.watermark, other.idle, other.idle_partitions)

    try:
        return answer(read(seen.stream.name), now, read, seen.tables, seen.figures)
    except EventideError as error:
        return [error.message]


def window_shape(stream: Stream) -> dict[str, Any] | None:
    """Where windows lie, as far as it does not depend on rows; None for streams without windows."""
    query = stream.query
    joined = query.bound.window if isinstance(query, Join) and isinstance(query.bound, SameWindow) else None
    late = _ms(stream.emit.allowed_lateness)
    match joined or window_of(query):
        case Tumble(size=size, offset=offset):
            return {"kind": "tumble", "size": _ms(size), "step": _ms(size), "offset": _ms(offset), "lateness": late}
        case Hop(size=size, slide=slide, offset=offset):
            return {"kind": "hop", "size": _ms(size), "step": _ms(slide), "offset": _ms(offset), "lateness": late}
        case Cumulate(size=size, step=step, offset=offset):
            return {"kind": "cumulate", "size": _ms(size), "step": _ms(step), "offset": _ms(offset), "lateness": late}
        case Session(gap=gap):
            return {"kind": "session", "size": _ms(gap), "lateness": late}
        case Calendar(unit=unit, count=count):
            return {"kind": "calendar", "unit": unit.value, "count": count, "lateness": late}
        case Slide(lookback=back):
            return {"kind": "slide", "size": _ms(back), "lateness": late}
        case _:
            return None


def graph(catalog: Catalog, figures: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Sources, tables, streams and sinks, and what flows between them, in rows per second."""
    streams = catalog.graph()
    nodes = [
        *({"id": f"source:{s.name}", "name": s.name, "kind": "source", "what": s.connector} for s in _used(catalog)),
        *({"id": f"stream:{name}", "name": name, "kind": "stream", "what": _what(s)} for name, s in streams.items()),
        *(
            {"id": f"sink:{s.name}", "name": s.name, "kind": "sink", "what": s.connector}
            for s in catalog.sinks.values()
        ),
    ]
    edges = []
    for name, stream in streams.items():
        for source in _distinct_sources(stream):
            origin = f"stream:{source.options[STREAM]}" if is_stream(source) else f"source:{source.name}"
            rate = figures[name]["sources"].get(source.name, 0.0)
            edges.append(_edge(origin, f"stream:{name}", rate, is_late=IS_LATE in source.options))
        for kind, route in stream.routes.items():
            if route.names_sink:
                edges.append(_edge(f"stream:{name}", f"sink:{route.sink}", figures[name]["kinds"].get(kind, 0.0), True))
    for sink in catalog.sinks.values():
        if sink.stream is not None:
            origin, is_late = catalog.resolve_readable(sink.stream)
            rate = figures[origin]["kinds"].get("late" if is_late else "given", 0.0)
            edges.append(_edge(f"stream:{origin}", f"sink:{sink.name}", rate, is_late))
    return {"nodes": nodes, "edges": _merged(edges)}


def _merged(edges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What goes the same way is one edge: several kinds of side output to one sink."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for edge in edges:
        kept = found.setdefault((edge["from"], edge["to"], edge["late"]), {**edge, "rate": 0.0})
        kept["rate"] = round(kept["rate"] + edge["rate"], 3)
    return list(found.values())


def _used(catalog: Catalog) -> Iterable[Source]:
    return list(catalog.sources.values())


def _what(stream: Stream) -> str:
    shape = window_shape(stream)
    return "join" if isinstance(stream.query, Join) else shape["kind"] if shape else type(stream.query).__name__.lower()


def _edge(origin: str, target: str, rate: float, is_late: bool) -> dict[str, Any]:
    return {"from": origin, "to": target, "rate": rate, "late": is_late}


def _rates(seen: Observed, now: int) -> dict[str, Any]:
    """Rows per second of a stream."""
    return {"kinds": rates(seen.points, now), "sources": read_rates(seen.points, now)}


def _distinct_sources(stream: Stream) -> list[Source]:
    return list({source.name: source for source in sources_of(stream.query)}.values())


def _source(source: Source, seen: Observed, rate: dict[str, float]) -> dict[str, Any]:
    account = seen.account
    figures = account.sources.get(source.name, {}) if account else {}
    lanes = account.lanes.get(source.name, {}) if account else {}
    idle = seen.idle_partitions.get(source.name, ())
    return {
        "name": source.name,
        "connector": source.connector,
        "rows": figures.get("rows", 0),
        "rate": rate.get(source.name, 0.0),
        "watermark": _ms(figures.get("watermark")),
        "newest": _ms(figures.get("max_timestamp_seen")),
        "lag": _ms(source.watermark_lag),
        "idle": source.name in seen.idle,
        "idle_timeout": _ms(source.idle_timeout),
        "holder": held_back_by(lanes, idle) if lanes else None,
        "partitions": [
            {
                "name": lane,
                "watermark": _ms(found.get("watermark")),
                "unread": found.get("unread", 0),
                "idle": lane in idle,
            }
            for lane, found in sorted(lanes.items())
        ],
        "admission": dict(account.admission.get(source.name, {})) if account else {},
    }


def _row(point: Point) -> list[int | float | None]:
    return [
        point.second,
        point.batch,
        point.at // 1000,
        point.batches,
        *(point.counts[kind] for kind in KINDS),
        point.given,
        point.closed,
        _ms(point.watermark),
        _ms(point.newest),
        point.open,
        point.state_bytes,
        *(round(point.took[phase] / 1000, 1) for phase in PHASES),
    ]


def _ms(micros: int | None) -> int | None:
    return None if micros is None else micros // 1000


__all__ = ["FAILED", "NEW", "POINT_COLUMNS", "RUNNING", "SIDE_KINDS", "STOPPED", "USED", "Snapshots", "graph"]
