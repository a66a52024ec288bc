"""Which key has most of the rows of a shard: a look at some of them, which costs next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import KEY
from eventide.kernels.vector.columns import column, normalised
from eventide.kernels.vector.hashing import hash_rows

MANY = 1_000  # rows of a batch in one shard from which a look is worth it, and how many are looked at
_MOST = 0.5  # the share from which one key counts as the busiest
_LONGEST = 60  # characters of a value


def busiest_key(tables: Sequence[pa.Table]) -> dict[str, Any] | None:
    """The values of the key that has at least half of the rows, as texts, and its share; None if no key has."""
    rows = max(tables, key=lambda table: table.num_rows)
    names = [name for name in rows.column_names if name.startswith(KEY)]
    if not names:
        return None
    places = np.linspace(0, rows.num_rows - 1, min(MANY, rows.num_rows)).astype(np.int64)
    some = rows.select(names).take(pa.array(places))
    hashes = hash_rows([normalised(column(some, name)) for name in names], some.num_rows)
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    top = int(np.argmax(counts))
    share = float(counts[top]) / some.num_rows
    if share < _MOST:
        return None
    values = [some[name][int(first[top])].as_py() for name in names]
    return {"key": [_shown(value) for value in values], "share": round(share, 3)}


def _shown(value: object) -> str:
    text = "NULL" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
