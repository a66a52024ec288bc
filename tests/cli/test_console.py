from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta, timezone

import pytest
from rich.console import Console

from eventide.cli.console import accounting_line, duration, plan_line, print_error, print_rows, result_table, when
from eventide.cli.progress import ProgressView, progress_line
from eventide.errors import EngineError, SqlError
from tests.cli.fake import FakeDatabase


def plain(width: int = 100) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, width=width, highlight=False), out


def test_accounts_that_balance_are_ticked_off() -> None:
    line = accounting_line({"rows_in": 60_000, "used": 58_912, "late": 1_012, "error": 76, "duplicate": 0})
    assert line.plain == "rows in 60,000 = used 58,912 + late 1,012 + error 76 ✓"


def test_accounts_that_do_not_balance_say_by_how_much() -> None:
    assert accounting_line({"rows_in": 10, "used": 8, "late": 1}).plain == "rows in 10 = used 8 + late 1 ✗ off by 1"


def test_accounts_of_nothing_balance() -> None:
    assert accounting_line({}).plain == "rows in 0 = used 0 ✓"


def test_times_are_utc_and_have_a_fraction_only_if_they_need_one() -> None:
    assert when(datetime(2026, 1, 31, 12, tzinfo=UTC)) == "2026-01-31 12:00:00"
    assert when(datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC)) == "2026-01-31 12:00:00.25"
    assert when(datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))) == "2026-01-31 10:00:00"
    assert when(None) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.04, "0.0 s"),
        (3.21, "3.2 s"),
        (65, "1 min 05 s"),
        (7800, "2 h 10 min"),
        (90_000 * 5, "5 d 5 h"),
        (-2, "-2.0 s"),
    ],
)
def test_durations_have_the_digits_that_matter(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_the_carets_of_a_sql_error_stay_below_the_sql_on_a_narrow_terminal() -> None:
    console, out = plain(width=20)
    sql = "SELECT " + "a, " * 30 + "wrong FROM s"
    print_error(
        console,
        SqlError("no column wrong", sql=sql, start=sql.index("wrong"), end=sql.index("wrong") + 5, help="write a"),
    )
    message, line, carets, hint = out.getvalue().splitlines()
    assert message == "error: no column wrong"
    assert line.index("wrong") == carets.index("^^^^^")
    assert hint == "  help: write a"


def test_a_bug_in_eventide_is_called_internal() -> None:
    console, out = plain()
    print_error(console, EngineError("accounts do not balance"))
    assert out.getvalue() == "internal error: accounts do not balance\n"


def test_rows_are_a_table_with_numbers_to_the_right_and_brackets_left_alone() -> None:
    console, out = plain()
    print_rows(
        console, ["name", "n"], [{"name": "[red]x", "n": 1}, {"name": None, "n": 100}, {"name": "z", "n": 3}], limit=2
    )
    text = out.getvalue()
    assert "[red]x" in text and "NULL" in text and "│   1 │" in text and "│ 100 │" in text
    assert "3 rows, the first 2 shown" in text and " z " not in text


def test_progress_in_a_log_is_one_line_per_stream() -> None:
    assert progress_line(FakeDatabase().progress()[0]) == (
        "per_user: 60,000 rows in, 3,000 rows/s, watermark 2026-01-31 12:00:05.25 (lag 1 min 05 s), "
        "12 open windows, 1,012 late, 76 errors, 7 batches"
    )


def test_progress_in_a_log_is_not_repeated_when_nothing_changes() -> None:
    console, out = plain()
    with ProgressView(console, FakeDatabase().progress, plain_every=0.0) as view:
        view.update()
        view.update()
    assert out.getvalue().count("per_user:") == 1


def test_progress_on_a_terminal_is_a_table() -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True, color_system=None, legacy_windows=False)
    with ProgressView(console, FakeDatabase().progress) as view:
        view.update()
    assert "open windows" in out.getvalue() and "12:00:05.25" in out.getvalue() and "60,000" in out.getvalue()


def test_explain_show_and_describe_are_in_colour() -> None:
    line = plan_line("│     emit: on window close")
    assert line.plain == "│     emit: on window close" and [span.style for span in line.spans] == ["dim", "dim"]
    stage = plan_line("└─ Window tumble size 10s")
    assert stage.plain == "└─ Window tumble size 10s" and "bold cyan" in [span.style for span in stage.spans]
    described = result_table(["column", "type", "role"], [{"column": "ts", "type": "bigint", "role": ""}])
    assert [column.style for column in described.columns] == ["cyan", "green", ""]
    plain = result_table(["n", "type"], [{"n": 1, "type": "a"}])  # a result that happens to have such a column
    assert [column.style for column in plain.columns] == ["", ""]
