"""Events as files, in the order in which they arrive: 000000.json, 000001.json, ..."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path

import duckdb

from benchmarks.nexmark.events import FIRST_MS, Events

SIDE_INPUT, SIDE_KEYS = "side_input.csv", 10_000
_OPTIONS = {
    "json": "FORMAT json, TIMESTAMPFORMAT '%Y-%m-%dT%H:%M:%S.%gZ'",
    "parquet": "FORMAT parquet",
}


def write(events: Events, count: int, folder: Path, files: int, format: str = "json") -> list[Path]:
    """Modification times are in order, since Spark's file source takes files by age."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for number in range(files):
            first, end = (count * cut // files for cut in (number, number + 1))
            path = folder / f"{number:06d}.{format}"
            database.register("events", events.table(first, end - first))
            database.execute(f"COPY (SELECT * FROM events) TO '{path}' ({_OPTIONS[format]})")
            os.utime(path, (FIRST_MS // 1000 + number,) * 2)
            made.append(path)
    return made


def write_last(folder: Path, ms: int) -> Path:
    """One event of each kind at `ms`, which is after all others: who takes time from rows learns from them that the
    others are over.
    """
    time = dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(timespec="milliseconds")
    ids: tuple[dict[str, object], ...] = (
        {"event_type": 0, "person": {"id": -1}},
        {"event_type": 1, "auction": {"id": -1, "seller": -1}},
        {"event_type": 2, "bid": {"auction": -1, "bidder": -1, "price": 0}},
    )
    path = folder / "last.json"
    unfinished = folder / ".last"  # no name that anybody looks at
    unfinished.write_text("".join(json.dumps({**event, "dateTime": time}) + "\n" for event in ids))
    return unfinished.rename(path)


def write_side_input(folder: Path) -> Path:
    """What query 13 looks up: a value for each key."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SIDE_INPUT
    path.write_text("".join(f"{key},value {key}\n" for key in range(SIDE_KEYS)))
    return path
