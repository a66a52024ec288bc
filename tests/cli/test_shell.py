from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from eventide.cli.shell import Quit, Shell
from tests.cli.fake import FakeDatabase


class Session:
    def __init__(self) -> None:
        self.db = FakeDatabase()
        self.out, self.err = io.StringIO(), io.StringIO()
        self.shell = Shell(self.db, Console(file=self.out, width=120), Console(file=self.err, width=120))  # type: ignore[arg-type]

    def feed(self, text: str) -> str:
        """What `text` prints on standard output."""
        before = len(self.out.getvalue())
        self.shell.feed(text)
        return self.out.getvalue()[before:]


@pytest.fixture
def session() -> Session:
    return Session()


def test_a_statement_waits_for_its_semicolon(session: Session) -> None:
    assert session.feed("SHOW\nSOURCES") == ""
    assert session.db.calls == []
    assert "clicks" in session.feed(";")
    assert session.db.calls == [("execute", "SHOW\nSOURCES")]


def test_several_statements_on_a_line_run_one_by_one(session: Session) -> None:
    assert session.feed("CREATE A; CREATE B; SHOW") == "A created\nB created\n"
    assert session.db.calls == [("execute", "CREATE A"), ("execute", "CREATE B")]


def test_an_error_is_shown_and_the_shell_continues(session: Session) -> None:
    session.feed("SELECT BAD; CREATE B;")
    assert session.err.getvalue().splitlines() == [
        "error: what is BAD?",
        "  1 | SELECT BAD",
        "             ^^^",
        "  help: write GOOD",
    ]
    assert session.shell.failures == 1
    assert session.db.calls[-1] == ("execute", "CREATE B")


def test_the_last_statement_of_a_pipe_needs_no_semicolon(session: Session) -> None:
    session.feed("CREATE A -- done\n-- really")
    session.shell.finish()
    assert session.db.calls == [("execute", "CREATE A -- done\n-- really")]


def test_a_comment_at_the_end_of_a_pipe_is_not_a_statement(session: Session) -> None:
    session.feed("CREATE A;\n-- bye\n")
    session.shell.finish()
    assert session.db.calls == [("execute", "CREATE A")]


def test_a_backslash_inside_a_statement_is_not_a_command(session: Session) -> None:
    session.feed("SELECT\n\\q\n;")
    assert session.db.calls == [("execute", "SELECT\n\\q")]


def test_q_leaves(session: Session) -> None:
    with pytest.raises(Quit):
        session.feed("\\q")


def test_an_unknown_command_names_the_known_ones(session: Session) -> None:
    session.feed("\\tik")
    assert "did you mean \\tick?" in session.err.getvalue()


def test_help_lists_every_command(session: Session) -> None:
    text = session.feed("\\?")
    assert all(command.usage in text for command in session.shell.commands.values())


def test_d_shows_all_or_describes_one(session: Session) -> None:
    session.feed("\\d")
    session.feed("\\d clicks")
    assert [call[1] for call in session.db.calls] == ["SHOW SOURCES", "SHOW STREAMS", "SHOW SINKS", "DESCRIBE clicks"]


def test_write_takes_a_json_row_or_a_list_of_them(session: Session) -> None:
    session.feed('\\write clicks {"user": "ann smith", "ts": 1}')
    session.feed('\\write clicks [{"ts": 1}, {"ts": 2}]')
    assert session.db.calls == [
        ("write", "clicks", [{"user": "ann smith", "ts": 1}]),
        ("write", "clicks", [{"ts": 1}, {"ts": 2}]),
    ]


def test_write_of_something_else_is_an_error(session: Session) -> None:
    session.feed("\\write clicks user=ann")
    session.feed("\\write clicks")
    assert "not JSON" in session.err.getvalue() and "usage: \\write SOURCE JSON" in session.err.getvalue()
    assert session.db.calls == []


def test_advance_takes_milliseconds_or_a_time(session: Session) -> None:
    session.feed("\\advance clicks 1000")
    session.feed("\\advance clicks 2026-01-31T12:00:00Z")
    session.feed("\\advance clicks soon")
    assert session.db.calls == [
        ("advance", "clicks", 1000),
        ("advance", "clicks", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ]
    assert "not a time: soon" in session.err.getvalue()


def test_read_side_and_accounts_show_what_a_stream_emitted(session: Session) -> None:
    assert "2026-01-31 12:00:00" in session.feed("\\read per_user") and "2 rows" in session.out.getvalue()
    assert "the first 1 shown" in session.feed("\\read per_user 1")
    assert session.feed("\\side per_user error").split() == ["kind", "error", "reason", "allowed_lateness_exceeded"]
    assert "late 1,012 + error 76 ✓" in session.feed("\\accounts per_user")


def test_tick_processes_and_shows_progress(session: Session) -> None:
    assert "per_user" in session.feed("\\tick")
    assert session.db.calls == [("tick",)]


def test_timing_can_be_switched_on_and_off(session: Session) -> None:
    session.feed("\\timing")
    assert "time: " in session.feed("CREATE A;")
    session.feed("\\timing")
    assert "time: " not in session.feed("CREATE A;")


def test_a_file_can_be_included(session: Session, tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "app.sql"
    file.write_text("CREATE A; CREATE B\n")
    session.feed(f"\\i {file}")
    session.feed("\\i nowhere.sql")
    assert session.db.calls == [("execute", "CREATE A"), ("execute", "CREATE B")]
    assert "no such file: nowhere.sql" in session.err.getvalue()


def test_completion_offers_commands_names_and_keywords(session: Session) -> None:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from eventide.cli.prompt import ShellCompleter

    def offered(text: str) -> list[str]:
        return [found.text for found in ShellCompleter(session.shell).get_completions(Document(text), CompleteEvent())]

    assert offered("\\ti") == ["\\tick", "\\timing"]
    assert offered("SELECT vis") == ["visitor"]
    assert offered("cre") == ["create"] and offered("CRE") == ["CREATE"]
    assert offered("SELECT ") == []
