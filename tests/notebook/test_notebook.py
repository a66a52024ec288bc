"""Results in a notebook, curves, the magic; and the example notebook, cell by cell."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventide.errors import OptionError
from eventide.notebook.html import accounting_html, streams_html
from eventide.result import Result

NOON = dt.datetime(2025, 1, 31, 12, tzinfo=dt.UTC)
EVIL = "<script>alert(1)</script>"
EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "clicks.ipynb"


def windows() -> Result:
    starts = [NOON + dt.timedelta(minutes=n) for n in (1, 0, 1, 0)]
    return Result(
        pa.table({"window_start": starts, "page": ["a", "a", "b", "b"], "n": [2, 1, 20, 10], "emit_epoch": [0] * 4})
    )


def test_a_result_is_a_table_with_everything_escaped() -> None:
    html = Result(pa.table({EVIL: [1234567, None], "text": [EVIL, "x" * 300], "at": [NOON, None]}))._repr_html_()
    assert "<script" not in html and "&lt;script&gt;" in html
    assert "1,234,567" in html and "NULL" in html and "…" in html and "2025-01-31 12:00:00<" in html
    assert "2 rows" in html
    many = Result(pa.table({"n": list(range(200))}))._repr_html_()
    assert "200 rows, the first 50 shown" in many and many.count("<tr>") == 51


def test_streams_and_accounts_as_html() -> None:
    assert "no stream" in streams_html([], EVIL) and "<script" not in streams_html([], EVIL)
    accounts = {"rows_in": 5, "used": 4, "late": 1, "error": 0}
    assert "used <b>4</b> + late <b>1</b> ✓" in accounting_html(accounts) and "error" not in accounting_html(accounts)
    assert "off by 3" in accounting_html({**accounts, "rows_in": 8})


def test_a_plot_has_a_curve_for_each_group_in_order_of_time() -> None:
    pytest.importorskip("matplotlib", reason="plots need eventide[notebook]").use("Agg")
    axes = windows().plot()
    assert [line.get_label() for line in axes.lines] == ["b", "a"]
    assert [list(line.get_ydata()) for line in axes.lines] == [[10, 20], [1, 2]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("window_start", "n")
    several = Result(windows().arrow().append_column("m", [[1.0, 2.0, 3.0, 4.0]])).plot()
    assert [line.get_label() for line in several.lines] == ["n", "m"]


def test_what_cannot_be_plotted_is_said() -> None:
    pytest.importorskip("matplotlib", reason="plots need eventide[notebook]").use("Agg")
    with pytest.raises(OptionError, match="no column nn for y"):
        windows().plot(y="nn")
    with pytest.raises(OptionError, match="no column of times"):
        Result(pa.table({"n": [1]})).plot()
    with pytest.raises(OptionError, match="no column of numbers"):
        Result(pa.table({"at": [NOON], "t": ["a"]})).plot()


@pytest.fixture
def shell() -> Iterator[Any]:
    pytest.importorskip("IPython", reason="notebooks need eventide[notebook]")
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    yield InteractiveShell.instance(history_length=0)
    InteractiveShell.clear_instance()


def test_the_magic_wants_a_database(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_line_magic("load_ext", "eventide")
    shell.user_ns["other"] = 3
    assert shell.run_cell_magic("eventide", "other", "SHOW STREAMS") is None
    assert "other is a int, not a database" in capsys.readouterr().out
    assert shell.run_cell_magic("eventide", "not a name", "SHOW STREAMS") is None
    assert "takes the name of a variable" in capsys.readouterr().out


def test_the_example_notebook_runs(shell: Any, keep_spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="plots need eventide[notebook]").use("Agg")
    shown: dict[str, Any] = {}
    for cell in json.loads(EXAMPLE.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            done = shell.run_cell(source)
            assert done.success, (source, done.error_in_exec)
            shown[source] = done.result
    assert "Error" not in capsys.readouterr().out
    rows = shown['db.read("per_visitor")']
    assert len(rows) == 33 and "33 rows" in rows._repr_html_()
    assert [len(line.get_xdata()) for line in shell.user_ns["axes"].lines] == [11, 11, 11]
    (late,) = shown['db.side_output("per_visitor")']
    assert late["kind"] == "late"
    assert [row["name"] for row in shown["%eventide SHOW STREAMS"]] == ["per_visitor"]
    assert "33 rows" in shell.user_ns["watch"]._shown and "late <b>1</b> ✓" in shell.user_ns["watch"]._shown
