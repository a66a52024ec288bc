"""Numbers that look random and are a function of seed, event number and purpose: the same on every machine, in whatever
pieces the events are made.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_LETTER_OF_BYTE = bytes(ord("a") + byte % 26 for byte in range(256))


class Noise:
    """`purpose` keeps the columns of an event independent of each other."""

    def __init__(self, seed: int) -> None:
        self._start = np.uint64(seed * 0x9E3779B97F4A7C15 % (1 << 64))

    def words(self, numbers: Numbers, purpose: str) -> Words:
        salt = np.uint64(zlib.crc32(purpose.encode()))
        return _mixed(_mixed(numbers.astype(np.uint64) + self._start) ^ salt)

    def below(self, limit: Numbers | int, numbers: Numbers, purpose: str) -> Numbers:
        """A whole number from 0 to limit - 1."""
        return (self.words(numbers, purpose) % np.asarray(limit).astype(np.uint64)).astype(np.int64)

    def fraction(self, numbers: Numbers, purpose: str) -> npt.NDArray[np.float64]:
        """From 0 to 1, 1 excluded."""
        return (self.words(numbers, purpose) >> np.uint64(11)).astype(np.float64) / (1 << 53)

    def text(self, shortest: int, longest: int, numbers: Numbers, purpose: str) -> pa.Array:
        """Small letters, between `shortest` and `longest` of them."""
        lengths = shortest + self.below(longest - shortest + 1, numbers, f"{purpose} length")
        words = [self.words(numbers, f"{purpose} {at}") for at in range(0, longest, 8)]
        letters = np.frombuffer(np.stack(words, axis=1).tobytes().translate(_LETTER_OF_BYTE), np.uint8)
        letters = letters.reshape(len(numbers), -1)
        letters = letters[np.arange(letters.shape[1]) < lengths[:, None]]
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(ends), pa.py_buffer(letters))


def _mixed(words: Words) -> Words:
    """The finalizer of MurmurHash3: every bit of the input has an influence on every bit of the output."""
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))
