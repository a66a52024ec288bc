"""What a sink promises: a batch that it is given twice takes effect once."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Sink(Protocol):
    def write(self, batch: int, rows: pa.Table) -> None:
        """Write the rows of a batch, possibly none. After a crash the same batch may come again, with the same rows."""
        ...

    def close(self) -> None:
        """Release what is held open; no batch follows."""
        ...
