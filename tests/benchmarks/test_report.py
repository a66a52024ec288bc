"""Tables, the file of results, and the block in the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bars import ROCKSDB_STATE, Verdict
from benchmarks.figures import CPU, SPEED, Results
from benchmarks.report import BEGIN, END, Report, as_markdown, as_text, figure_rows, summary_rows, verdict_rows

RESULTS: Results = {
    "json": {
        "eventide": [
            {SPEED.key: 2000.0, CPU.key: 1.0},
            {SPEED.key: 3000.0, CPU.key: 2.0},
            {SPEED.key: 4000.0, CPU.key: 3.0},
        ],
        ROCKSDB_STATE: [{SPEED.key: 1500.0, CPU.key: 6.0}],
    }
}
VERDICTS = [Verdict("speed", 2.0, ">= 2x", True), Verdict("CPU", None, ">= 2x", False)]
ENVIRONMENT = {"date": "2025-01-31", "cores": 2}


def test_a_figure_has_a_row_per_engine_with_its_spread_and_our_advantage() -> None:
    assert figure_rows(RESULTS, SPEED)[1:] == [
        ["json", "eventide", "3,000", "2,000 .. 4,000", ""],
        ["", ROCKSDB_STATE, "1,500", "1,500 .. 1,500", "2.00x"],
    ]


def test_the_summary_has_a_row_per_workload() -> None:
    assert summary_rows(RESULTS)[1:] == [["json", "3,000", "2.00x", "", "2.00", "3.00x", ""]]


def test_a_verdict_shows_what_was_found_beside_its_bar() -> None:
    nobody_asked = Verdict("Flink", None, ">= 3x", False, is_asked=False)
    assert verdict_rows([nobody_asked])[1:] == [["Flink", "not measured", ">= 3x", "not asked for"]]
    assert verdict_rows(VERDICTS)[1:] == [["speed", "2.00", ">= 2x", "met"], ["CPU", "not measured", ">= 2x", "MISSED"]]


def test_text_has_words_to_the_left_and_figures_to_the_right() -> None:
    assert as_text([["what", "n"], ["a", "1"], ["bcdef", "1,000"]]).splitlines() == [
        "what       n",
        "a          1",
        "bcdef  1,000",
    ]


def test_markdown_has_a_line_under_its_head() -> None:
    assert as_markdown([["a", "b"], ["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_a_saved_report_comes_back_the_same(tmp_path: Path) -> None:
    report = Report(RESULTS, VERDICTS, ["hopping: it broke"], ENVIRONMENT)
    report.save(tmp_path / "new" / "results.json")
    assert Report.load(tmp_path / "new" / "results.json") == report


def test_only_the_generated_block_of_the_page_changes(tmp_path: Path) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    Report(RESULTS, VERDICTS, (), ENVIRONMENT).write_docs(page)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n\nMeasured with: date 2025-01-31, cores 2.\n\n### The bar\n")
    assert text.endswith(f"\n\n{END}\nafter\n")
    assert "| json | eventide | 3,000 |" in text
    assert "old" not in text


def test_the_page_of_the_project_has_the_block() -> None:
    page = Path(__file__).parents[2] / "docs" / "performance.md"
    assert page.read_text().count(BEGIN) == page.read_text().count(END) == 1


def test_a_plot_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.plot import draw

    draw(RESULTS, tmp_path / "results.png")
    assert (tmp_path / "results.png").read_bytes().startswith(b"\x89PNG")
