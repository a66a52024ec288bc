"""What stands for a secret in an option, looked up when a connector opens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from eventide.errors import EnvironmentError
from eventide.secrets import PLACEHOLDER, masked


class Secrets:
    """The options with what their placeholders stand for; `hide` takes it out of a text again."""

    def __init__(self, what: str, options: Mapping[str, str]) -> None:
        self._what = what
        self._values: set[str] = set()
        self.options = {
            name: PLACEHOLDER.sub(lambda found: self._value(*found.groups()), text) for name, text in options.items()
        }

    def hide(self, text: str) -> str:
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, "***")
        return masked(text)

    def _value(self, kind: str, name: str) -> str:
        value = os.environ.get(name) if kind == "env" else self._content(name)
        if value is None:
            raise EnvironmentError(
                f"{self._what} needs the environment variable {name}, which is not set", help=f"export {name}=..."
            )
        if value:
            self._values.add(value)
        return value

    def _content(self, path: str) -> str:
        try:
            return Path(path).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise EnvironmentError(f"{self._what} needs the file {path}: {reason}", help="make it readable") from None
