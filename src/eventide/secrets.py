"""Passwords in texts: found, and hidden wherever a text is shown or kept.

An option names a secret instead of holding it: `${env:NAME}` or `${file:/path}`. What it stands for is looked up when a
connector opens, and stays in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

PLACEHOLDER = re.compile(r"\$\{(\w+):([^}]*)\}")
HELP = "write ${env:NAME} or ${file:/path} in its place: it is looked up when the connector opens, and kept nowhere"

# scheme://user:PASSWORD@host, also where it is malformed, and password=PASSWORD as libpq, urls and SQL have it. A
# password may hold a / or an @ itself; what is only digits in front of a / is a port. Everything has a length, so that
# a text of a million letters takes no longer than its length.
_URL = re.compile(
    r"(?<![\w+.-])[A-Za-z][A-Za-z0-9+.-]{0,40}://[^\s/:@'\"]{0,100}:(?!\d{1,5}(?:[/?]|$))([^\s'\"]{1,500})@"
)
_BARE = re.compile(r"(?<![\w+.-])[A-Za-z][\w.+-]{0,100}:([^\s'\"/@]{1,500})@")
_KEY = re.compile(
    r"(?i)(?:password|passwd|pwd|secret|token|secret_access_key|account_key)['\"]?\s{0,9}=\s{0,9}(\\?'(?:[^'\\]|\\.){1,500}'|[^\s&;'\",)]{1,500})"
)


def secret_places(text: str) -> Iterator[tuple[int, int]]:
    """Where secrets stand in clear; a text that is a placeholder is none."""
    for pattern in (_URL, _BARE, _KEY) if "@" in text else (_KEY,):
        for found in pattern.finditer(text):
            if not PLACEHOLDER.fullmatch(found[1].strip("\\'")):
                yield found.span(1)


def masked(text: str) -> str:
    """The text with `*` for every character of a secret, so that places in it stay what they are."""
    shown = list(text)
    for start, end in secret_places(text):
        shown[start:end] = "*" * (end - start)
    return "".join(shown)
