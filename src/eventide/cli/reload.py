"""`eventide run --reload`: notices that the file has changed, and whether the streams can go on under the new text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from eventide.cli.console import print_error
from eventide.cli.files import read_program, read_text
from eventide.errors import EventideError

if TYPE_CHECKING:
    from eventide.cli.files import Checked


class Reloading:
    """Looks at a file beside a run. A text that is wrong, or cannot go on, is told once; the run goes on as it was."""

    def __init__(self, file: Path, checkpoint: str | Path, allow_jvm_calls: bool, console: Console) -> None:
        self._file = file
        self._checkpoint = checkpoint
        self._allow_jvm_calls = allow_jvm_calls
        self._console = console
        self._known = read_text(file)

    def news(self) -> Checked | None:
        """The file's new text, if it has changed and the streams can go on under it from their state."""
        try:
            text = read_text(self._file)
        except (EventideError, OSError):
            return None  # an editor is at it
        if text == self._known:
            return None
        self._known = text
        try:
            program = read_program(self._file, self._allow_jvm_calls, self._checkpoint)
        except EventideError as error:
            print_error(self._console, error)
            self._say("the file is not right: the streams run on as before", "yellow")
            return None
        return program if self._can_go_on(program) else None

    def _can_go_on(self, program: Checked) -> bool:
        from eventide.cli.resume import findings

        found = findings(program, self._checkpoint)
        for finding in found:
            self._say(finding.text, "red" if finding.stops else "")
        if any(finding.stops for finding in found):
            self._say(
                "the streams run on as before; stop, and eventide migrate begins anew what cannot go on", "yellow"
            )
            return False
        self._say("the file has changed: the streams go on under its new text", "green")
        return True

    def _say(self, words: str, style: str) -> None:
        self._console.print(Text(words, style=style), soft_wrap=True)
