"""Streams of every kind with sinks of every kind in one database, their input, and the expected results.

One process runs all of them, so that one kill disturbs all of them. The expectation comes from the reference model,
which computes row by row in one process. Each batch is ticked on its own, so that batches end at the same rows however
often the process was killed in between.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import eventide
from eventide.errors import StreamFailedError
from eventide.storage.atomic import write_bytes, write_json
from eventide.testing import ReferenceDatabase

ROWS = 200
END = 10_000_000
MOST_FAILURES = 100  # of streams, in one tick: a worker that is killed often enough fails its stream
COLUMNS = "id BIGINT, ts BIGINT, visitor STRING, amount BIGINT, EVENT TIME ts TYPE unixtimestamp_ms"
LAG = "WATERMARK FOR ts AS ts - INTERVAL '3' SECOND"
SOURCES = {
    "clicks": f"CREATE SOURCE clicks ({COLUMNS}, {LAG});",
    "orders": f"CREATE SOURCE orders ({COLUMNS}, {LAG}, DEDUPLICATE BY id WITHIN INTERVAL '20' SECOND);",
    # tokens for a part of the rows, and none that come back while a test runs
    "limited": f"CREATE SOURCE limited ({COLUMNS}, {LAG}) "
    "WITH ('sla.max_events_per_sec' = '0.000001', 'sla.burst' = '450', 'sla.max_lag' = '40000 days');",
}
TOTALS = "count(*) AS n, sum(amount) AS total, emit_epoch FROM clicks GROUP BY visitor,"
TWO_SECONDS = "TUMBLE(ts, INTERVAL '2' SECOND)"
SCENARIOS = {
    "tumble": f"SELECT window_start, visitor, {TOTALS} {TWO_SECONDS} ALLOW LATENESS INTERVAL '1' SECOND",
    "dedup": f"SELECT window_start, visitor, {TOTALS} {TWO_SECONDS}".replace("clicks", "orders"),
    "limits": f"SELECT window_start, visitor, {TOTALS} {TWO_SECONDS}".replace("clicks", "limited"),
    "hop": f"SELECT window_start, visitor, {TOTALS} HOP(ts, INTERVAL '1' SECOND, INTERVAL '3' SECOND)",
    "session": f"SELECT window_start, window_end, visitor, {TOTALS} SESSION(ts, INTERVAL '300' MILLISECOND)",
    "updates": f"SELECT window_start, visitor, {TOTALS} {TWO_SECONDS} EMIT ON UPDATE",
    "changes": "SELECT op, window_start, visitor, sum(amount) AS total FROM clicks GROUP BY visitor, "
    f"{TWO_SECONDS} EMIT CHANGES",
    "slide": "SELECT window_end, visitor, count(*) AS n, sum(amount) AS total FROM clicks GROUP BY visitor, "
    "slidingwindow('ss', 2, 1)",
    "ordered": "SELECT id, ts, visitor, amount FROM clicks ORDER BY ts",
    "pairs": "SELECT c.id AS click, o.id AS bought, c.visitor, o.amount FROM clicks c FULL JOIN orders o "
    "WITHIN INTERVAL '100' MILLISECOND ON c.visitor = o.visitor",
    "altered": f"SELECT window_start, visitor, {TOTALS} {TWO_SECONDS}",
    "named": "SELECT id, c.visitor, name FROM clicks c LEFT JOIN visitors v ON c.visitor = v.visitor",
    "over": "SELECT window_start, visitor, count(*) AS n, sum(total) AS total FROM tumble_stream "
    "GROUP BY visitor, TUMBLE(window_time, INTERVAL '6' SECOND)",
    "met": "SELECT c.id, c.visitor, t.total FROM clicks c LEFT JOIN tumble_stream t WITHIN INTERVAL '2' SECOND "
    "ON c.visitor = t.visitor",
    "counts": "SELECT op, visitor, count(*) AS n FROM clicks GROUP BY visitor EMIT CHANGES",
    "spread": "SELECT op, n, count(*) AS visitors, max(visitor) AS last FROM counts_stream GROUP BY n EMIT CHANGES",
    "best": "SELECT op, visitor, n, place FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC, visitor) AS place "
    "FROM counts_stream) WHERE place <= 5 EMIT CHANGES",
}
CHANGE_AT = 2  # the batch in front of which streams go on under another text
CHANGED = {
    "altered": "SELECT window_start, visitor, count(*) + 1000 AS n, sum(amount) AS total, emit_epoch FROM clicks "
    f"GROUP BY visitor, {TWO_SECONDS} HAVING sum(amount) > 150",
}
# Of these, a table holds the current row of each key, and of the others all rows.
KEYS = dict.fromkeys(("updates", "changes"), "window_start, visitor") | dict.fromkeys(("counts", "best"), "visitor")
KEYS |= {"spread": "n"}

Outcome = dict[str, Any]
Say = Callable[[str], None]


def rows_of(batch: int) -> list[tuple[int, int, str, int]]:
    """Mostly around `batch` seconds, some far behind, some delivered again."""
    chance = random.Random(batch)
    rows: list[tuple[int, int, str, int]] = []
    for row in range(ROWS):
        at = batch * 1000 + chance.randint(-2500, 500) - (8000 if chance.random() < 0.05 else 0)
        rows.append((batch * 1000 + row, at, f"v{chance.randint(0, 20)}", chance.randint(1, 100)))
    return rows + (rows_of(batch - 1)[:10] if batch else [])


def visitors(folder: Path) -> str:
    """The table that `named` looks up."""
    options = f"'connector' = 'files', 'path' = '{folder / 'visitors.csv'}', 'format' = 'csv'"
    return f"CREATE TABLE visitors (visitor STRING, name STRING) WITH ({options});"


def write_visitors(folder: Path, batch: int) -> None:
    """Every batch finds other names, and some visitors come and go."""
    lines = [f"v{number},name {number} in {batch}\n" for number in range(20) if (number + batch) % 3]
    write_bytes(folder / "visitors.csv", "".join(lines).encode())


def sources_of(name: str) -> tuple[str, ...]:
    return {"dedup": ("orders",), "limits": ("limited",), "pairs": ("clicks", "orders")}.get(name, ("clicks",))


def reads(name: str) -> list[str]:
    """The scenarios whose streams a scenario reads."""
    return [other for other in SCENARIOS if re.search(rf"(FROM|JOIN) {stream_of(other)}\b", SCENARIOS[name])]


def stream_of(name: str) -> str:
    return f"{name}_stream"


def statements(folder: Path, postgres: str | None, names: Iterable[str], has_changed: bool) -> str:
    """All sources, the table, and each scenario's stream with its sinks."""
    write_visitors(folder, 0)
    texts = SCENARIOS | CHANGED if has_changed else SCENARIOS
    each = (_of_one(name, texts[name], folder, postgres) for name in names)
    return " ".join([*SOURCES.values(), visitors(folder), *each])


