"""One topic, read by Eventide and by native Spark: rows a second and CPU, warm, with every answer compared.

    python benchmarks/kafka.py [--keys 1000] [--rows 1000000] [--only eventide]

JSON messages in four partitions, windows of ten seconds, a count and a sum per key and window, state in RocksDB. Each
engine first reads a share of the topic to get warm, and is then measured on the rest, in batches of one size. The
broker's work is not counted. Its jars, and those of Spark's connector, are fetched with Maven.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import eventide
from benchmarks.process_tree import cpu_seconds
from benchmarks.totals import Totals, totals_of
from eventide.spark.session import default_shards, streaming_session
from tests.connectors.kafka_broker import Broker, running_broker

ROOT = Path(__file__).resolve().parent.parent
JARS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eventide" / "spark-kafka-4.2.0"
PARTITIONS, BATCH, WARM = 4, 200_000, 600_000
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
START = 1_700_000_000_000
BARS = {1_000: 1.5, 100_000: 2.0}


def messages(rows: int, keys: int, first: int) -> Iterator[tuple[int, bytes]]:
    """(partition, message): a thousand rows a second of event time, a little out of order."""
    chance = np.random.default_rng(first)
    users, jitter = chance.integers(0, keys, rows), chance.integers(0, 500, rows)
    for number, (user, late) in enumerate(zip(users.tolist(), jitter.tolist(), strict=True), first):
        row = {
            "id": number,
            "user": f"user-{user}",
            "amount": number % 1000,  # whole, so that sums are the same in any order
            "page": f"/products/{number % 97}",
            "ts": START + number - late,
        }
        yield number % PARTITIONS, json.dumps(row).encode()


def produce(broker: Broker, topic: str, rows: int, keys: int, first: int) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": broker.address, "queue.buffering.max.messages": 2_000_000, "linger.ms": 50}
    )
    for partition, message in messages(rows, keys, first):
        producer.produce(topic, message, partition=partition)
    if producer.flush(120):
        raise RuntimeError("the broker did not take all messages")


class Engine(Protocol):
    name: str

    def take(self) -> None:
        """All that is in the topic."""

    def totals(self) -> Totals: ...

    def close(self) -> None: ...


class Eventide:
    name = "eventide"

    def __init__(self, spark: Any, address: str, topic: str, checkpoint: Path) -> None:
        self._totals = Totals()
        self._db = eventide.connect(checkpoint, spark)
        self._db.execute(f"""
            CREATE SOURCE s (user STRING, amount DOUBLE, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms,
                WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
            WITH ('connector' = 'kafka', 'servers' = '{address}', 'topic' = '{topic}',
                  'max_messages_per_batch' = '{BATCH}');
            CREATE STREAM o AS SELECT window_start, user, count(*) AS n, sum(amount) AS t, max(amount) AS m
            FROM s GROUP BY user, TUMBLE(ts, INTERVAL '10' SECOND)""")
        self._db.foreach("o", self._add)

    def _add(self, batch: int, rows: pa.Table) -> None:
        self._totals += totals_of(rows)

    def take(self) -> None:
        self._db.tick()

    def totals(self) -> Totals:
        return self._totals

    def close(self) -> None:
        self._db.close()


class Native:
    name = "native, RocksDB"

    def __init__(self, spark: Any, address: str, topic: str, checkpoint: Path) -> None:
        from pyspark.sql import functions as F

        self._totals = Totals()
        session = streaming_session(spark, default_shards(spark))
        session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        options = {"kafka.bootstrap.servers": address, "subscribe": topic, "startingOffsets": "earliest"}
        frame = session.readStream.format("kafka").options(**options).option("maxOffsetsPerTrigger", BATCH).load()
        schema = "user string, amount double, ts bigint"
        rows = frame.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select("row.*")
        timed = rows.withColumn("ts", F.timestamp_millis("ts")).withWatermark("ts", "2 seconds")
        grouped = timed.groupBy("user", F.window("ts", "10 seconds"))
        answers = F.count("*").alias("n"), F.sum("amount").alias("t"), F.max("amount").alias("m")
        results = grouped.agg(*answers).select(F.col("window.start").alias("window_start"), "user", "n", "t", "m")
        writer = results.writeStream.outputMode("append").foreachBatch(self._add)
        self._writer = writer.option("checkpointLocation", str(checkpoint))
        self._query: Any = None

    def _add(self, frame: Any, batch: int) -> None:
        self._totals += totals_of(frame.toArrow())

    def take(self) -> None:
        if self._query is None:
            self._query = self._writer.start()
        self._query.processAllAvailable()

    def totals(self) -> Totals:
        return self._totals

    def close(self) -> None:
        self._query.stop()


@dataclass(frozen=True)
class Measured:
    name: str
    rows: int
    seconds: float
    cpu: float
    totals: Totals

    def line(self) -> str:
        rate, cpu = self.rows / self.seconds, self.cpu / self.rows * 1e6
        return f"  {self.name:16} {rate:>10,.0f} rows/s {cpu:6.2f} CPU-s per million rows"


def measure(make: Callable[..., Engine], spark: Any, broker: Broker, keys: int, rows: int, folder: Path) -> Measured:
    """On a topic of its own, which holds the same for every engine."""
    topic = f"{make.name.split(',')[0]}-{keys}"  # type: ignore[attr-defined]
    broker.create(topic, PARTITIONS)
    produce(broker, topic, WARM, keys, 0)
    engine = make(spark, broker.address, topic, folder / topic)
    engine.take()
    produce(broker, topic, rows, keys, WARM)
    others = cpu_of_broker(broker)
    began, used = time.monotonic(), cpu_seconds()
    engine.take()
    seconds, cpu = time.monotonic() - began, cpu_seconds() - used
    cpu -= cpu_of_broker(broker) - others
    for partition in range(PARTITIONS):  # so that all windows close, whenever an engine's watermark takes effect
        broker.send(topic, [json.dumps({"user": "last", "amount": 0, "ts": START + 3_600_000 * 24})], partition)
    engine.take()
    engine.take()
    engine.close()
    return Measured(engine.name, rows, seconds, cpu, engine.totals())


def cpu_of_broker(broker: Broker) -> float:
    import psutil

    times = psutil.Process(broker.pid).cpu_times()
    return float(times.user + times.system)


def jars() -> str:
    if not (JARS / "complete").exists():
        shutil.rmtree(JARS, ignore_errors=True)
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={JARS}"]
        subprocess.run(["mvn", "-q", "-B", "-f", str(ROOT / "scripts" / "spark-kafka.xml"), *goal], check=True)
        (JARS / "complete").touch()
    return ",".join(sorted(glob.glob(f"{JARS}/*.jar")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="*", default=[1_000, 100_000])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", choices=["eventide", "native"])
    given = parser.parse_args()
    engines: list[Any] = [each for each in (Eventide, Native) if given.only in (None, each.name.split(",")[0])]
    folder = Path(tempfile.mkdtemp(prefix="eventide-kafka-"))
    (folder / "broker").mkdir()
    db = eventide.connect(conf={"spark.jars": jars()})
    with running_broker(folder / "broker") as broker:
        for keys in given.keys:
            print(f"{keys:,} keys", flush=True)
            found = [measure(engine, db.spark, broker, keys, given.rows, folder) for engine in engines]
            for each in found:
                print(each.line(), flush=True)
            if len(found) == 2:
                ours, native = found
                same = "the same answers" if ours.totals == native.totals else f"{ours.totals} and {native.totals}"
                print(
                    f"  {native.seconds / ours.seconds:.2f} × rows/s, {native.cpu / ours.cpu:.2f} × CPU, "
                    f"bar {BARS.get(keys, 1.0)}; {same}",
                    flush=True,
                )
    db.close()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
