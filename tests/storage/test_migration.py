"""A migration that a crash has cut short is undone when the checkpoint is opened next."""

from __future__ import annotations

import json
import os
from pathlib import Path

from eventide.migration import undo_unfinished
from eventide.storage.layout import Layout


def checkpoint(root: Path, process: int) -> Layout:
    layout = Layout(root)
    (layout.before / "o").mkdir(parents=True)
    (layout.before / "o" / "plan.json").write_text('"old"')
    layout.stream("o").mkdir(parents=True)
    layout.plan("o").write_text('"new"')
    layout.catalog.write_text("[]")
    marker = {"process": process, "folders": ["o", "moved already back"], "catalog": ["CREATE STREAM o ..."]}
    layout.migration.write_text(json.dumps(marker))
    return layout


def test_what_was_set_aside_is_put_back(tmp_path: Path) -> None:
    layout = checkpoint(tmp_path, process=-1)
    undo_unfinished(layout)
    assert json.loads(layout.plan("o").read_text()) == "old"
    assert json.loads(layout.catalog.read_text()) == ["CREATE STREAM o ..."]
    assert not layout.migration.exists()
    assert not layout.before.exists()
    undo_unfinished(layout)


def test_a_migration_that_is_under_way_in_this_process_goes_on(tmp_path: Path) -> None:
    layout = checkpoint(tmp_path, os.getpid())
    undo_unfinished(layout)
    assert layout.migration.exists()
    undo_unfinished(layout, anyway=True)
    assert not layout.migration.exists()
