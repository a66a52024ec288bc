"""A process that writes and ticks, made to be killed at any moment.

    python -m tests.recovery.writer FOLDER BATCHES NAMES [POSTGRES]

It runs the scenarios NAMES on the checkpoint in FOLDER and goes on where that stands. It says what it does, so that who
kills it can choose the moment, and leaves its outcome in FOLDER when it comes to its end. The environment may name
another place for the checkpoint, WRITER_CHECKPOINT, and settings of Spark's as JSON, WRITER_CONF.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import eventide
from eventide.storage.atomic import write_json
from tests.recovery import scenarios

OUTCOME = "outcome.json"


def say(line: str) -> None:
    print(line, flush=True)


def main(folder: Path, batches: int, names: list[str], postgres: str | None) -> None:
    checkpoint = os.environ.get("WRITER_CHECKPOINT") or folder / "checkpoint"
    with eventide.connect(checkpoint, shards=2, conf=json.loads(os.environ.get("WRITER_CONF", "{}"))) as db:
        say("open")
        found = scenarios.run(folder, batches, postgres, db, say, names)
    write_json(folder / OUTCOME, found)
    say("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4] if len(sys.argv) > 4 else None)
