"""Where SQL statements end, so that a shell knows when to run what was typed."""

from __future__ import annotations

import re

# What may hide a semicolon. The named groups that begin with open_ match an unfinished quote or comment.
_TOKEN = re.compile(
    r"""
      (?P<line>--[^\n]*)
    | (?P<block>/\*.*?(?:\*/|(?P<open_block>\Z)))
    | '(?:[^'\\]|\\.|'')*(?:'|(?P<open_single>\Z))
    | "(?:[^"\\]|\\.|"")*(?:"|(?P<open_double>\Z))
    | `[^`]*(?:`|(?P<open_back>\Z))
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)


def split_statements(text: str) -> tuple[list[str], str]:
    """The complete statements of `text`, without their semicolons, and what follows the last one.

    >>> split_statements("SHOW SOURCES; SELECT ';'; SELECT")
    (['SHOW SOURCES', "SELECT ';'"], 'SELECT')
    """
    statements = []
    start = 0
    for token in _TOKEN.finditer(text):
        if token["end"]:
            statement = text[start : token.start()].strip()
            if not is_blank(statement):
                statements.append(statement)
            start = token.end()
    return statements, text[start:].strip()


def is_blank(text: str) -> bool:
    """Whether `text` is nothing but white space and comments."""
    return not _TOKEN.sub(lambda token: "" if token["line"] or token["block"] else "x", text).strip()
