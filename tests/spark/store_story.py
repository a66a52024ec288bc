"""A process with its checkpoint in any place, for tests/spark/test_store.py.

    python -m tests.spark.store_story CHECKPOINT CONF FOLDER STEP

Step 1 makes everything that driver and tasks read and write of a checkpoint: rows that are too many to travel, a stream
that reads a stream, a table that is looked up, files that tasks find by themselves. Step 2 goes on with it. What there
is in the end is printed as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import eventide

ROWS = 12_000  # of about 80 bytes: more than travels with an account
_WIDE = "x" * 60

SQL = """
    CREATE SOURCE clicks (id BIGINT, user STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
    CREATE SOURCE logs (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
      WITH ('connector' = 'files', 'path' = '{folder}/logs', 'format' = 'json');
    CREATE TABLE names (user STRING, name STRING)
      WITH ('connector' = 'files', 'path' = '{folder}/names.csv', 'format' = 'csv');
    CREATE STREAM wide AS
      SELECT id, ts, names.name, clicks.user FROM clicks JOIN names ON clicks.user = names.user;
    CREATE STREAM per_minute AS
      SELECT window_start, count(*) AS n, sum(id) AS total FROM wide GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE);
    CREATE STREAM counted AS SELECT window_start, count(*) AS n FROM logs GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE);
"""


def clicks(step: int, rows: int) -> list[dict[str, Any]]:
    minute = f"2026-01-01T00:0{step}"
    return [{"id": row, "user": f"u{row % 7}{_WIDE}", "ts": f"{minute}:{row % 60:02d}Z"} for row in range(rows)]


def write_logs(folder: Path, step: int) -> None:
    (folder / "logs").mkdir(exist_ok=True)
    lines = [json.dumps({"id": row, "ts": f"2026-01-01T00:0{step}:{row:02d}Z"}) for row in range(50)]
    (folder / "logs" / f"{step}.json").write_text("\n".join(lines) + "\n")


def main(checkpoint: str, conf: dict[str, str], folder: Path, step: int) -> dict[str, Any]:
    users = "".join(f"u{user}{_WIDE},name {user}\n" for user in range(7))
    (folder / "names.csv").write_text(f"user,name\n{users}")
    write_logs(folder, step)
    with eventide.connect(checkpoint, shards=2, conf=conf) as db:
        if step == 1:
            db.execute(SQL.format(folder=folder))
        db.write("clicks", clicks(step, ROWS if step == 1 else 10))
        db.tick()
        wide = db.read("wide").arrow()
        return {
            "wide": [wide.num_rows, sum(wide["id"].to_pylist()), sorted(set(wide["name"].to_pylist()))],
            "per_minute": [[str(value) for value in row.values()] for row in db.read("per_minute").fetchall()],
            "counted": [[str(value) for value in row.values()] for row in db.read("counted").fetchall()],
            "accounts": {name: db.accounting(name) for name in ("wide", "per_minute", "counted")},
        }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))))
