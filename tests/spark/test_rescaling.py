"""`eventide rescale`: another number of shards, up and down, with nothing lost and nothing given twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.errors import OptionError
from eventide.rescaling import rescale, shards_of, streams_to_rescale
from eventide.sql.catalog import Catalog
from eventide.storage.layout import Layout
from tests.conftest import DatabaseFactory
from tests.spark.test_migration import delivered

SQL = """
CREATE SOURCE s (k BIGINT, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms,
                 DEDUPLICATE BY v WITHIN INTERVAL '1' MINUTE);
CREATE STREAM o AS SELECT window_end, k, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
CREATE STREAM t AS SELECT window_end, sum(total) AS total FROM o GROUP BY TUMBLE(window_time, INTERVAL '2' SECOND);
CREATE SINK out FROM o WITH ('connector' = 'files', 'path' = '{out}', 'format' = 'json');
"""


@pytest.mark.slow  # four starts of a stream, each with a replay
def test_streams_get_more_shards_and_fewer_and_go_on(tmp_path: Path, db_factory: DatabaseFactory) -> None:
    layout, out = Layout(tmp_path / "checkpoint"), tmp_path / "out"
    sql = SQL.format(out=out)
    catalog = Catalog.from_texts([sql])
    expected: list[int] = []
    for step, shards in enumerate((2, 5, 1)):
        if step:
            done = rescale(
                layout,
                catalog,
                shards,
                lambda asked: db_factory(checkpoint=layout.root, shards=asked),
                partial=False,
            )
            assert next((one.stream, one.rows, one.rows_before) for one in done) == ("o", 20 * step, 20 * step)
            assert [one.stream for one in done] == ["o", "t"] and delivered(out) == sorted(expected)
        assert streams_to_rescale(layout, catalog, shards) == []
        db = db_factory(checkpoint=layout.root, **({"shards": 2} if step == 0 else {}))
        db.execute(sql)
        values = [step * 100 + number for number in range(10)]
        rows = [(value % 5, value, step * 1000 + 100) for value in values]
        db.write("s", [*rows, *rows])  # each comes twice
        db.tick()
        db.advance_watermark("s", step * 1000 + 500 if step < 2 else 9000)  # leaves the window open
        db.tick()
        expected += [sum(value for value in _values(step - 1) if value % 5 == k) for k in range(5)] if step else []
        expected += [sum(value for value in _values(2) if value % 5 == k) for k in range(5)] if step == 2 else []
        assert delivered(out) == sorted(expected)
        assert [shards_of(layout, name) for name in ("o", "t")] == [shards, shards]
        figures = db.accounting("o")
        assert (figures["rows_in"], figures["duplicate"]) == (20 * (step + 1), 10 * (step + 1))
        if step == 2:
            everything = sum(value for each in range(3) for value in _values(each))
            assert sum(row["total"] for row in db.read("t")) == everything
        db.close()


def _values(step: int) -> list[int]:
    return [step * 100 + number for number in range(10)]


def test_a_number_in_the_text_of_a_stream_is_refused_by_name(tmp_path: Path) -> None:
    sql = "CREATE SOURCE s (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts); CREATE STREAM o WITH ('shards' = '3') AS "
    catalog = Catalog.from_texts([f"{sql} SELECT k FROM s"])
    with pytest.raises(OptionError, match=r"(?s)stream o asks for 3 shards.*eventide migrate"):
        streams_to_rescale(Layout(tmp_path), catalog, 4)
