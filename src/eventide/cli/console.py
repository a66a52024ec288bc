"""What the commands print: results as tables, errors in red, numbers and times as people write them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from eventide.errors import EventideError

_COLOURS = {"name": "cyan", "column": "cyan", "type": "green", "kind": "dim", "connector": "magenta", "emit": "magenta"}
SIDE_KINDS = ("late", "duplicate", "error", "evicted", "rejected", "shed")


def stdout() -> Console:
    return Console(highlight=False, soft_wrap=False)


def stderr() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_error(console: Console, error: EventideError) -> None:
    """The message without a traceback. Nothing is wrapped, so that the carets stay under the SQL."""
    label = "error" if error.fault == "user" else f"{error.fault} error"
    console.print(Text(f"{label}: {error.render()}", style="red"), soft_wrap=True)


def sql_block(sql: str) -> Syntax:
    return Syntax(sql.strip("\n"), "sql", theme="ansi_dark", background_color="default", word_wrap=True)


def when(value: datetime | None) -> str:
    """A time in UTC, without trailing zeros in the fraction."""
    if value is None:
        return "–"
    utc = value.astimezone(UTC) if value.tzinfo else value
    text = utc.strftime("%Y-%m-%d %H:%M:%S")
    return text if utc.microsecond == 0 else f"{text}.{utc.microsecond:06d}".rstrip("0")


def duration(seconds: float | None) -> str:
    """3.2 s, 4 min 05 s, 2 h 10 min, 5 d 3 h: enough digits to compare by eye."""
    if seconds is None or math.isnan(seconds):
        return "–"
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400:,} d {whole % 86400 // 3600} h"


def cell(value: object) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    if isinstance(value, datetime):
        return Text(when(value))
    if isinstance(value, dict | list):
        return Text(json.dumps(value, default=str, ensure_ascii=False))
    return Text(str(value))


_PLAN_LINE = re.compile(r"^([ │├└─]*)(?:([a-z][a-z ]*): )?(.*)$")


def plan_line(line: str) -> Text:
    """A line of EXPLAIN: stages stand out from the facts about them."""
    found = _PLAN_LINE.match(line)
    tree, fact, rest = (found[1], found[2], found[3]) if found else ("", None, line)
    if fact is None:
        return Text.assemble((tree, "dim"), (rest, "bold cyan"))
    return Text.assemble((tree, "dim"), (f"{fact}: ", "dim"), rest)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def result_table(columns: Sequence[str], rows: Sequence[Mapping[str, object]], title: str | None = None) -> Table:
    """Numbers to the right, everything else to the left, nothing cut off: long cells fold."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for name in columns:
        values = [row.get(name) for row in rows]
        numeric = any(map(is_number, values)) and all(value is None or is_number(value) for value in values)
        style = _COLOURS.get(name, "") if columns[0] in ("name", "column") else ""  # of SHOW and DESCRIBE
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold", style=style)
    for row in rows:
        table.add_row(*(cell(row.get(name)) for name in columns))
    return table


def print_rows(
    console: Console, columns: Sequence[str], rows: Iterable[Mapping[str, object]], limit: int | None = None
) -> None:
    """A table with the first `limit` rows, or all of them, and the total number of rows."""
    kept = list(rows)
    shown = kept if limit is None else kept[:limit]
    if columns and shown:
        console.print(result_table(columns, shown))
    count = "1 row" if len(kept) == 1 else f"{len(kept):,} rows"
    console.print(Text(count if len(shown) == len(kept) else f"{count}, the first {len(shown):,} shown", style="dim"))


def payload_grid(payload: Mapping[str, object]) -> Table:
    """A side-output payload, one field per line, without empty fields."""
    grid = Table.grid(padding=(0, 2))
    for name, value in payload.items():
        if value is not None:
            grid.add_row(Text(name, style="dim"), cell(value))
    return grid


def accounting_line(accounts: Mapping[str, int]) -> Text:
    """rows in 60,000 = used 58,912 + late 1,012 + error 76 ✓, or in red by how many rows it is off."""
    used = accounts.get("used", 0)
    parts = [("used", used), *((kind, accounts[kind]) for kind in SIDE_KINDS if accounts.get(kind))]
    rows_in = accounts.get("rows_in", 0)
    line = Text(f"rows in {rows_in:,} = " + " + ".join(f"{kind} {count:,}" for kind, count in parts))
    missing = rows_in - sum(count for _, count in parts)
    return line.append(" ✓", style="green") if missing == 0 else line.append(f" ✗ off by {missing:,}", style="bold red")
