"""The shell on a terminal, driven through a pseudo terminal of prompt_toolkit's own."""

from __future__ import annotations

import io
from pathlib import Path

from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from eventide.cli.prompt import ShellCompleter, interact
from eventide.cli.shell import Shell
from tests.cli.fake import FakeDatabase


def typed(keys: str, tmp_path: Path) -> FakeDatabase:
    db = FakeDatabase()
    shell = Shell(db, Console(file=io.StringIO()), Console(file=io.StringIO()))  # type: ignore[arg-type]
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(keys)
        interact(shell, tmp_path / "history")
    return db


def test_enter_makes_a_new_line_until_the_semicolon(tmp_path: Path) -> None:
    db = typed("SELECT 1,\r2;\r\x04", tmp_path)
    assert db.calls == [("execute", "SELECT 1,\n2")]


def test_control_c_drops_the_line_and_control_d_leaves(tmp_path: Path) -> None:
    db = typed("SELECT 1\x03CREATE B;\r\x04", tmp_path)
    assert db.calls == [("execute", "CREATE B")]


def test_q_leaves_and_history_is_kept(tmp_path: Path) -> None:
    typed("CREATE A;\r\\q\r", tmp_path)
    assert "CREATE A;" in (tmp_path / "history").read_text()


def test_history_is_private_and_holds_no_passwords(tmp_path: Path) -> None:
    history = tmp_path / "history"
    history.touch(mode=0o644)
    typed("CREATE SINK x WITH ('url' = 'postgresql://app:hunter2@db');\r\\q\r", tmp_path)
    assert history.stat().st_mode & 0o777 == 0o600
    assert "hunter2" not in history.read_text() and "postgresql://app:*******@db" in history.read_text()


def test_names_and_columns_of_sources_and_streams_are_completed() -> None:
    shell = Shell(FakeDatabase(), Console(file=io.StringIO()), Console(file=io.StringIO()))  # type: ignore[arg-type]
    completer = ShellCompleter(shell)

    def offered(text: str) -> list[str]:
        return [each.text for each in completer.get_completions(Document(text), CompleteEvent())]

    assert offered("SELECT vis") == ["visitor"] and "total" in offered("SELECT tot")
    assert {"per_user", "per_user$late"} <= set(offered("SELECT * FROM per_"))
