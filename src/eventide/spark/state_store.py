"""A shard's `Store` in Spark's state store: one map of blobs, and one index value that says what the map holds.

The index is read once per call of the operator and written once if it changed, so that listing buckets, counting and
appending need no further round trip. Blobs go straight to Spark: state lives nowhere else.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from eventide.errors import CheckpointError

if TYPE_CHECKING:
    from eventide.spark.moved_state import Moved
    from eventide.spark.processor import States

_VERSION = 1
_ENTRY = np.dtype([("bucket", "<i8"), ("blobs", "<i4"), ("bytes", "<i8")])


class SparkStore:
    """Lives as long as a Python worker's task; `begin` and `end` enclose the calls for one shard."""

    def __init__(self, states: States, moved: Moved | None = None) -> None:
        self._index_state, self._blobs = states
        self._moved = moved
        self._taken_over: int | None = None  # the number of the move that it holds the outcome of
        self._index: dict[str, dict[int, tuple[int, int]]] = {}
        self._changed = False
        self.timer: int | None = None  # Spark's milliseconds of the one timer that is registered

    def begin(self, shard: int) -> None:
        """Load the index of the shard whose turn it is."""
        self._load()
        if self._moved is not None and self._taken_over != self._moved.batch:
            self._clear()
            for space, bucket, blob in self._moved.parcel(shard):
                self.append(space, bucket, blob)
            self._taken_over, self._changed = self._moved.batch, True

    def drop(self) -> int | None:
        """Forget all that a shard has held which is no more; returns its timer."""
        self._load()
        self._clear()
        self._index_state.clear()
        return self.timer

    def _load(self) -> None:
        value = self._index_state.get()
        self._index, self.timer, self._taken_over = ({}, None, None) if value is None else decode_index(bytes(value[0]))
        self._changed = False

    def _clear(self) -> None:
        for space in list(self._index):
            for bucket in self.buckets(space):
                self.delete(space, bucket)

    def set_timer(self, timer: int | None) -> None:
        self._changed = self._changed or timer != self.timer
        self.timer = timer

    def end(self) -> None:
        """Write the index back if anything changed."""
        if self._changed:
            self._index_state.update((encode_index(self._index, self.timer, self._taken_over),))

    def append(self, space: str, bucket: int, blob: bytes) -> int:
        count, size = self.size(space, bucket)
        self._blobs.updateValue((space, bucket, count), (blob,))
        self._remember(space, bucket, count + 1, size + len(blob))
        return count + 1

    def read(self, space: str, bucket: int) -> list[bytes]:
        count, _ = self.size(space, bucket)
        blobs = [self._blobs.getValue((space, bucket, number)) for number in range(count)]
        return [bytes(_present(blob, space, bucket)[0]) for blob in blobs]

    def replace(self, space: str, bucket: int, blob: bytes) -> None:
        count, _ = self.size(space, bucket)
        self._blobs.updateValue((space, bucket, 0), (blob,))
        for number in range(1, count):
            self._blobs.removeKey((space, bucket, number))
        self._remember(space, bucket, 1, len(blob))

    def delete(self, space: str, bucket: int) -> None:
        count, _ = self.size(space, bucket)
        for number in range(count):
            self._blobs.removeKey((space, bucket, number))
        if count:
            del self._index[space][bucket]
            self._changed = True

    def buckets(self, space: str) -> list[int]:
        return sorted(self._index.get(space, ()))

    def size(self, space: str, bucket: int) -> tuple[int, int]:
        return self._index.get(space, {}).get(bucket, (0, 0))

    def _remember(self, space: str, bucket: int, count: int, size: int) -> None:
        self._index.setdefault(space, {})[bucket] = (count, size)
        self._changed = True


def _present(value: tuple[Any, ...] | None, space: str, bucket: int) -> tuple[Any, ...]:
    if value is None:
        raise CheckpointError(
            f"the state is damaged: a blob of {space}/{bucket} is missing",
            help="restore the checkpoint from a copy, or start anew with an empty checkpoint folder",
        )
    return value


def encode_index(
    index: dict[str, dict[int, tuple[int, int]]], timer: int | None, taken_over: int | None = None
) -> bytes:
    """Version byte, header (JSON: timer, spaces and their lengths, the move that the shard has taken over if there was
    one), then the entries of each space, by bucket.
    """
    spaces = [(space, sorted(entries.items())) for space, entries in sorted(index.items()) if entries]
    told = {"timer": timer, "spaces": [[space, len(entries)] for space, entries in spaces]}
    header = json.dumps(told if taken_over is None else {**told, "moved": taken_over}).encode()
    arrays = [np.array([(bucket, *size) for bucket, size in entries], _ENTRY).tobytes() for _, entries in spaces]
    return struct.pack("<BI", _VERSION, len(header)) + header + b"".join(arrays)


def decode_index(value: bytes) -> tuple[dict[str, dict[int, tuple[int, int]]], int | None, int | None]:
    version, length = struct.unpack_from("<BI", value)
    if version != _VERSION:
        raise CheckpointError(f"the state was written in format {version}, this Eventide reads format {_VERSION}")
    header = json.loads(value[5 : 5 + length])
    index: dict[str, dict[int, tuple[int, int]]] = {}
    at = 5 + length
    for space, count in header["spaces"]:
        entries = np.frombuffer(value, _ENTRY, count, at).tolist()
        index[space] = {bucket: (blobs, size) for bucket, blobs, size in entries}
        at += count * _ENTRY.itemsize
    return index, header["timer"], header.get("moved")
