"""A Python function as a sink."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from eventide.database import Database
from eventide.errors import SinkError


def test_a_function_gets_every_batch_with_its_number_and_a_failed_one_again(db: Database) -> None:
    db.execute("""
        CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE STREAM o AS SELECT k, v FROM s;
    """)
    got: list[tuple[int, list[dict[str, Any]]]] = []
    is_open = [True]

    def take(batch: int, rows: pa.Table) -> None:
        if not is_open[0]:
            raise ValueError("not today")
        got.append((batch, rows.to_pylist()))

    db.foreach("o", take)
    for row in (("a", 1, 100), ("b", 2, 200)):
        db.write("s", [row])
        db.tick()
    assert [rows for _, rows in got] == [[{"k": "a", "v": 1}], [{"k": "b", "v": 2}]] and got[0][0] < got[1][0]
    is_open[0] = False
    db.write("s", [("c", 3, 300)])
    with pytest.raises(SinkError, match=r"take, which takes the rows of o, failed in batch .: ValueError: not today"):
        db.tick()
    is_open[0] = True
    db.stop(graceful=False)
    db.tick()
    assert got[2][1] == [{"k": "c", "v": 3}] and len(db.read("o")) == 3
