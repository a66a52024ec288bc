"""64-bit hashes of Arrow columns, the same on every machine and in every version, since they choose buckets in stored
state.

Values that Spark puts into one group (NULL and NULL, NaN and NaN, the two zeros) have the same hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.vector.columns import list_parts, normalised, whole

Hashes = npt.NDArray[np.uint64]
_LONG = 1024  # bytes


def mixed(values: Hashes) -> Hashes:
    """splitmix64's finalizer: every bit of the result depends on every bit of the value."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


_ALL_BITS = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
_NULL = np.uint64(0x6E756C6C)


def hash_rows(columns: Sequence[pa.Array], length: int, seed: int = 0) -> Hashes:
    """One hash per row over several columns; with no columns, all rows are equal."""
    total = np.full(length, seed, np.uint64)
    for values in columns:
        total = mixed(total * np.uint64(0x100000001B3) + hash_column(values))
    return total


def hash_column(values: pa.Array) -> Hashes:
    known = _hash_known(normalised(values))
    if not values.null_count:
        return known
    return np.where(values.is_null().to_numpy(zero_copy_only=False), _NULL, known)


def _hash_known(values: pa.Array) -> Hashes:
    kind = values.type
    if pa.types.is_struct(kind):
        return hash_rows([whole(pc.struct_field(values, n)) for n in range(kind.num_fields)], len(values), seed=1)
    if pa.types.is_nested(kind):
        offsets, items = list_parts(values)
        place = np.arange(len(items)) - np.repeat(offsets[:-1], np.diff(offsets))
        return mixed(_sums(mixed(hash_column(items) + place.astype(np.uint64)), offsets))
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.uint64)
    if pa.types.is_decimal(kind):
        values = values.cast(pa.string())
    if _is_text(values.type):
        return _hash_bytes(values.cast(pa.large_binary()))
    return mixed(_bits(values))


def _is_text(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(test(kind) for test in tests)


def _bits(values: pa.Array) -> Hashes:
    """Fixed-width values as 64-bit numbers."""
    if pa.types.is_floating(values.type):
        return np.asarray(values.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False)).view(np.uint64)
    if pa.types.is_date32(values.type) or pa.types.is_time32(values.type):
        values = values.cast(pa.int32())
    return np.asarray(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)).view(np.uint64)


def _hash_bytes(values: pa.LargeBinaryArray) -> Hashes:
    """Eight bytes at a time, all values in parallel; the few long ones separately."""
    offsets, data = _byte_parts(values)
    starts, lengths = offsets[:-1], np.diff(offsets)
    padded = np.concatenate((data, np.zeros(8, np.uint8)))
    words: Hashes = np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))  # the eight bytes that start at each byte
    hashes = mixed(lengths.astype(np.uint64))
    rows = np.flatnonzero((lengths > 0) & (lengths <= _LONG))
    for at in range(0, int(lengths[rows].max(initial=0)), 8):
        rows = rows if at == 0 else rows[lengths[rows] > at]
        left = np.minimum(lengths[rows] - at, 8).astype(np.uint64)
        word = words[starts[rows] + at] & (_ALL_BITS >> (np.uint64(64) - np.uint64(8) * left))
        hashes[rows] = mixed(hashes[rows] ^ word)
    for row in np.flatnonzero(lengths > _LONG):
        digest = hashlib.blake2b(data[offsets[row] : offsets[row + 1]].tobytes(), digest_size=8).digest()
        hashes[row] = int.from_bytes(digest, "little")
    return hashes


def _byte_parts(values: pa.LargeBinaryArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """(offsets from 0, bytes); the bytes of NULLs are included, harmlessly."""
    _, bounds, data = values.buffers()
    offsets = np.frombuffer(bounds, np.int64)[values.offset : values.offset + len(values) + 1]
    held = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]] if data is not None else np.empty(0, np.uint8)
    return offsets - offsets[0], held


def _sums(values: Hashes, offsets: npt.NDArray[np.int64]) -> Hashes:
    """The sum of each run of values, modulo 2 ** 64."""
    running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)))
    return running[offsets[1:]] - running[offsets[:-1]]
