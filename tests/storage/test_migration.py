"""A migration that a crash has cut short is undone when the checkpoint is opened next, unless it has come to its
switch: then sinks get what was left for them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from eventide import migration
from eventide.errors import CheckpointError
from eventide.handover import Handover, hand_over, switch
from eventide.migration import undo_unfinished
from eventide.sql.catalog import Catalog
from eventide.storage.layout import Layout
from eventide.storage.results import Results


def checkpoint(root: Path) -> Layout:
    layout = Layout(root)
    (layout.before / "o").mkdir(parents=True)
    (layout.before / "o" / "plan.json").write_text('"old"')
    layout.stream("o").mkdir(parents=True)
    layout.plan("o").write_text('"new"')
    layout.catalog.write_text("[]")
    marker = {"folders": ["o", "moved already back"], "catalog": ["CREATE STREAM o ..."]}
    layout.migration.write_text(json.dumps(marker))
    return layout


def test_what_was_set_aside_is_put_back(tmp_path: Path) -> None:
    layout = checkpoint(tmp_path)
    undo_unfinished(layout)
    assert json.loads(layout.plan("o").read_text()) == "old"
    assert json.loads(layout.catalog.read_text()) == ["CREATE STREAM o ..."]
    assert not layout.migration.exists()
    assert not layout.before.exists()
    undo_unfinished(layout)


def test_a_migration_that_is_under_way_in_this_process_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = checkpoint(tmp_path)
    monkeypatch.setattr(migration, "_UNDER_WAY", {tmp_path})
    undo_unfinished(layout)
    assert layout.migration.exists()
    undo_unfinished(layout, anyway=True)
    assert not layout.migration.exists()


def test_what_is_to_be_handed_over_is_not_undone_but_delivered_once(tmp_path: Path) -> None:
    layout, out = checkpoint(tmp_path / "c"), tmp_path / "out"
    catalog = Catalog.from_texts([
        f"CREATE SOURCE s (v BIGINT); CREATE STREAM o AS SELECT v FROM s; "
        f"CREATE SINK out FROM o WITH ('connector' = 'files', 'path' = '{out}')"
    ])  # fmt: skip
    Results(layout.handover).write_table("o.arrow", pa.table({"v": [1, 2]}))
    for _ in range(2):  # the second time as if the process had died before it could say that it had delivered
        switch(layout, [Handover("o", 7, "identity", ("out",))])
        undo_unfinished(layout)
        kept = (layout.handover / "o.arrow").read_bytes()
        hand_over(layout, catalog)
        assert json.loads(layout.plan("o").read_text()) == "new"
        assert [path.read_text().splitlines() for path in out.iterdir()] == [['{"v": 1}', '{"v": 2}']]
        assert not any(path.exists() for path in (layout.migration, layout.before, layout.handover))
        layout.handover.mkdir()
        (layout.handover / "o.arrow").write_bytes(kept)


def test_streams_do_not_begin_anew_while_sinks_wait_for_what_an_earlier_migration_left(tmp_path: Path) -> None:
    layout = checkpoint(tmp_path)
    switch(layout, [Handover("o", 7, "identity", ("out",))])
    with pytest.raises(CheckpointError, match=r"(?s)sinks have not got yet.*open the checkpoint once"):
        migration._set_aside(layout, ["o"])
    assert layout.migration.exists()
