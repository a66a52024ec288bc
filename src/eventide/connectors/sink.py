"""What a sink promises: to be given a batch twice and to show it once."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Sink(Protocol):
    def write(self, batch: int, rows: pa.Table) -> None:
        """Take the rows of a batch, possibly none. After a crash the same batch comes again, with the same rows."""
        ...

    def close(self) -> None:
        """Let go of what is held open; no batch follows."""
        ...
