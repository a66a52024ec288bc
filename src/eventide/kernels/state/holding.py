"""What a shard holds, apart from how it lies in its store: so that other shards can take it over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa

from eventide.kernels.contract import Store


@dataclass(frozen=True)
class Holding:
    """`rows` belong to the shard of their keys. The rest has no key and belongs to every shard: which window the
    watermark has closed last, which a flush, and the ids that were seen, by input. When a batch has ended no shard has
    a window open that is closed in another.
    """

    rows: pa.Table
    closed: int | None = None
    flushed: int | None = None
    ids: Mapping[int, pa.Table] = field(default_factory=dict)


@runtime_checkable
class MovableKernel(Protocol):
    """A kernel whose state can be cut into other shards."""

    def holding(self, store: Store) -> Holding:
        """All that the shard holds; the store may be written anew, and means the same."""
        ...

    def hold(self, holding: Holding, store: Store) -> None:
        """Begin an empty store with what other shards have held."""
        ...


def together(parts: Iterable[Holding]) -> Holding:
    """What several shards held, for one to hold. There is at least one."""
    parts = list(parts)
    inputs = sorted({number for part in parts for number in part.ids})
    return Holding(
        pa.concat_tables([part.rows for part in parts]),
        max((part.closed for part in parts if part.closed is not None), default=None),
        max((part.flushed for part in parts if part.flushed is not None), default=None),
        {number: pa.concat_tables([part.ids[number] for part in parts if number in part.ids]) for number in inputs},
    )
