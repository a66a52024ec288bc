"""A process that is killed between the decision that a source is idle and its effect: `python -m
tests.recovery.idle_writer FOLDER`.

Two databases have the same rows. A minute later, by the clock of the first one, its source b has been silent for its
idle timeout: it publishes that, and is killed before anything else happens. The second one has not come to a decision.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from unittest import mock

import eventide
from eventide.spark.clock import SteadyClock
from eventide.storage.inbox import Entry, Inbox

MINUTE = 60 * 10**9
SQL = """ CREATE SOURCE a (v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms); CREATE SOURCE b (v BIGINT, ts
BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH ('idle_timeout' = '1 minute'); CREATE STREAM o AS SELECT sum(v) AS t
FROM (SELECT v, ts FROM a UNION ALL SELECT v, ts FROM b) GROUP BY TUMBLE(ts, INTERVAL '1' SECOND);
"""


def take_rows(db: eventide.Database) -> None:
    #  a  100 ........ 9000       watermark of a: 9000
    #  b      500                 watermark of b: 500, and silence
    db.execute(SQL)
    db.write("a", [(1, 100), (2, 9000)])
    db.write("b", [(4, 500)])
    db.tick()


def main(folder: Path) -> None:
    publish = Inbox.publish

    def publish_and_die(inbox: Inbox, entries: list[Entry]) -> None:
        publish(inbox, entries)
        if any(entry.kind == "watermark" and entry.source == "b" for entry in entries):
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        eventide.connect(folder / "undecided", shards=2) as undecided,
        eventide.connect(folder / "decided", shards=2) as decided,
    ):
        take_rows(undecided)
        take_rows(decided)
        decided._streams.open("o")._clock = SteadyClock(
            lambda: time.time_ns() + MINUTE, lambda: time.monotonic_ns() + MINUTE
        )
        with mock.patch.object(Inbox, "publish", publish_and_die):
            decided.tick()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
