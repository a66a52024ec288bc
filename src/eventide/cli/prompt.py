"""The shell on a terminal: history, completion, colours, and statements that span lines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from eventide.cli.shell import Quit, Shell
from eventide.cli.statement_text import is_blank, split_statements
from eventide.secrets import masked

HISTORY = Path("~/.eventide_history")
KEYWORDS = re.findall(
    r"\w+",
    """ CREATE OR REPLACE SOURCE STREAM SINK IF NOT EXISTS WITH EVENT TIME TYPE WATERMARK FOR AS INTERVAL SECOND MINUTE
    HOUR DAY DEDUPLICATE BY WITHIN SELECT DISTINCT FROM WHERE GROUP HAVING ORDER UNION ALL TUMBLE HOP SESSION EMIT ON
    WINDOW CLOSE UPDATE EVERY CHANGES FINAL ALLOW LATENESS LATE DATA TO SHOW SOURCES STREAMS SINKS DESCRIBE EXPLAIN DROP
    window_start window_end window_id emit_epoch count sum min max avg STRING BIGINT INT DOUBLE BOOLEAN TIMESTAMP
    DECIMAL
    """,
)


def is_finished(text: str) -> bool:
    """Whether Enter should run `text` instead of starting a new line.

    >>> is_finished("SELECT 1"), is_finished("SELECT 1;"), is_finished("SELECT ';")
    (False, True, False)
    >>> is_finished("\\\\d"), is_finished("")
    (True, True)
    """
    return text.lstrip().startswith("\\") or is_blank(split_statements(text)[1])


class ShellCompleter(Completer):
    """Commands after a backslash; otherwise keywords, in the case being typed, and names from the catalog."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        if document.text.lstrip().startswith("\\") and " " not in document.text.strip():
            typed = document.text.lstrip()
            for name, command in self._shell.commands.items():
                if name.startswith(typed):
                    yield Completion(name, -len(typed), display=command.usage, display_meta=command.help)
            return
        word = document.get_word_before_cursor()
        if not word:
            return
        for name in self._shell.names():
            if name.startswith(word):
                yield Completion(name, -len(word), display_meta="name")
        for keyword in KEYWORDS:
            if keyword.lower().startswith(word.lower()):
                yield Completion(keyword if word[0].isupper() or keyword.islower() else keyword.lower(), -len(word))


def key_bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter", filter=~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_finished(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


class PrivateHistory(FileHistory):
    """What was typed, for its owner only and without passwords."""

    def __init__(self, file: Path) -> None:
        file.touch(mode=0o600)
        file.chmod(0o600)
        super().__init__(str(file))

    def store_string(self, string: str) -> None:
        super().store_string(masked(string))


def interact(shell: Shell, history: Path = HISTORY) -> None:
    """Until \\q or Ctrl-D. Ctrl-C drops what was typed."""
    session: PromptSession[str] = PromptSession(
        "eventide> ",
        multiline=True,
        prompt_continuation=lambda width, line, soft: " " * (width - 4) + "... ",
        history=PrivateHistory(history.expanduser()),
        auto_suggest=AutoSuggestFromHistory(),
        completer=ShellCompleter(shell),
        complete_while_typing=True,
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=key_bindings(),
    )
    while True:
        try:
            shell.feed(session.prompt())
        except KeyboardInterrupt:
            continue
        except (EOFError, Quit):
            return
