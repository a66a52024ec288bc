"""The one small blob of a join besides its rows: how many came, what a flush has closed, which windows are open."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from eventide.kernels.contract import Store
from eventide.kernels.state.codec import Codec
from eventide.kernels.vector.columns import Ints, ints

META = "meta"
_ARRIVED, _FLUSHED, _SLICE, _CLOSED, _LEFT, _RIGHT = range(6)
_SCHEMA = pa.schema([("what", pa.int8()), ("value", pa.int64())])


@dataclass
class Memory:
    arrived: int = 0  # rows so far: the number of the next one
    flushed: int | None = None  # the time up to which a flush has closed what had begun
    slices: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # of counted windows, with rows
    closed: int | None = None  # the last window that was counted as closed
    left: int = 0  # rows in logs that are not counted elsewhere
    right: int = 0
    changed: bool = False


class MemoryBlob:
    def __init__(self, fingerprint: str) -> None:
        self._codec = Codec(fingerprint, _SCHEMA)

    def load(self, store: Store) -> Memory:
        blobs = store.read(META, 0)
        if not blobs:
            return Memory()
        table = self._codec.decode(blobs[0])
        what, value = ints(table, "what"), ints(table, "value")
        known = {kind: int(value[what == kind][0]) for kind in np.unique(what).tolist()}
        return Memory(
            known[_ARRIVED], known.get(_FLUSHED), value[what == _SLICE], known.get(_CLOSED), known[_LEFT], known[_RIGHT]
        )

    def save(self, memory: Memory, is_needed: bool, store: Store) -> None:
        """Write it back if it changed; nothing is left where nothing is held and no flush is remembered."""
        if not is_needed and memory.flushed is None and not len(memory.slices):
            store.delete(META, 0)
        elif memory.changed:
            parts = {
                _ARRIVED: [memory.arrived],
                _FLUSHED: [] if memory.flushed is None else [memory.flushed],
                _SLICE: memory.slices.tolist(),
                _CLOSED: [] if memory.closed is None else [memory.closed],
                _LEFT: [memory.left],
                _RIGHT: [memory.right],
            }
            what = np.repeat(list(parts), [len(values) for values in parts.values()]).astype(np.int8)
            value = np.array([moment for values in parts.values() for moment in values], np.int64)
            table = pa.Table.from_arrays([pa.array(what), pa.array(value)], schema=_SCHEMA)
            store.replace(META, 0, self._codec.encode(table))
