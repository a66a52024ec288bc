"""How what shards hold is cut into another number of shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventide.kernels.intake import IntakeSpec
from eventide.kernels.state.holding import together
from eventide.kernels.state.memory_store import MemoryStore

Blob = tuple[str, int, bytes]  # space, bucket, content


class Sharding(Protocol):
    """As `packing.ShardBy`."""

    def shards_of(self, rows: pa.Table, shards: int, task: int) -> npt.NDArray[np.uint64] | int: ...


class Cutting(Protocol):
    """How the state of a stream with `before` shards is cut into `shards`."""

    @property
    def before(self) -> int: ...

    @property
    def shards(self) -> int: ...

    @property
    def cut_up(self) -> range:
        """The old shards whose state counts."""
        ...

    def cut(self, held: MemoryStore) -> Iterator[tuple[int, int, Any]]:
        """What becomes of an old shard: (new shard, how many rows it gets, what it gets)."""
        ...

    def put_together(self, parts: list[Any]) -> tuple[int, list[Blob]]:
        """What a new shard gets from the old ones: how many rows, counted where they are now, and its blobs."""
        ...


@dataclass(frozen=True)
class ByKey:
    """Rows of state go where rows with their keys go, by a kernel that can tell them apart."""

    spec: IntakeSpec
    shard_by: Sharding
    before: int
    shards: int

    @property
    def cut_up(self) -> range:
        return range(self.before)

    def cut(self, held: MemoryStore) -> Iterator[tuple[int, int, Any]]:
        holding = self.spec.build().holding(held)
        of_rows = np.zeros(0, np.uint64)
        if holding.rows.num_rows:
            found = self.shard_by.shards_of(holding.rows, self.shards, 0)
            of_rows = np.broadcast_to(np.asarray(found, np.uint64), holding.rows.num_rows)
        for shard in range(self.shards):
            rows = holding.rows.filter(pa.array(of_rows == shard))
            yield shard, rows.num_rows, replace(holding, rows=rows)

    def put_together(self, parts: list[Any]) -> tuple[int, list[Blob]]:
        kernel, store = self.spec.build(), MemoryStore()
        kernel.hold(together(parts), store)
        return kernel.holding(store).rows.num_rows, store.blobs()


@dataclass(frozen=True)
class AsAWhole:
    """Where all rows of a stream meet in the first shard it moves blob by blob; others have at most seen a flush."""

    before: int
    shards: int

    @property
    def cut_up(self) -> range:
        return range(1)

    def cut(self, held: MemoryStore) -> Iterator[tuple[int, int, Any]]:
        yield 0, len(held.blobs()), held.blobs()

    def put_together(self, parts: list[Any]) -> tuple[int, list[Blob]]:
        blobs = [blob for part in parts for blob in part]
        return len(blobs), blobs
