"""Folders named `column=value`, as Hive and Spark write them: each says what a column is in all files below it.

`%3A` and the like stand for one character, `__HIVE_DEFAULT_PARTITION__` for NULL. Other texts mean what they would in
a field of a csv file. This module imports little: whoever plans a batch imports it.
"""

from __future__ import annotations

import re

NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")

Texts = dict[str, str | None]


def column_of(folder: str) -> str:
    """
    >>> column_of("a%20day=2026-01-01")
    'a day'
    """
    return _unescaped(folder.partition("=")[0])


def text_of(folder: str) -> str | None:
    """
    >>> text_of("at=12%3A30"), text_of("at=__HIVE_DEFAULT_PARTITION__")
    ('12:30', None)
    """
    text = folder.partition("=")[2]
    return None if text == NULL else _unescaped(text)


def texts_of(root: str, path: str) -> Texts:
    """What the folders between `root` and a file say, by column."""
    folders = path.removeprefix(root).strip("/").split("/")[:-1]
    return {column_of(folder): text_of(folder) for folder in folders if "=" in folder}


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
