"""Where machine code is kept, and loading it ahead.

Compiling takes some seconds, once for each machine and version of the functions.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import os
from functools import lru_cache
from pathlib import Path

_SAMPLE = b'{"a":"\\n","b":["x"],"c":{"d":1.5},"e":"2026-01-31T12:00:00Z"}\n'
_COLUMNS = (("a", "string"), ("b", "array<string>"), ("c", "struct<d:double>"), ("e", "timestamp"))
_ENOUGH = 100  # values, so that it is worth calling compiled code


@lru_cache(maxsize=1)
def folder() -> Path:
    """One for every text of the functions: the compiler itself notices only changes in the file of a function, not in
    those that it calls.
    """
    texts = sorted(
        (file.name, file.read_bytes())
        for file in importlib.resources.files(__package__).iterdir()
        if file.name.endswith(".py")
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eventide"
    return cache / f"compiled-{hashlib.sha256(repr(texts).encode()).hexdigest()[:16]}"


def is_there() -> bool:
    """Whether it has been compiled on this machine."""
    try:
        return any(folder().rglob("*.nbi"))
    except (OSError, RuntimeError):  # no home
        return False


def load() -> None:
    """Have everything compiled, or loaded where that was done before, as the first call would."""
    import pyarrow as pa

    from eventide.tasks.iso_times import iso_times
    from eventide.tasks.json_columns import read_lines

    read_lines(_SAMPLE, _COLUMNS, frozenset(name for name, _ in _COLUMNS), None)
    iso_times(pa.array(["2026-01-31T12:00:00Z"] * _ENOUGH))


if __name__ == "__main__":
    load()
