"""How late admitted rows were, as counts by size: small enough for every account, and fine enough for a percentile.

A size is a power of 2^(1/8) milliseconds, so that a percentile is right to about 5 %. Older batches count for less.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

_PREFIX = "lag#"
_STEPS = 8  # sizes from a value to its double
_SAMPLE = 4096  # rows of a shard's batch that are looked at
_MEMORY = 0.8  # weight of a batch against the next
_LEAST = 0.5  # rows below which a count is forgotten


def sample(admitted: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.int64], int]:
    """Places of admitted rows that are looked at, and how many each of them stands for."""
    count = int(np.count_nonzero(admitted))
    step = -(-count // _SAMPLE) or 1
    return np.arange(0, count, step) if count == len(admitted) else np.flatnonzero(admitted)[::step], step


def lag_counts(lags: npt.NDArray[np.int64], each: int = 1) -> dict[str, float]:
    """`lags` in microseconds, those below zero counting as none; each stands for so many rows."""
    sizes = np.round(_STEPS * np.log2(1 + np.maximum(lags, 0) / 1000)).astype(np.int64)
    found, counts = np.unique(sizes, return_counts=True)
    return {
        f"{_PREFIX}{size}": float(count * each) for size, count in zip(found.tolist(), counts.tolist(), strict=True)
    }


def aged(figures: Mapping[str, float]) -> dict[str, float]:
    """Figures of a source before a new batch is added: lags of the past count for less, all else stays."""
    kept = {name: value * _MEMORY if name.startswith(_PREFIX) else value for name, value in figures.items()}
    return {name: value for name, value in kept.items() if not name.startswith(_PREFIX) or value >= _LEAST}


def percentiles(figures: Mapping[str, float]) -> dict[str, float]:
    """`lag_p50_ms` and `lag_p99_ms`; none where no row was admitted of late.

    >>> percentiles({"lag#0": 98.0, "lag#80": 2.0})
    {'lag_p50_ms': 0.0, 'lag_p99_ms': 1023.0}
    """
    counts = sorted((int(name.removeprefix(_PREFIX)), value) for name, value in figures.items() if is_lag(name))
    total = sum(value for _, value in counts)
    return {f"lag_p{share}_ms": _quantile(counts, total * share / 100) for share in (50, 99)} if counts else {}


def is_lag(name: str) -> bool:
    return name.startswith(_PREFIX)


def _quantile(counts: list[tuple[int, float]], rank: float) -> float:
    passed = 0.0
    for size, count in counts:
        passed += count
        if passed >= rank:
            return round(2 ** (size / _STEPS) - 1, 1)
    return round(2 ** (counts[-1][0] / _STEPS) - 1, 1)
