"""Whole files and whole batches that are delivered again, before and after a restart: their rows are duplicates, and
nothing else.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.conftest import DatabaseFactory

COLUMNS = (
    "id BIGINT, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms, DEDUPLICATE BY id WITHIN INTERVAL '1' MINUTE"
)
ROWS = [{"id": number, "v": number % 7, "ts": number * 10} for number in range(300)]


def test_a_file_and_a_batch_that_come_again_change_nothing(tmp_path: Path, db_factory: DatabaseFactory) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    (incoming / "first.json").write_text("\n".join(json.dumps(row) for row in ROWS))
    sql = f"""
        CREATE SOURCE f ({COLUMNS}) WITH ('connector' = 'files', 'path' = '{incoming}', 'format' = 'json');
        CREATE SOURCE e ({COLUMNS});
        CREATE STREAM of AS SELECT window_start, count(*) AS n, sum(v) AS total FROM f GROUP BY TUMBLE(ts, INTERVAL '1'
          SECOND);
        CREATE STREAM oe AS SELECT window_start, count(*) AS n, sum(v) AS total FROM e GROUP BY TUMBLE(ts, INTERVAL '1'
          SECOND);
    """
    with db_factory(checkpoint=tmp_path / "checkpoint") as db:
        db.execute(sql)
        db.write("e", ROWS)
        db.tick()
        shutil.copy(incoming / "first.json", incoming / "again.json")
        db.write("e", ROWS)
        db.tick()
    with db_factory(checkpoint=tmp_path / "checkpoint") as db:
        db.execute(sql)
        shutil.copy(incoming / "first.json", incoming / "after the restart.json")
        db.write("e", ROWS)
        db.tick()
        for source in ("f", "e"):
            db.advance_watermark(source, 100_000)
        db.tick()
        wanted = [(100, sum(row["v"] for row in ROWS[start : start + 100])) for start in (0, 100, 200)]
        for stream in ("of", "oe"):
            assert sorted((row["n"], row["total"]) for row in db.read(stream)) == sorted(wanted)
            figures = db.accounting(stream)
            assert (figures["rows_in"], figures["used"], figures["duplicate"]) == (900, 300, 600)
            again = [payload["original_event"]["id"] for payload in db.side_output(stream, "duplicate")]
            assert sorted(again) == sorted([*range(300), *range(300)])
