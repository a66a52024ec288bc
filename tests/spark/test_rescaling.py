"""`eventide rescale`: another number of shards, up and down, with nothing lost and nothing given twice."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from eventide import Database, rescaling
from eventide.cli.checkpoint import layout_of
from eventide.errors import CheckpointError, OptionError
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


@pytest.mark.slow  # several starts of streams
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
            assert all(one.moved is not None for one in done)
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


FORGETFUL = """
CREATE SOURCE s (k BIGINT, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH ('rows.keep' = 'none');
CREATE STREAM o {limit} AS SELECT window_end, k, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
CREATE STREAM u AS SELECT k, sum(v) AS total FROM s GROUP BY k EMIT ON UPDATE;
CREATE STREAM sessions AS SELECT k, sum(v) AS total FROM s GROUP BY k, SESSION(ts, INTERVAL '1' SECOND);
"""
STREAMS = ("o", "u", "sessions")


def _connect(db_factory: DatabaseFactory, folder: Path, shards: int | None) -> Database:
    return db_factory(checkpoint=folder, shards=shards)


def _die(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow  # several starts of streams
def test_state_moves_though_its_rows_are_not_kept_also_after_a_crash(
    tmp_path: Path, db_factory: DatabaseFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = FORGETFUL.format(limit="")
    layout, catalog = Layout(tmp_path), Catalog.from_texts([sql])
    rows = [(k, 10 * k + step, 100 + step) for step in range(3) for k in range(20)]
    for step, shards in enumerate((2, 3, 1)):
        if step:
            connect = partial(_connect, db_factory, tmp_path)
            if step == 1:
                with monkeypatch.context() as crash, pytest.raises(KeyboardInterrupt):
                    crash.setattr(rescaling, "write_json", _die)  # parcels are written, Spark's partitions are new
                    rescale(layout, catalog, shards, connect, partial=False)
            done = rescale(layout, catalog, shards, connect, partial=False)
            moved = {one.stream: one.moved for one in done}
            assert moved == {"o": 20 * step, "u": 20, "sessions": 20}  # a window that is not due is a log of partials
        db = db_factory(checkpoint=tmp_path, **({"shards": 2} if step == 0 else {}))
        if step == 0:
            db.execute(sql)
        db.write("s", rows[20 * step : 20 * (step + 1)])
        db.tick()
        assert [shards_of(layout, name) for name in STREAMS] == [shards] * 3
        assert [db.accounting(name)["used"] for name in STREAMS] == [20 * (step + 1)] * 3
        totals = {row["k"]: row["total"] for row in db.read("u")}
        assert totals == {k: sum(v for key, v, _ in rows[: 20 * (step + 1)] if key == k) for k in range(20)}
        if step == 2:
            db.advance_watermark("s", 9000)
            db.tick()
            for name in ("o", "sessions"):
                assert sorted((row["k"], row["total"]) for row in db.read(name)) == sorted(totals.items())
        db.close()


@pytest.mark.slow  # several starts of a stream
def test_rows_that_are_not_kept_cannot_be_taken_in_again_where_state_cannot_move(
    tmp_path: Path, db_factory: DatabaseFactory, caplog: pytest.LogCaptureFixture
) -> None:
    sql = FORGETFUL.split("CREATE STREAM u")[0].format(limit="WITH ('max_groups' = '100')")
    layout, catalog = Layout(tmp_path), Catalog.from_texts([sql])

    def rescaled(partial: bool) -> None:
        rescale(layout, catalog, 3, lambda asked: db_factory(checkpoint=tmp_path, shards=asked), partial)

    db = db_factory(checkpoint=tmp_path, shards=2)
    db.execute(sql)
    for value in (1, 2, 4):
        db.write("s", [(1, value, 100)])
        db.tick()
    with pytest.raises(CheckpointError, match="is open in process"):  # nobody may be running it
        rescale(layout, catalog, 3, lambda asked: db_factory(checkpoint=tmp_path), partial=False)
    db.close()
    with pytest.raises(CheckpointError, match=r"(?s)still have 1 of the 3 rows that it took in.*Nothing has changed"):
        rescaled(partial=False)
    assert "o: max_groups keeps a window in one shard" in caplog.text
    assert shards_of(layout, "o") == 2
    again = db_factory(checkpoint=tmp_path)
    again.execute(sql)
    again.write("s", [(1, 8, 200)])
    again.tick()
    again.close()
    rescaled(partial=True)
    assert shards_of(layout, "o") == 3
    last = db_factory(checkpoint=tmp_path)
    last.execute(sql)
    last.advance_watermark("s", 5000)
    last.tick()
    assert [row["total"] for row in last.read("o")] == [8], "only what was there could be taken in again"
    last.close()


def test_there_is_nothing_to_do_for_streams_with_that_number_or_none_yet(tmp_path: Path) -> None:
    layout, catalog = Layout(tmp_path), Catalog.from_texts([SQL.format(out=tmp_path / "out")])
    assert streams_to_rescale(layout, catalog, 4) == []
    for name, shards in (("o", 4), ("t", 4)):
        layout.plan(name).parent.mkdir(parents=True)
        layout.plan(name).write_text(f'{{"shards": {shards}}}')
    assert streams_to_rescale(layout, catalog, 4) == []
    assert streams_to_rescale(layout, catalog, 5) == ["o", "t"]
    layout.plan("t").write_text('{"shards": 5}')
    assert streams_to_rescale(layout, catalog, 5) == ["o", "t"], "a reader begins anew with what it reads"
    layout.plan("o").write_text('{"shards": 5}')
    layout.plan("t").write_text('{"shards": 4}')
    assert streams_to_rescale(layout, catalog, 5) == ["t"]


def test_a_folder_without_texts_is_refused(tmp_path: Path) -> None:
    """As the checkpoint of a stream of the fluent API is."""
    with pytest.raises(OptionError, match="is not an Eventide checkpoint"):
        layout_of(tmp_path)
