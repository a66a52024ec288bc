"""A client of Spark Connect, with a server of its own: `python -m tests.fluent.remote_client FOLDER`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession, functions as F

import eventide
from eventide.errors import EventideError


def refused(call: Callable[[], object]) -> str:
    try:
        call()
    except EventideError as error:
        return str(error)
    return "nothing was refused"


def main(folder: Path) -> None:
    spark = eventide.configure(SparkSession.builder.remote("local[2]").getOrCreate(), shards=2)
    schema = "k STRING, v BIGINT, ts BIGINT"
    df = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1").json(str(folder / "in"))
    timed = eventide.stream(df, name="clicks").event_time("ts", type="unixtimestamp_ms", lag="5 seconds")
    stream = timed.where("v > 0").group_by("k").window(eventide.tumble("10 seconds")).agg(n="count(*)", total="sum(v)")
    found: dict[str, object] = {}
    for name, frame in (("rows", stream.rows()), ("late", stream.late())):
        query = frame.writeStream.format("memory").queryName(name).start()
        query.processAllAvailable()
        query.stop()
    found["rows"] = sorted([row.k, row.n, row.total] for row in spark.table("rows").collect())
    found["late"] = [row.reason for row in spark.table("late").collect()]
    found["start"] = refused(lambda: stream.start(str(folder / "checkpoint")))
    found["connect"] = refused(lambda: eventide.connect(spark=spark))
    found["column"] = refused(lambda: timed.where(F.col("v") > 0))
    (folder / "found.json").write_text(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
