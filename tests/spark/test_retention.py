"""What a running database keeps, and that nobody misses what it does not."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from eventide.database import Database
from eventide.storage.inbox import KEPT_MANIFESTS
from tests.conftest import DatabaseFactory

LONGEST_SECONDS = 500.0
SQL = """
CREATE SOURCE s (v BIGINT) WITH ('rows.keep' = 'none');
CREATE STREAM o WITH ('results.keep' = 'none') AS SELECT v FROM s;
CREATE STREAM p AS SELECT v * 10 AS w FROM o;
CREATE STREAM tops AS SELECT max(n) AS top FROM (SELECT v, count(*) AS n FROM s GROUP BY v) EMIT CHANGES;
"""


def written(checkpoint: Path) -> list[int]:
    return sorted(int(path.stem) for path in (checkpoint / "sources" / "s").glob("*.arrow"))


def rows(db: Database, stream: str) -> list[int]:
    return [next(iter(row.values())) for row in db.read(stream)]


def test_what_everybody_has_read_is_forgotten(
    db_factory: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventide.storage.compaction.TOGETHER", 2)
    monkeypatch.setattr("eventide.streams._COMPACT_SECONDS", 0.0)
    db = db_factory(checkpoint=tmp_path)
    db.execute(SQL)
    assert "results kept: until they are read" in str(db.explain("o"))
    for value in range(3):
        db.write("s", [(value,)])
        db.tick()
    assert rows(db, "p") == [0, 10, 20]
    few = rows(db, "o")
    assert 0 < len(few) < 3 and few == list(range(3))[-len(few) :]
    assert written(tmp_path) == [3]
    assert rows(db, "tops")[-1] == 1
    db.close()
    again = db_factory(checkpoint=tmp_path)
    again.execute("ALTER STREAM p SET ('results.keep' = 'none')")
    again.start()
    for value in range(3, 6):
        again.write("s", [(value,)])
        deadline = time.monotonic() + LONGEST_SECONDS
        while rows(again, "p")[-1:] != [10 * value] and time.monotonic() < deadline:
            time.sleep(0.2)
    deadline = time.monotonic() + LONGEST_SECONDS
    while len(written(tmp_path)) > 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    again.stop(graceful=False)
    assert len(written(tmp_path)) <= 2  # of the last batch it is not known yet whether it will come again
    assert rows(again, "p")[-1] == 50 and len(rows(again, "p")) < 6
    assert again.accounting("p")["used"] == 6
    manifests = list((tmp_path / "streams" / "o" / "inbox").glob("*.json"))
    assert len(manifests) <= KEPT_MANIFESTS
