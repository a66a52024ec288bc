"""`eventide validate --against`: whether a changed file can continue from a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eventide.cli.app import app
from eventide.plan.difference import canonical
from eventide.plan.planner import plan_id
from eventide.storage.layout import Layout
from tests.sql.support import catalog

SQL = """CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE STREAM o AS SELECT k, sum(v) AS total FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND);
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """What a run of SQL leaves behind, as far as plans are concerned."""
    layout, made = Layout(tmp_path / "checkpoint"), catalog(SQL)
    layout.plan("o").parent.mkdir(parents=True)
    layout.catalog.write_text(json.dumps(made.texts()))
    settings = {
        "plan_id": plan_id(made.streams["o"]),
        "plan": canonical(made.streams["o"]),
        "shards": 2,
        "identity": "x",
    }
    layout.plan("o").write_text(json.dumps(settings))
    return layout.root


def validate(tmp_path: Path, checkpoint: Path, sql: str) -> tuple[int, str]:
    (tmp_path / "app.sql").write_text(sql)
    done = CliRunner().invoke(
        app, ["validate", str(tmp_path / "app.sql"), "--against", str(checkpoint)], env={"COLUMNS": "200"}
    )
    return done.exit_code, done.output


def test_the_same_meaning_continues_whatever_its_spelling(tmp_path: Path, checkpoint: Path) -> None:
    code, told = validate(tmp_path, checkpoint, SQL.replace("SELECT k,", "SELECT  k, -- the key\n"))
    assert code == 0 and "o: continues" in told and "can continue from this checkpoint" in told


def test_another_window_does_not_continue_and_the_difference_is_shown(tmp_path: Path, checkpoint: Path) -> None:
    code, told = validate(tmp_path, checkpoint, SQL.replace("'10' SECOND", "'20' SECOND"))
    assert code == 1 and "o: window: tumble size 10s -> tumble size 20s: cannot; what is kept of open windows" in told
    assert "cannot continue from this checkpoint" in told


def test_a_new_stream_starts_without_state_and_a_removed_one_keeps_running(tmp_path: Path, checkpoint: Path) -> None:
    code, told = validate(tmp_path, checkpoint, SQL.replace("STREAM o", "STREAM p"))
    assert code == 0 and "p: new, starts without state" in told and "it keeps running until DROP STREAM o" in told


def test_another_source_and_a_replaced_stream_stop_it(tmp_path: Path, checkpoint: Path) -> None:
    code, told = validate(tmp_path, checkpoint, SQL.replace("k STRING", "k BIGINT"))
    assert code == 1 and "o: s: column k: string -> bigint: cannot; what is kept of the rows so far" in told
    code, told = validate(tmp_path, checkpoint, SQL.replace("CREATE STREAM", "CREATE OR REPLACE STREAM"))
    assert code == 1 and "discards its state" in told


def test_each_difference_is_told_with_what_becomes_of_it(tmp_path: Path, checkpoint: Path) -> None:
    changed = SQL.replace("total FROM s", "total, count(*) AS n FROM s WHERE v > 0").replace(
        "v BIGINT", "v BIGINT, w INT"
    )
    for text in (changed, changed.replace("CREATE STREAM", "CREATE OR REPLACE STREAM").rstrip(";\n") + " KEEP STATE;"):
        code, told = validate(tmp_path, checkpoint, text)
        lines = told.splitlines()
        assert code == 0
        assert "o: + aggregate count(): goes on from the next window; NULL for a group that had rows" in told
        assert "o: + s: column w int: goes on; rows that came before have NULL there" in lines
        assert any(line.startswith("o: s: filter: nothing -> v > 0: goes on; from the next batch on") for line in lines)
        assert lines[-1] == "can continue from this checkpoint"


def test_another_number_of_shards_stops_it(tmp_path: Path, checkpoint: Path) -> None:
    code, told = validate(tmp_path, checkpoint, SQL.replace("STREAM o", "STREAM o WITH ('shards' = '4')"))
    assert code == 1 and "o: 'shards' = '4', but the checkpoint has 2, which are fixed" in told
    assert validate(tmp_path, checkpoint, SQL.replace("STREAM o", "STREAM o WITH ('shards' = '2')"))[0] == 0


def test_a_file_may_drop_what_the_checkpoint_has(tmp_path: Path, checkpoint: Path) -> None:
    source = SQL.splitlines()[0]
    code, told = validate(tmp_path, checkpoint, f"DROP STREAM o;\n{source}")
    assert code == 0 and "keeps running" not in told
    code, told = validate(tmp_path, checkpoint, f"DROP STREAM o; DROP STREAM o;\n{source}")
    assert code == 1


def test_a_folder_that_is_not_a_checkpoint_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "app.sql").write_text(SQL)
    done = CliRunner().invoke(app, ["validate", str(tmp_path / "app.sql"), "--against", str(tmp_path / "none")])
    assert done.exit_code == 1 and "is not an Eventide checkpoint" in str(done.exception)
