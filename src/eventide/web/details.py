"""What the page asks for of one stream: its latest rows, its side output, how late rows were, its windows, its plan."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eventide.diagnose.late import advise, ledger, remedies, used_share
from eventide.diagnose.observer import Observed, Observer
from eventide.eventtime.durations import format_duration
from eventide.plan.explain import Known
from eventide.plan.plan_tree import plan_tree
from eventide.plan.planner import plan
from eventide.plan.reads import window_of
from eventide.result import Result
from eventide.sql.catalog import LATE_SUFFIX
from eventide.storage.payloads import JSON_FIELDS, PAYLOAD_SCHEMA
from eventide.storage.results import OUTPUT_OP, OUTPUT_TIME, Results, fitted
from eventide.web.figures import stage_figures
from eventide.web.snapshot import window_shape

MOST_ROWS = 200  # of a table on the page
_MOST_LATE = 200_000  # late rows that are looked at for a histogram, the newest
_MOST_BATCHES = 2_000  # that are searched for rows, the newest
_LARGE = 16_000_000  # bytes of a batch, above which its windows are not counted
_DOTS = 12  # late rows of one batch in the timeline
_TIMELINE_BATCHES = 300
_LATENESS_SECONDS = 5.0  # between two looks at all late rows


@dataclass(frozen=True)
class Filter:
    """Which payloads are asked for; None or empty: all."""

    kind: str | None = None
    reason: str | None = None
    source: str | None = None
    text: str = ""
    limit: int = 50


class Details:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._windows: dict[str, dict[int, dict[str, Any]]] = {}  # by stream and batch
        self._late: dict[str, tuple[int, float, dict[str, Any]]] = {}

    def rows(self, name: str, limit: int = 50) -> dict[str, Any]:
        """The latest rows, newest first."""
        seen, limit = self._observer.observe(name, _NONE), min(limit, MOST_ROWS)
        found: list[pa.Table] = []
        for table in _newest(seen.results, "main"):
            shown = table.drop_columns([each for each in (OUTPUT_TIME, OUTPUT_OP) if each in table.column_names])
            found.append(shown.slice(max(0, shown.num_rows - limit)))
            if sum(each.num_rows for each in found) >= limit:
                break
        rows = [row for table in found for row in reversed(table.to_pylist(maps_as_pydicts="lossy"))][:limit]
        columns = found[0].column_names if found else []
        types = {field.name: str(field.type) for field in found[0].schema} if found else {}
        cells = [[_cell(row.get(column)) for column in columns] for row in rows]
        total = seen.account.totals.get("rows_out", 0) if seen.account else 0
        return {"columns": columns, "types": types, "rows": cells, "total": total}

    def side(self, name: str, wanted: Filter) -> dict[str, Any]:
        """The latest payloads that a filter lets through, newest first, and what there is to filter by."""
        seen = self._observer.observe(name, _NONE)
        shown: list[dict[str, Any]] = []
        kinds: dict[str, dict[str, int]] = {}
        sources: set[str] = set()
        searched = 0
        for table in _newest(seen.results, "side"):
            table = fitted(table, PAYLOAD_SCHEMA)
            searched += table.num_rows
            for pair in table.group_by(["kind", "reason"]).aggregate([([], "count_all")]).to_pylist():
                reasons = kinds.setdefault(pair["kind"], {})
                reasons[pair["reason"] or ""] = reasons.get(pair["reason"] or "", 0) + pair["count_all"]
            sources.update(each for each in pc.unique(table["source"]).to_pylist() if each)
            if len(shown) < wanted.limit:
                kept = _filtered(table, wanted)
                last = kept.slice(max(0, kept.num_rows - (wanted.limit - len(shown))))
                shown += [_payload(row) for row in reversed(list(Result(last, JSON_FIELDS)))]
            if searched >= _MOST_LATE:
                break
        totals = seen.account.totals if seen.account else {}
        return {"rows": shown, "kinds": kinds, "sources": sorted(sources), "totals": dict(totals), "searched": searched}

    def late(self, name: str) -> dict[str, Any]:
        """How late rows were, and what would have caught them; of the part of the stream that has its late rows."""
        catalog = self._observer.catalog()
        holder = catalog.late_names.get(f"{catalog.stream(name).name}{LATE_SUFFIX}", name)
        seen = self._observer.observe(holder, _NONE)
        batch = -1 if seen.account is None else seen.account.batch
        known, now = self._late.get(holder), time.monotonic()
        if known is None or (known[0] != batch and now >= known[1]):
            known = self._late[holder] = batch, now + _LATENESS_SECONDS, _lateness(seen)
        return known[2]

    def timeline(self, name: str, after: int = -1) -> dict[str, Any]:
        """Of the batches after one: how many rows left for which window, and some of the late rows."""
        seen = self._observer.observe(name, _NONE)
        known = self._windows.setdefault(name, {})
        results = seen.results
        batches = [] if results is None else results.batches(after)[-_TIMELINE_BATCHES:]
        for batch in batches:
            if batch not in known and results is not None:
                known[batch] = _windows_of(seen, results, batch)
        for old in sorted(known)[:-_TIMELINE_BATCHES]:
            del known[old]
        told = [known[batch] for batch in batches if known.get(batch)]
        return {"last": batches[-1] if batches else after, "batches": told}

    def plan(self, name: str) -> dict[str, Any]:
        """The plan as a tree, each stage with its figures."""
        catalog, observer = self._observer.catalog(), self._observer
        known = Known(lambda read: plan(catalog.stream(read)), observer.fused)
        return plan_tree(plan(catalog.stream(name)), known, lambda stream: stage_figures(observer.observe(stream)))


_NONE = 1 << 40  # a second for which no point is new: only the account is wanted


def _newest(results: Results | None, kind: str) -> Iterator[pa.Table]:
    """The rows of a kind, batch by batch, the newest first."""
    for batch in reversed([] if results is None else results.batches()[-_MOST_BATCHES:]):
        table = None if results is None else _of_batch(results, batch, kind)
        if table is not None and table.num_rows:
            yield table


def _of_batch(results: Results, batch: int, kind: str) -> pa.Table | None:
    """The rows of a kind of one batch; None if there are none."""
    tables = list(results.pieces(batch, kind))
    return pa.concat_tables(tables) if tables else None


def _filtered(table: pa.Table, wanted: Filter) -> pa.Table:
    for column, value in (("kind", wanted.kind), ("reason", wanted.reason), ("source", wanted.source)):
        if value:
            table = table.filter(pc.equal(table[column], value))
    if wanted.text:
        found = [
            pc.fill_null(pc.match_substring(table[column], wanted.text, ignore_case=True), False)
            for column in ("original_event", "group_key", "error_detail", "reason")
        ]
        table = table.filter(pc.or_(pc.or_(found[0], found[1]), pc.or_(found[2], found[3])))
    return table


def _payload(row: Mapping[str, Any]) -> dict[str, Any]:
    window = row["window"]
    event, mark = row["event_time"], row["watermark"]
    return {
        "kind": row["kind"],
        "reason": row["reason"],
        "source": row["source"],
        "event_time": None if event is None else _moment(event),
        "at": None if row["processing_time"] is None else _moment(row["processing_time"]),
        "behind": None if event is None or mark is None else round((mark - event).total_seconds() * 1000),
        "window": None if window is None else [_moment(window["start"]), _moment(window["end"])],
        "key": None if row["group_key"] is None else json.dumps(row["group_key"], ensure_ascii=False, default=str),
        "row": None
        if row["original_event"] is None
        else json.dumps(row["original_event"], ensure_ascii=False, default=str),
        "detail": row["error_detail"],
        "shard": row["shard"],
    }


def _lateness(seen: Observed) -> dict[str, Any]:
    tables, count = [], 0
    for table in _newest(seen.results, "side"):
        table = fitted(table, PAYLOAD_SCHEMA)
        late = table.filter(pc.equal(table["kind"], "late"))
        tables.append(late)
        count += late.num_rows
        if count >= _MOST_LATE:
            break
    payloads = pa.concat_tables([PAYLOAD_SCHEMA.empty_table(), *reversed(tables)])
    found, account = ledger(seen.stream, payloads), seen.account
    share = None if account is None else used_share(found, account)
    advice = [] if account is None or share is None else advise(seen.stream, found, account)
    return {
        "stream": seen.stream.name,
        "rows": found.rows,
        "total": account.totals.get("late", 0) if account else 0,
        "on_time": share,
        "reasons": found.reasons,
        "histogram": [[None if bound is None else bound // 1000, rows] for bound, rows in found.histogram()],
        "quantiles": {name: _ms(found.quantile(q)) for name, q in (("half", 0.5), ("most", 0.99), ("latest", 1.0))},
        "lateness": seen.stream.emit.allowed_lateness // 1000,
        "advice": [
            {
                "percent": each.percent,
                "extra": each.extra // 1000,
                "wait": format_duration(seen.stream.emit.allowed_lateness + each.extra),
                "windows": each.more_windows,
                "bytes": each.more_bytes,
            }
            for each in advice
        ],
        "remedies": remedies(seen.stream, found.missed[-1] if found.missed else 0),
    }


def _windows_of(seen: Observed, results: Results, batch: int) -> dict[str, Any]:
    """What one batch tells the timeline; empty if it tells nothing."""
    told: dict[str, Any] = {}
    if window_shape(seen.stream) is not None and results.bytes(batch, "main") <= _LARGE:
        main = _of_batch(results, batch, "main")
        if main is not None and OUTPUT_TIME in main.column_names:
            counts = main[OUTPUT_TIME].value_counts().to_pylist()
            told["windows"] = sorted([-(-each["values"] // 1000), each["counts"]] for each in counts if each["values"])[
                -200:
            ]
            if window_of(seen.stream.query) is not None and {"window_start", "window_end"} <= set(main.column_names):
                told["spans"] = _spans(main)
    side = _of_batch(results, batch, "side") if results.bytes(batch, "side") <= _LARGE else None
    if side is not None:
        late = side.filter(pc.equal(side["kind"], "late"))
        step = max(1, late.num_rows // _DOTS)
        picked = late.take(pa.array(range(0, late.num_rows, step), pa.int64())[:_DOTS])
        told["late"] = [
            [_moment(row["processing_time"]), _moment(row["event_time"])]
            for row in picked.select(["processing_time", "event_time"]).to_pylist()
            if row["event_time"] is not None and row["processing_time"] is not None
        ]
        told["late_rows"] = late.num_rows
    if told:
        told["batch"] = batch
    return told


def _spans(main: pa.Table) -> list[list[int]]:
    """The windows of a batch, at most 60 of them: where they begin and end."""
    types = (main.schema.field("window_start").type, main.schema.field("window_end").type)
    if not all(pa.types.is_timestamp(each) for each in types):
        return []
    pairs = main.select(["window_start", "window_end"]).group_by(["window_start", "window_end"]).aggregate([])
    return [[_moment(row["window_start"]), _moment(row["window_end"])] for row in pairs.slice(0, 60).to_pylist()]


def _cell(value: Any) -> Any:
    """A value as JSON can hold it, exactly: times and whole numbers that JavaScript would round are text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 53 else str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if hasattr(value, "isoformat"):
        text = value.isoformat(sep=" ") if hasattr(value, "hour") and hasattr(value, "year") else value.isoformat()
        return text.removesuffix("+00:00")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def _moment(value: dt.datetime) -> int:
    return round(value.timestamp() * 1000)


def _ms(micros: int | None) -> int | None:
    return None if micros is None else micros // 1000
