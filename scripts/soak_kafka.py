"""Kafka in and Kafka out for SOAK_SECONDS: `python scripts/soak_kafka.py`. Prints one line, and fails if a row is
lost or comes twice.

A writer process reads a topic, forwards its rows to a second one and counts them per window into a third. It is killed
with -9 at random moments, the broker as well, and both are started again. In the end a consumer that has nothing to do
with Eventide reads what is committed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.connectors.kafka_broker import Broker, running_broker  # noqa: E402

ROWS_A_SECOND, PARTITIONS, WINDOW_MS, KEYS = 200, 3, 5_000, 7
LIFE = (5.0, 25.0)  # seconds of a writer
BROKER_DIES = 0.25  # of the times when the writer does
START = 1_700_000_000_000


def serve(checkpoint: str, address: str, done: str) -> None:
    """The writer: runs until all that is in the topic has been taken, once `done` is there."""
    import eventide

    db = eventide.connect(checkpoint)
    kafka = f"'connector' = 'kafka', 'servers' = '{address}'"
    db.execute(f"""
        CREATE SOURCE s (id BIGINT, k BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms)
        WITH ({kafka}, 'topic' = 'in', 'max_messages_per_batch' = '2000');
        CREATE STREAM forwarded AS SELECT id, k FROM s;
        CREATE STREAM counted AS SELECT k, window_start, count(*) AS n FROM s
        GROUP BY k, TUMBLE(ts, INTERVAL '{WINDOW_MS}' MILLISECOND);
        CREATE SINK f FROM forwarded WITH ({kafka}, 'topic' = 'rows', 'key' = 'id');
        CREATE SINK c FROM counted WITH ({kafka}, 'topic' = 'counts', 'key' = 'k')""")
    while True:
        is_last = Path(done).exists()
        db.tick()
        if is_last:
            break
    db.close()


class Feeder:
    """Sends rows with ids, in order of their times, round and round the partitions."""

    def __init__(self, broker: Broker) -> None:
        from confluent_kafka import Producer

        quiet = {"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer({**quiet, "message.timeout.ms": 600_000})
        self.sent = 0
        self._due = time.monotonic()

    def feed(self) -> None:
        while self._due < time.monotonic():
            row = {"id": self.sent, "k": self.sent % KEYS, "ts": START + self.sent * 5}
            self._producer.produce("in", json.dumps(row), partition=self.sent % PARTITIONS)
            self.sent += 1
            self._due += 1 / ROWS_A_SECOND
        self._producer.poll(0)

    def finish(self) -> None:
        for partition in range(PARTITIONS):  # so that all windows close; two batches, since a watermark takes one
            self._producer.produce("in", json.dumps({"id": -1, "k": -1, "ts": START + 10**10}), partition=partition)
        if self._producer.flush(120):
            raise RuntimeError("the broker did not take all messages")


def main() -> None:
    seconds, chance = float(os.environ.get("SOAK_SECONDS", "600")), random.Random(os.environ.get("SOAK_SEED"))
    folder = Path(tempfile.mkdtemp(prefix="eventide-soak-kafka-"))
    (folder / "broker").mkdir()
    kills = broker_kills = 0
    try:
        with running_broker(folder / "broker") as broker:
            for topic, partitions in (("in", PARTITIONS), ("rows", 2), ("counts", 1)):
                broker.create(topic, partitions)
            feeder, ends = Feeder(broker), time.monotonic() + seconds
            while time.monotonic() < ends:
                writer = _started(folder, broker)
                dies = time.monotonic() + chance.uniform(*LIFE)
                while time.monotonic() < dies:
                    if writer.poll() is not None:
                        say((folder / "log").read_text()[-2000:])
                        break
                    feeder.feed()
                    time.sleep(0.02)
                if chance.random() < BROKER_DIES:
                    broker.kill()
                    broker_kills += 1
                if writer.poll() is None:
                    writer.send_signal(signal.SIGKILL)
                    writer.wait()
                    kills += 1
                if not broker.is_running:
                    broker.start()
            feeder.finish()
            (folder / "done").touch()
            for _ in range(5):  # the broker may just have come back
                writer = _started(folder, broker)
                if writer.wait(300) == 0:
                    break
            else:
                raise SystemExit((folder / "log").read_text()[-3000:])
            lost, twice = _compared(broker, feeder.sent)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"kills {kills} broker_kills {broker_kills} rows_in {feeder.sent} lost {lost} twice {twice}", flush=True)
    if lost or twice or not kills:
        raise SystemExit(1)


def _started(folder: Path, broker: Broker) -> subprocess.Popen[bytes]:
    arguments = [str(folder / "checkpoint"), broker.address, str(folder / "done")]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, __file__, "serve", *arguments], stdout=log, stderr=log)


def _compared(broker: Broker, sent: int) -> tuple[int, int]:
    """(rows that are missing, rows too many), of both topics, as a reader of what is committed sees them."""
    rows = Counter(json.loads(message.value())["id"] for message in broker.read("rows"))
    rows.pop(-1, None)
    wanted = Counter(range(sent))
    counts: Counter[Any] = Counter()
    for message in broker.read("counts"):
        row = json.loads(message.value())
        if row["k"] >= 0:
            counts[row["k"], row["window_start"]] += row["n"]
    size = Counter((number % KEYS, (START + number * 5) // WINDOW_MS) for number in range(sent))
    missing, more = wanted - rows, rows - wanted
    lost, twice = missing.total(), more.total()
    found, expected = sorted(counts.values()), sorted(size.values())
    if found != expected:
        lost, twice = lost + max(sum(expected) - sum(found), 0), twice + max(sum(found) - sum(expected), 0)
        say(f"windows: {len(found)} of {len(expected)}, rows in them {sum(found)} of {sum(expected)}")
        lost += lost + twice == 0  # as many rows, in other windows
    return lost, twice


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    else:
        main()
