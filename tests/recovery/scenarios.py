"""Streams of every kind, their input, and what must come of it: for runs that are disturbed on purpose.

The expectation comes from the reference model, which computes row by row in one process. Each batch is ticked on its
own, so that batches end at the same rows however often the process was killed in between.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import eventide
from eventide.storage.spool import Spool
from eventide.testing import ReferenceDatabase

ROWS = 200
END = 10_000_000
COLUMNS = "id BIGINT, ts BIGINT, visitor STRING, amount BIGINT, EVENT TIME ts TYPE unixtimestamp_ms"
SOURCE = f"CREATE SOURCE clicks ({COLUMNS}, WATERMARK FOR ts AS ts - INTERVAL '3' SECOND);"
DEDUP = SOURCE.replace(");", ", DEDUPLICATE BY id WITHIN INTERVAL '20' SECOND);")
TOTALS = "count(*) AS n, sum(amount) AS total, emit_epoch FROM clicks GROUP BY visitor,"

# name: the source, and the stream `o`
SCENARIOS = {
    "tumble": (SOURCE, f"SELECT window_start, visitor, {TOTALS} TUMBLE(ts, INTERVAL '2' SECOND) ALLOW LATENESS INTERVAL '1' SECOND"),
    "dedup": (DEDUP, f"SELECT window_start, visitor, {TOTALS} TUMBLE(ts, INTERVAL '2' SECOND)"),
    "hop": (SOURCE, f"SELECT window_start, visitor, {TOTALS} HOP(ts, INTERVAL '1' SECOND, INTERVAL '3' SECOND)"),
    "session": (SOURCE, f"SELECT window_start, window_end, visitor, {TOTALS} SESSION(ts, INTERVAL '300' MILLISECOND)"),
    "updates": (SOURCE, f"SELECT window_start, visitor, {TOTALS} TUMBLE(ts, INTERVAL '2' SECOND) EMIT ON UPDATE"),
    "changes": (SOURCE, "SELECT op, window_start, visitor, sum(amount) AS total FROM clicks "
                        "GROUP BY visitor, TUMBLE(ts, INTERVAL '2' SECOND) EMIT CHANGES"),
    "slide": (SOURCE, "SELECT window_end, visitor, count(*) AS n, sum(amount) AS total FROM clicks "
                      "GROUP BY visitor, slidingwindow('ss', 2, 1)"),
    "ordered": (SOURCE, "SELECT id, ts, visitor, amount FROM clicks ORDER BY ts"),
}  # fmt: skip


def rows_of(batch: int) -> list[tuple[int, int, str, int]]:
    """Mostly around `batch` seconds, some far behind, some delivered again."""
    chance = random.Random(batch)
    rows: list[tuple[int, int, str, int]] = []
    for row in range(ROWS):
        at = batch * 1000 + chance.randint(-2500, 500) - (8000 if chance.random() < 0.05 else 0)
        rows.append((batch * 1000 + row, at, f"v{chance.randint(0, 20)}", chance.randint(1, 100)))
    return rows + (rows_of(batch - 1)[:10] if batch else [])


def sinks(folder: Path) -> str:
    def to(name: str) -> str:
        return f"WITH ('connector' = 'files', 'path' = '{folder / name}', 'format' = 'parquet')"

    return f"CREATE SINK dlq {to('dlq')}; CREATE SINK out FROM o {to('out')}; CREATE SINK late FROM o$late {to('late')};"


def run(name: str, checkpoint: Path, batches: int, db: eventide.Database, say: Any = lambda _: None) -> dict[str, Any]:
    """Go on where the checkpoint stands, to the end; gives the outcome."""
    source, query = SCENARIOS[name]
    dlq, *others = sinks(checkpoint.parent).split("; ")
    db.execute(f"{source} {dlq}; CREATE STREAM o WITH ('side_output.late.sink' = 'dlq') AS {query}; {'; '.join(others)}")
    db.tick()
    for number in range(Spool(checkpoint / "sources" / "clicks").last(), batches):
        db.write("clicks", rows_of(number))
        say(f"written {number}")
        db.tick()
        say(f"ticked {number}")
    db.advance_watermark("clicks", END)
    db.tick()
    return outcome(db, checkpoint.parent)


def outcome(db: eventide.Database, folder: Path) -> dict[str, Any]:
    return {
        "rows": [values(row) for row in db.read("o")],
        "late": [payload["original_event"]["id"] for payload in db.side_output("o", "late")],
        "duplicate": [payload["original_event"]["id"] for payload in db.side_output("o", "duplicate")],
        "files": [values(row) for row in in_files(folder / "out")],
        "late files": [row["id"] for row in in_files(folder / "late")],
        "dead letters": [row["kind"] for row in in_files(folder / "dlq")],
        "accounts": db.accounting("o"),
    }


def expected(name: str, batches: int) -> dict[str, Any]:
    """What a run that nobody disturbs gives."""
    source, query = SCENARIOS[name]
    db = ReferenceDatabase()
    db.execute(f"{source} CREATE STREAM o AS {query};")
    for number in range(batches):
        db.write("clicks", rows_of(number))
        db.tick()
    db.advance_watermark("clicks", END)
    db.tick()
    rows = [values(row) for row in db.read("o")]
    side = {kind: [payload["original_event"]["id"] for payload in db.side_output("o", kind)] for kind in ("late", "duplicate")}
    return {
        "rows": rows, "late": side["late"], "duplicate": side["duplicate"], "files": rows, "late files": side["late"],
        "dead letters": ["late"] * len(side["late"]), "accounts": db.accounting("o"),
    }  # fmt: skip


def values(row: dict[str, Any]) -> list[Any]:
    return [value.astimezone(dt.UTC).isoformat() if isinstance(value, dt.datetime) else value for value in row.values()]


def in_files(folder: Path) -> list[dict[str, Any]]:
    if not any(folder.glob("*.parquet")):
        return []
    found: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return found


def compare(wanted: dict[str, Any], got: dict[str, Any]) -> tuple[int, int, int]:
    """How many things are lost, are there too often, and how many accounts do not add up."""
    lost = twice = 0
    for part in (part for part in wanted if part != "accounts"):
        should, there = Counter(map(str, wanted[part])), Counter(map(str, got[part]))
        lost += (should - there).total()
        twice += (there - should).total()
    accounts = got["accounts"]
    balanced = accounts["rows_in"] == sum(value for name, value in accounts.items() if name != "rows_in")
    return lost, twice, int(not balanced) + int(accounts != wanted["accounts"])
