"""How many examples a property gets: some in `make test`, always the same, and many in `make test-slow`."""

from __future__ import annotations

import os


def examples(some: int, many: int) -> int:
    return many if os.environ.get("NEW_EXAMPLES") else some
