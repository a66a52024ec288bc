"""What joins hold is forgotten in every shard when its time is over, though no row of its key comes any more."""

from __future__ import annotations

import pytest

from tests.conftest import DatabaseFactory

SHARDS, KEYS = 4, 64
SOURCES = "".join(
    f"CREATE SOURCE {name} (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms, "
    "WATERMARK FOR ts AS ts - INTERVAL '1' HOUR); "
    for name in "lr"
)
SECOND = "INTERVAL '1' SECOND"
JOINS = {
    "near": f"SELECT l.k FROM l JOIN r WITHIN {SECOND} ON l.k = r.k",
    "same": f"SELECT l.k FROM l JOIN r WITHIN TUMBLE({SECOND}) ON l.k = r.k",
    "visits": f"SELECT l.k FROM l JOIN r WITHIN SESSION({SECOND}) ON l.k = r.k",
    "priced": f"SELECT l.k FROM l ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts AND l.ts - r.ts <= {SECOND}) ON l.k = r.k",
    "ever": "SELECT l.k FROM l JOIN r ON l.k = r.k EMIT CHANGES",
}
WAITING = {"near", "same"}  # have nothing to give when time passes, and forget with the rows that come next


@pytest.mark.slow
def test_rows_are_forgotten_in_all_shards_without_rows_of_their_keys(db_factory: DatabaseFactory) -> None:
    db = db_factory(shards=SHARDS)
    db.execute(SOURCES)
    for name, join in JOINS.items():
        ttl = " WITH ('state_ttl' = '1 second')" if name == "ever" else ""
        db.execute(f"CREATE STREAM {name}{ttl} AS {join}")
    rows = [(f"k{number}", number, 1000) for number in range(KEYS)]
    db.write("l", rows)
    db.write("r", [(f"other {key}", value, ts) for key, value, ts in rows])
    db.tick()
    kept = {name: held(db.metrics()[name]) for name in JOINS}
    assert kept == dict.fromkeys(JOINS, (KEYS, KEYS))
    for source in "lr":
        db.advance_watermark(source, 10_000)
    db.tick()
    kept = {name: held(db.metrics()[name]) for name in JOINS}
    assert {name for name, rows_held in kept.items() if rows_held != (0, 0)} <= WAITING
    # the keys were in all shards: their rows are late there
    db.write("l", rows)
    db.tick()
    assert {name: held(db.metrics()[name]) for name in WAITING} == dict.fromkeys(WAITING, (0, 0))
    assert {payload["shard"] for payload in db.side_output("near", "late")} == set(range(SHARDS))


def held(figures: dict[str, int]) -> tuple[int, int]:
    return figures["left_buffered"], figures["right_buffered"]