def _stream(name: str, text: str) -> str:
    return f"STREAM {stream_of(name)} WITH ('side_output.late.sink' = '{name}_dead') AS {text}"


def _of_one(name: str, text: str, folder: Path, postgres: str | None) -> str:
    def to(part: str) -> str:
        return f"WITH ('connector' = 'files', 'path' = '{folder / part / name}', 'format' = 'parquet');"

    stream = stream_of(name)
    table = ""
    if postgres is not None:
        key = f", 'key' = '{KEYS[name]}'" if name in KEYS else ""
        table = (
            f"CREATE SINK {name}_table FROM {stream} WITH ('connector' = 'postgres', 'url' = '{postgres}', "
            f"'table' = '{name}'{key});"
        )
    return (
        f"CREATE SINK {name}_dead {to('dead')} CREATE {_stream(name, text)}; "
        f"CREATE SINK {name}_out FROM {stream} {to('out')} CREATE SINK {name}_late FROM {stream}$late "
        f"{to('late')} {table}"
    )


def run(
    folder: Path,
    batches: int,
    postgres: str | None,
    db: eventide.Database,
    say: Say = lambda _: None,
    names: Sequence[str] = tuple(SCENARIOS),
) -> dict[str, Outcome]:
    """Continue from the checkpoint to the end; returns the outcome of each scenario."""
    db.execute(statements(folder, postgres, names, _written(db, "clicks") > CHANGE_AT))
    for name in names:
        db.foreach(stream_of(name), functools.partial(keep_batch, folder / "batches" / name, name, say))
    insist(db, say)
    for number in range(batches):
        fresh = [source for source in SOURCES if _written(db, source) <= number]
        if number == CHANGE_AT and "clicks" in fresh:
            say("changing")
            for name in CHANGED.keys() & set(names):
                db.execute(f"CREATE OR REPLACE {_stream(name, CHANGED[name])} KEEP STATE")
        if fresh:
            write_visitors(folder, number)
            db.execute("REFRESH TABLE visitors")
        for source in fresh:
            db.write(source, rows_of(number))
        if fresh:
            say(f"written {number}")
            insist(db, say)
            say(f"ticked {number}")
    for source in SOURCES:
        db.advance_watermark(source, END)
    insist(db, say)
    return {name: outcome(name, folder, db) for name in names}


def _written(db: eventide.Database, source: str) -> int:
    """How many batches of a source are in its spool."""
    return db._spools.spool(source).last()


def insist(db: eventide.Database, say: Say) -> None:
    """Tick, and again if a stream failed because its workers died too often."""
    for _ in range(MOST_FAILURES):
        try:
            db.tick()
            return
        except StreamFailedError as error:
            say(f"failed {error.message}")
            db.stop(graceful=False)
    db.tick()


