"""Spark's log of the manifests that it has taken in does not grow, and other sources' logs stay as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventide.spark.manifest_log import ManifestLog
from eventide.storage.layout import Layout
from tests.conftest import DatabaseFactory


def log(path: Path, names: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": name, "timestamp": 1, "batchId": 2}, separators=(",", ":")) for name in names]
    path.write_text("\n".join(["v1", *lines]))


def taken(folder: Path) -> list[int]:
    """The numbers of the manifests in the newest file that holds all names."""
    newest = max(folder.glob("*.compact"), key=lambda path: int(path.stem))
    return [int(json.loads(line)["path"][-17:-5]) for line in newest.read_text().splitlines()[1:]]


def test_deleted_manifests_are_taken_out_of_the_newest_file_with_all_names(tmp_path: Path) -> None:
    inbox, spark = tmp_path / "an app$1" / "inbox", tmp_path / "spark"
    inbox.mkdir(parents=True)
    place = f"file://{tmp_path}/an%20app$1/inbox"
    own = [f"{place}/{number:012d}.json" for number in range(1, 401)]
    others = [f"{place}/sub/{1:012d}.json", f"file:///elsewhere{tmp_path}/an%20app$1/inbox/{1:012d}.json"]
    log(spark / "sources/0/9.compact", own[:200])
    log(spark / "sources/0/19.compact", [*others, *own])
    (spark / "sources/0/.19.compact.crc").write_text("of the content")
    log(spark / "sources/0/20", [f"{place}/{401:012d}.json"])
    log(spark / "sources/1/19.compact", others)
    watched = ManifestLog(spark, inbox)
    watched.shorten(99)
    assert len(taken(spark / "sources/0")) == 402, "it was looked at too early"
    watched.shorten(340)
    assert taken(spark / "sources/0") == [1, 1, *range(340, 401)]
    assert len((spark / "sources/0/9.compact").read_text().splitlines()) == 201
    assert not (spark / "sources/0/.19.compact.crc").exists()
    assert taken(spark / "sources/1") == [1, 1]
    before = (spark / "sources/0/19.compact").stat().st_ino
    ManifestLog(spark, inbox).shorten(340)
    assert (spark / "sources/0/19.compact").stat().st_ino == before, "nothing was left to be taken out"


@pytest.mark.slow
def test_a_stream_goes_on_from_a_log_that_was_shortened(
    db_factory: DatabaseFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so does one whose query was started afresh, for Spark to forget the names that it has in memory."""
    monkeypatch.setattr("eventide.storage.inbox.KEPT_MANIFESTS", 4)
    monkeypatch.setattr("eventide.spark.manifest_log._EVERY", 1)
    sql = "CREATE SOURCE s (v BIGINT); CREATE STREAM o AS SELECT v FROM s"
    sources = Layout(tmp_path).spark("o") / "sources" / "0"
    values: list[int] = []

    def written(db: Any, count: int) -> None:
        for _ in range(count):
            values.append(len(values))
            db.write("s", [(values[-1],)])
            db.tick()

    db = db_factory(checkpoint=tmp_path)
    db.execute(sql)
    written(db, 13)
    assert len(taken(sources)) < 10 and taken(sources)[-1] == 10
    first = _run(db)
    monkeypatch.setattr("eventide.spark.running._NAMES_IN_MEMORY", 3)
    written(db, 1)
    assert _run(db) != first
    db.close()
    again = db_factory(checkpoint=tmp_path)
    again.execute(sql)
    written(again, 17)
    assert [row["v"] for row in again.read("o")] == values
    assert (sources / "29.compact").exists() and len(taken(sources)) < 20


def _run(db: Any) -> str:
    """The id of the run of the stream's query."""
    return str(db._streams.open("o")._query.runId)
