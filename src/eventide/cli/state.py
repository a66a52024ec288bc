"""`eventide state`: what a stream's state holds, from the account of its last batch and the checkpoint's files."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from eventide.cli.console import stdout, when

if TYPE_CHECKING:
    from eventide.cli.checkpoint import Kept
    from eventide.storage.paths import AnyPath

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_WORDS = {
    "open_windows": "open windows",
    "open_groups": "open groups",
    "buffer_size": "waiting rows",
    "state_bytes": "bytes in windows",
    "dedup_bytes": "bytes in remembered ids",
}
_NEXT = "next_close"


def print_state(checkpoint: str | Path, name: str) -> None:
    from eventide.cli.checkpoint import open_stream

    kept, console = open_stream(checkpoint, name), stdout()
    if kept.account is None:
        console.print(f"{kept.stream.name} has not run yet, so it holds nothing.")
        return
    console.print(Text(kept.stream.name, style="bold"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right")
    grid.add_column()
    for value, label in _lines(kept):
        grid.add_row(value, label)
    console.print(grid)
    _print_shards(kept)


def _words(kept: Kept) -> dict[str, str]:
    """The gauges that are shown, and what they are called."""
    from eventide.diagnose.join_words import SIDES, side_names
    from eventide.plan.logical import Join

    query = kept.stream.query
    if not isinstance(query, Join):
        return _WORDS
    of_sides = {f"{side}_buffered": f"rows of {name}" for side, name in zip(SIDES, side_names(query), strict=True)}
    return {**of_sides, **_WORDS}


def _lines(kept: Kept) -> list[tuple[str, str]]:
    account = kept.account
    totals: Counter[str] = Counter()
    due = []
    for gauge, value in (account.gauges if account else {}).items():
        totals[gauge.split("#")[0]] += value
        if gauge.startswith(f"{_NEXT}#"):
            due.append(value)
    words = _words(kept)
    known = [(f"{totals[gauge]:,}", label) for gauge, label in words.items() if gauge in totals]
    others = [
        (f"{totals[gauge]:,}", gauge)
        for gauge in sorted(totals)
        if gauge not in words and not gauge.startswith(("max_", "next_", "oldest"))
    ]
    oldest = [(_at(min(due)), "watermark at which the oldest closes")] if due else []
    disk = f"{_size(kept.layout.spark(kept.stream.name) / 'state'):,}"
    batch = f"{account.batch if account else 0:,}"
    rest = [(_at(kept.watermark), "the watermark"), (disk, "bytes in Spark's state files"), (batch, "last batch")]
    return [*known, *others, *oldest, *rest]


def _print_shards(kept: Kept) -> None:
    """The same by shard, if more than one shard holds anything."""
    shards: dict[int, dict[str, int]] = {}
    for gauge, value in (kept.account.gauges if kept.account else {}).items():
        name, _, shard = gauge.partition("#")
        shards.setdefault(int(shard), {})[name] = value
    words = _words(kept)
    names = [name for name in words if any(name in figures for figures in shards.values())]
    if len(shards) < 2 or not names:
        return
    table = Table(box=None, header_style="dim")
    for heading in ("shard", *(words[name] for name in names), "oldest closes at"):
        table.add_column(heading, justify="right")
    for number, figures in sorted(shards.items()):
        table.add_row(str(number), *(f"{figures.get(name, 0):,}" for name in names), _at(figures.get(_NEXT)))
    stdout().print(table)


def _at(micros: int | None) -> str:
    return "–" if micros is None else when(_EPOCH + dt.timedelta(microseconds=micros))


def _size(folder: AnyPath) -> int:
    """Bytes of all files below a folder; files that disappear meanwhile do not count."""
    total = 0
    for path in folder.rglob("*") if folder.exists() else ():
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total
