"""The tables of an app file. A key that is unknown or has a value of the wrong type is an error that names its path."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from eventide.connectors.declaration import Family
from eventide.errors import OptionError, suggest
from eventide.sql.fragments import Literal


class Section:
    """One table. Dotted keys and nested tables are equivalent; `whole` are keys whose value is itself a table.

    Keys are case-insensitive. `known` lists all of them, `aliases` other spellings of some; those of `family` are
    handed on, whatever they are.
    """

    def __init__(
        self,
        path: str,
        values: Any,
        known: Iterable[str],
        whole: Iterable[str] = (),
        aliases: Mapping[str, str] | None = None,
        family: Family | None = None,
    ) -> None:
        if not isinstance(values, dict):
            raise OptionError(f"{path} must be a table, not {values!r}", help=f"write [{path}] and its keys below")
        self.path = path
        self._values: dict[str, Any] = {}
        self._written: dict[str, str] = {}  # canonical key: as the user wrote it
        self._handed_on: set[str] = set()
        spellings = {key.lower(): key for key in known} | {key.lower(): key for key in aliases or {}}
        for written, value in _flat(values, {key.lower() for key in whole}):
            if family is not None and family.has(written.lower()):
                spellings[written.lower()] = written.lower()
                self._handed_on.add(written.lower())
            if written.lower() not in spellings:
                raise OptionError(f"{path}.{written}: there is no such key", help=suggest(written, spellings.values()))
            key = spellings[written.lower()]
            key = (aliases or {}).get(key, key)
            if key in self._values:
                raise OptionError(f"{path}.{written}: the same as {path}.{self._written[key]}", help="keep one of them")
            self._values[key], self._written[key] = value, written

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def literals(self, keys: Collection[str]) -> dict[str, Literal]:
        """The values of those `keys` that are set, and of all that is handed on, as SQL takes them."""
        return {
            key: Literal(self.place(key), self.text(key) or "")
            for key in self._values
            if key in keys or key in self._handed_on
        }

    def place(self, key: str) -> str:
        """The path of a key as the user wrote it."""
        return f"{self.path}.{self._written.get(key, key)}"

    def value(self, key: str) -> Any:
        return self._values.get(key)

    def text(self, key: str) -> str | None:
        """A text; a number or a boolean is converted to text."""
        value = self._values.get(key)
        return None if value is None else scalar(self.place(key), value)

    def required(self, key: str, help: str) -> str:
        value = self.text(key)
        if not value:
            raise OptionError(f"{self.path} has no {key}", help=help)
        return value

    def count(self, key: str) -> int | None:
        value = self._values.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise OptionError(
                f"{self.place(key)} must be a whole number above 0, not {value!r}", help=f"write {key} = 4"
            )
        return value

    def flag(self, key: str) -> bool | None:
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            raise OptionError(f"{self.place(key)} must be true or false, not {value!r}", help=f"write {key} = true")
        return value

    def texts(self, key: str) -> list[str]:
        """One text or a list of them."""
        value = self._values.get(key)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        return [scalar(self.place(key), item) for item in listed]

    def table(self, key: str) -> dict[str, Any]:
        value = self._values.get(key, {})
        if not isinstance(value, dict):
            raise OptionError(
                f"{self.place(key)} must be a table, not {value!r}",
                help=f"write [{self.path}.{key}] and its keys below",
            )
        return value


def scalar(path: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise OptionError(f"{path} must be text, not {value!r}", help="write it in quotes")


def _flat(values: Mapping[str, Any], whole: set[str], before: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in values.items():
        path = f"{before}{key}"
        if isinstance(value, dict) and path.lower() not in whole:
            yield from _flat(value, whole, f"{path}.")
        else:
            yield path, value