def keep_batch(folder: Path, name: str, say: Say, batch: int, rows: pa.Table) -> None:
    """A user's function that acts once per batch: one file per number. A batch that comes again must be the same."""
    path, value = folder / f"{batch}.json", [values(row) for row in rows.to_pylist()]
    if path.exists() and json.loads(path.read_text()) != value:
        raise ValueError(f"batch {batch} of {name} came again with other rows")
    write_json(path, value)
    say(f"sink {name} {batch}")


def outcome(name: str, folder: Path, db: eventide.Database) -> Outcome:
    stream = stream_of(name)
    return {
        "rows": [values(row) for row in db.read(stream)],
        "late": [payload["original_event"]["id"] for payload in db.side_output(stream, "late")],
        "duplicate": [payload["original_event"]["id"] for payload in db.side_output(stream, "duplicate")],
        "files": [values(row) for row in in_files(folder / "out" / name)],
        "rejected": [payload["original_event"]["id"] for payload in db.side_output(stream, "rejected")],
        "late files": [row["id"] for row in in_files(folder / "late" / name)],
        "dead letters": [row["kind"] for row in in_files(folder / "dead" / name)],
        "function": [
            row for path in (folder / "batches" / name).glob("*.json") for row in json.loads(path.read_text())
        ],
        "accounts": db.accounting(stream),
    }


@functools.cache
def expected(name: str, batches: int) -> Outcome:
    """What an undisturbed run yields; `table` is what PostgreSQL holds."""
    found = _expected(name, batches, SCENARIOS[name])
    if name not in CHANGED or batches <= CHANGE_AT:
        return found
    # the change is to what leaves the stream, and so the later batches are those of a stream that was always so
    after = _expected(name, batches, CHANGED[name])
    rows = found["rows"][: found["given"]] + after["rows"][after["given"] :]
    return found | dict.fromkeys(("rows", "files", "function", "table"), rows)


def _expected(name: str, batches: int, text: str) -> Outcome:
    """Under one text, with the number of rows `given` before the change."""
    given_before = 0
    db, sources, folder = ReferenceDatabase(), sources_of(name), Path(tempfile.mkdtemp(prefix="visitors-"))
    db.execute(" ".join([*(SOURCES[source] for source in sources), visitors(folder)]))
    db.execute(" ".join(f"CREATE STREAM {stream_of(other)} AS {SCENARIOS[other]};" for other in reads(name)))
    db.execute(f"CREATE STREAM o AS {text};")
    for number in range(batches):
        given_before = len(list(db.read("o"))) if number == CHANGE_AT else given_before
        write_visitors(folder, number)
        db.execute("REFRESH TABLE visitors")
        for source in sources:
            db.write(source, rows_of(number))
        db.tick()
    for source in sources:
        db.advance_watermark(source, END)
    db.tick()
    given = list(db.read("o"))
    rows = [values(row) for row in given]
    side = {
        kind: [payload["original_event"]["id"] for payload in db.side_output("o", kind)]
        for kind in ("late", "duplicate", "rejected")
    }
    return {
        "rows": rows, "late": side["late"], "duplicate": side["duplicate"], "files": rows, "late files": side["late"],
        "rejected": side["rejected"], "dead letters": ["late"] * len(side["late"]), "function": rows,
        "accounts": db.accounting("o"),
        "table": current(given, KEYS[name]) if name in KEYS else rows, "given": given_before,
    }  # fmt: skip


def current(rows: Iterable[dict[str, Any]], key: str) -> list[list[Any]]:
    """The last row of each key, without those that were taken back and without the sign of the change."""
    last = {tuple(row[name] for name in key.split(", ")): row for row in rows}
    kept = [row for row in last.values() if row.get("op", 1) != -1]
    return [values({name: value for name, value in row.items() if name != "op"}) for row in kept]


def drop_tables(postgres: str) -> None:
    """Make room for another run on the same server."""
    import psycopg

    with psycopg.connect(postgres) as connection:
        for name in SCENARIOS:
            connection.execute(f"DROP TABLE IF EXISTS {name}")


def in_table(name: str, postgres: str) -> list[list[Any]]:
    import psycopg

    with psycopg.connect(postgres) as connection:
        cursor = connection.execute(f"SELECT * FROM {name}")
        names = [column.name for column in cursor.description or ()]
        return [values(dict(zip(names, row, strict=True))) for row in cursor]


def values(row: dict[str, Any]) -> list[Any]:
    return [value.astimezone(dt.UTC).isoformat() if isinstance(value, dt.datetime) else value for value in row.values()]


def in_files(folder: Path) -> list[dict[str, Any]]:
    if not any(folder.glob("*.parquet")):
        return []
    found: list[dict[str, Any]] = pq.read_table(folder).to_pylist()
    return found


def difference(wanted: list[Any], got: list[Any]) -> tuple[int, int]:
    """How many things are missing, and how many are there too often."""
    should, there = Counter(map(str, wanted)), Counter(map(str, got))
    return (should - there).total(), (there - should).total()


def is_balanced(accounts: dict[str, int]) -> bool:
    return accounts["rows_in"] == sum(value for name, value in accounts.items() if name != "rows_in")
