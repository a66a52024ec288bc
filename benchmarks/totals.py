"""A checksum of an engine's results, so that no engine is fast because it leaves work out."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Totals:
    """Result rows, and the sums over them of their counts, sums and maxima."""

    rows: int = 0
    counted: int = 0
    summed: float = 0  # exact: values are whole, or quarters
    highest: float = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.rows + other.rows,
            self.counted + other.counted,
            self.summed + other.summed,
            self.highest + other.highest,
        )


def totals_of(results: pa.Table) -> Totals:
    """Of result rows with columns n (count), t (sum) and m (maximum)."""
    return Totals(results.num_rows, *(pc.sum(results[name]).as_py() or 0 for name in ("n", "t", "m")))
