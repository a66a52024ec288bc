"""Prints rows to standard output as they come. A batch repeated after a crash is shown again."""

from __future__ import annotations

import pyarrow as pa

from eventide.result import Result


class ConsoleSink:
    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit

    def write(self, batch: int, rows: pa.Table) -> None:
        if rows.num_rows:
            print(f"{self._name}, batch {batch}\n{Result(rows).to_text(self._limit)}", flush=True)

    def close(self) -> None:
        pass
