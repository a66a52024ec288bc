"""Results and databases as HTML for notebooks. Everything that comes from data is escaped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

MOST_ROWS = 50
_LONGEST = 200  # characters of a cell


def table_html(columns: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> str:
    """A table, numbers to the right; `note` stands below it."""
    numeric = [
        any(is_number(row[place]) for row in rows) and all(row[place] is None or is_number(row[place]) for row in rows)
        for place in range(len(columns))
    ]
    head = "".join(
        f"<th style='text-align:{_side(right)}'>{escape(name)}</th>"
        for name, right in zip(columns, numeric, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td style='text-align:{_side(right)}'>{_cell(value)}</td>"
            for value, right in zip(row, numeric, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    below = f"<p style='opacity:.65;margin:.3em 0'>{escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def result_html(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], total: int) -> str:
    """The first rows of a result, and how many there are."""
    count = "1 row" if total == 1 else f"{total:,} rows"
    note = count if total <= len(rows) else f"{count}, the first {len(rows):,} shown"
    return table_html(columns, [[row[name] for name in columns] for row in rows], note)


def streams_html(progress: Sequence[Mapping[str, Any]], place: str) -> str:
    """The streams of a database, a line each."""
    title = f"<b>eventide</b> <code>{escape(place)}</code>"
    if not progress:
        return f"{title}<p>no stream has been opened yet</p>"
    columns = ["stream", "rows in", "rows/s", "watermark", "open windows", "late", "errors", "batches", "failed"]
    keys = ["stream", "rows_in", "rows_per_second", "watermark", "open_windows", "late", "errors", "batches", "error"]
    return f"{title}{table_html(columns, [[stream[key] for key in keys] for stream in progress])}"


def accounting_html(accounts: Mapping[str, int]) -> str:
    parts = [
        f"{kind} <b>{count:,}</b>"
        for kind, count in accounts.items()
        if kind == "used" or (count and kind != "rows_in")
    ]
    off = accounts["rows_in"] - sum(count for kind, count in accounts.items() if kind != "rows_in")
    verdict = "✓" if off == 0 else f"<b>✗ off by {off:,}</b>"
    return f"<p style='margin:.3em 0'>rows in <b>{accounts['rows_in']:,}</b> = {' + '.join(parts)} {verdict}</p>"


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _side(right: bool) -> str:
    return "right" if right else "left"


def _cell(value: Any) -> str:
    if value is None:
        return "<i style='opacity:.5'>NULL</i>"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if is_number(value):
        return f"{value:,}"
    if hasattr(value, "isoformat"):
        text = value.isoformat(sep=" ") if hasattr(value, "hour") and hasattr(value, "year") else value.isoformat()
        return escape(str(text).removesuffix("+00:00"))
    text = json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, dict | list) else str(value)
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")
