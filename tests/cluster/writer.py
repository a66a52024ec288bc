"""A driver that writes and ticks on a cluster, made to be disturbed: `python -m tests.cluster.writer FOLDER MASTER`.

It goes on where the checkpoint in FOLDER stands, says what it does, and leaves its outcome in FOLDER. The environment
may name another place for the checkpoint, WRITER_CHECKPOINT, more settings of Spark's as JSON, WRITER_CONF, which
streams there are, WRITER_NAMES, and how many batches, WRITER_BATCHES.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import eventide
from eventide.storage.atomic import write_json
from tests.cluster.standalone import CONF
from tests.recovery import scenarios

BATCHES = 6
NAMES = ("tumble", "over", "pairs")  # a window, a stream that reads it, and a join with duplicates
OUTCOME, EVENTS = "outcome.json", "events"
# a copy of a task that takes twice as long as the others, wherever it runs
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "2",
    "spark.speculation.task.duration.threshold": "1500ms",
}


def say(line: str) -> None:
    print(line, flush=True)


def main(folder: Path, master: str) -> None:
    (folder / EVENTS).mkdir(exist_ok=True)
    log = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (folder / EVENTS).as_uri()}
    log |= {"spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false"}
    checkpoint = os.environ.get("WRITER_CHECKPOINT") or folder / "checkpoint"
    more = json.loads(os.environ.get("WRITER_CONF", "{}"))
    names = tuple(os.environ.get("WRITER_NAMES", " ".join(NAMES)).split())
    batches = int(os.environ.get("WRITER_BATCHES", BATCHES))
    with eventide.connect(checkpoint, master=master, conf={**CONF, **SPECULATION, **log, **more}) as db:
        say("open")
        found = scenarios.run(folder, batches, None, db, say, names)
    write_json(folder / OUTCOME, json.loads(json.dumps(found)))
    say("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
