"""A file that changes under a run: taken up where the change allows it, told otherwise."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from eventide.cli.reload import Reloading
from eventide.cli.runner import Connection, run
from eventide.errors import OptionError
from eventide.plan.difference import canonical
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.storage.atomic import write_json
from eventide.storage.layout import Layout

SQL = """CREATE SOURCE s (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE STREAM o AS SELECT window_start, k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND);
"""


@pytest.fixture
def told() -> Console:
    return Console(width=200, record=True, file=io.StringIO())


@pytest.fixture
def reloading(tmp_path: Path, told: Console) -> Reloading:
    """Beside a checkpoint in which the stream has run."""
    layout, catalog = Layout(tmp_path / "state"), Catalog()
    layout.make_private()
    for statement in parse_statements(SQL):
        catalog.apply(statement)
    write_json(layout.catalog, catalog.texts())
    layout.stream("o").mkdir(parents=True)
    plan = canonical(catalog.stream("o"))
    write_json(layout.plan("o"), {"plan": plan, "shards": 2, "identity": "i", "plan_id": "p"})
    (tmp_path / "app.sql").write_text(SQL, encoding="utf-8")
    return Reloading(tmp_path / "app.sql", layout.root, False, told)


def change(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "app.sql").write_text(SQL.replace(old, new), encoding="utf-8")


def test_a_file_as_it_was_is_no_news(reloading: Reloading, tmp_path: Path) -> None:
    assert reloading.news() is None
    (tmp_path / "app.sql").unlink()  # as some editors do
    assert reloading.news() is None
    change(tmp_path, "", "")
    assert reloading.news() is None


def test_a_change_that_can_go_on_is_taken_up(reloading: Reloading, tmp_path: Path, told: Console) -> None:
    change(tmp_path, "AS n", "AS m")
    program = reloading.news()
    assert program is not None and "AS m" in program.sql
    assert "the streams go on under its new text" in told.export_text() and reloading.news() is None


def test_a_change_that_cannot_is_told_once(reloading: Reloading, tmp_path: Path, told: Console) -> None:
    change(tmp_path, "GROUP BY k, TUMBLE(ts, INTERVAL '1' SECOND)", "GROUP BY k, SESSION(ts, INTERVAL '1' SECOND)")
    assert reloading.news() is None and "run on as before" in told.export_text()
    assert reloading.news() is None and told.export_text() == ""


def test_a_text_that_is_wrong_is_told_and_mended(reloading: Reloading, tmp_path: Path, told: Console) -> None:
    change(tmp_path, "count(*)", "count(* AS")
    assert reloading.news() is None and "the file is not right" in told.export_text()
    change(tmp_path, "AS n", "AS m")
    assert reloading.news() is not None


def test_without_a_checkpoint_there_is_nothing_to_go_on_from(tmp_path: Path, told: Console) -> None:
    (tmp_path / "app.sql").write_text(SQL, encoding="utf-8")
    with pytest.raises(OptionError, match="--reload needs a checkpoint"):
        run(tmp_path / "app.sql", Connection(), once=False, flush=None, console=told, reload=True)


def test_a_run_goes_on_under_the_new_text(tmp_path: Path, told: Console, keep_spark: Any) -> None:
    """The window is open when the file changes: rows from before and after are in it."""
    folder, file, out = tmp_path / "in", tmp_path / "app.sql", tmp_path / "out"
    folder.mkdir()
    source = f"WITH ('connector' = 'files', 'path' = '{folder}', 'format' = 'json')"
    sink = f"CREATE SINK w FROM o WITH ('connector' = 'files', 'path' = '{out}', 'format' = 'json');"
    sql = SQL.replace("unixtimestamp_ms);", f"unixtimestamp_ms) {source};") + sink
    file.write_text(sql, encoding="utf-8")

    def write(name: str, *times: int) -> None:
        (folder / f"_{name}").write_text("".join(f'{{"k": "a", "ts": {at}}}\n' for at in times), encoding="utf-8")
        (folder / f"_{name}").rename(folder / f"{name}.json")

    def rows() -> list[dict[str, Any]]:
        return [json.loads(line) for path in out.glob("*.json") for line in path.read_text().splitlines()]

    def is_read(count: int) -> bool:
        accounts = (tmp_path / "state" / "streams" / "o" / "results").glob("[0-9]*.json")
        return any(json.loads(path.read_text())["totals"]["rows_in"] >= count for path in accounts)

    def story() -> None:
        try:
            write("one", 100, 200)
            until(lambda: is_read(2))
            file.write_text(sql.replace("AS n", "AS m"), encoding="utf-8")
            until(lambda: "go on under its new text" in told.file.getvalue())  # type: ignore[attr-defined]
            write("two", 300, 9000)
            until(lambda: bool(rows()))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    teller = threading.Thread(target=story)
    teller.start()
    run(file, Connection(tmp_path / "state"), once=False, flush=None, console=told, reload=True)
    teller.join()
    assert [(row["k"], row["m"]) for row in rows()] == [("a", 3)]


def until(holds: Callable[[], bool], seconds: float = 500) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.1)
