"""Windows on a streaming DataFrame of your own: rows, late rows and accounts from one query. Run: python
examples/fluent_clicks.py
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import eventide

# The window [0 s, 10 s) closes when the watermark reaches 10 s: with the row of 15 s, since the lag is 5 seconds.
FILES = [
    [("ann", 5, 1_000), ("bob", 1, 4_000)],
    [("ann", 7, 9_000), ("bob", 2, 15_000)],
    [("ann", 3, 2_000)],  # late
]


def main(spark: Any = None) -> dict[str, int]:
    """Print what each batch emits, and return the accounts. A caller's session is used and left open."""
    own = spark is None
    spark = eventide.configure(spark or start_spark(), shards=2)
    with tempfile.TemporaryDirectory() as folder:
        clicks = Path(folder) / "clicks"
        clicks.mkdir()
        df = spark.readStream.schema("who STRING, v BIGINT, ts BIGINT").json(str(clicks))
        per_user = (
            eventide.stream(df, name="clicks")
            .event_time("ts", type="unixtimestamp_ms", lag="5 seconds")
            .group_by("who")
            .window(eventide.tumble("10 seconds"))
            .agg(n="count(*)", total="sum(v)")
        )
        with per_user.start(f"{folder}/state", show) as query:
            for number, rows in enumerate(FILES):
                hidden = clicks / f"_{number}.json"
                hidden.write_text("".join(json.dumps({"who": who, "v": v, "ts": ts}) + "\n" for who, v, ts in rows))
                hidden.rename(clicks / f"{number}.json")
                query.process_all()
            accounts = query.accounting()
    if own:
        spark.stop()
    print(accounts)
    return accounts


def show(rows: Any, side: Any, account: Any) -> None:
    for row in sorted(rows.collect(), key=lambda row: row.who):
        print(f"batch {account.batch}: {row.who} {row.n} rows, total {row.total}")
    for payload in side.collect():
        print(f"batch {account.batch}: {payload.kind}: {payload.original_event}")


def start_spark() -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()


if __name__ == "__main__":
    main()
