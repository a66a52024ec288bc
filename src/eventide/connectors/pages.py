"""Tables of options in Markdown, made from declarations: `python -m eventide.connectors.pages docs/connectors/*.md`.

A page has a place for each table, between two comments; what stands there is replaced:

    <!-- options: kafka source -->
    <!-- end of options -->
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from eventide.connectors.declaration import LooksUp, Option, Reads, Writes
from eventide.connectors.registry import connector
from eventide.errors import OptionError

_PLACE = re.compile(
    r"(<!-- options: (?P<name>\w+) (?P<role>source|sink|table) -->\n).*?(<!-- end of options -->)", re.DOTALL
)
_VALUES = {
    "character": "one character",
    "duration": "a duration",
    "span": "a duration",
    "count": "a whole number",
    "flag": "`true` or `false`",
    "position": "a position",
    "size": "a size",
}


def with_tables(page: str) -> str:
    """The page with every table of options as it should be."""

    def table(place: re.Match[str]) -> str:
        role = connector(place["name"]).role(place["role"])
        if role is None:
            raise OptionError(f"the connector {place['name']} is no {place['role']}")
        return f"{place[1]}{option_table(role)}{place[4]}"

    return _PLACE.sub(table, page)


def option_table(role: Reads | Writes | LooksUp) -> str:
    """What can be said in WITH (…), an option a line."""
    lines = ["| option | value | |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {_value(role, name, option)} | {_meaning(option)} |" for name, option in role.options.items()
    ]
    if role.family is not None:
        lines.append(f"| `{role.family.prefix}…` | | {role.family.doc} |")
    return "".join(f"{line}\n" for line in lines)


def _value(role: Reads | Writes | LooksUp, name: str, option: Option) -> str:
    kind = ", ".join(f"`{choice}`" for choice in option.choices) or _VALUES.get(option.kind, "")
    if option.is_required:
        return f"{kind}; required" if kind else "required"
    if name in role.one_of:
        return "one of " + ", ".join(f"`{each}`" for each in role.one_of)
    default = "" if option.default is None else f"default `{option.default}`"
    return "; ".join(filter(None, (kind, default)))


def _meaning(option: Option) -> str:
    only = f"for {option.only_format}: " if option.only_format is not None else ""
    return (only + option.doc).replace("|", "\\|")


def main(paths: list[str]) -> None:
    for path in map(Path, paths):
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
