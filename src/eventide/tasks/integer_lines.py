"""JSON lines that differ only in their integers: values between words that are always the same.

Machines often write such lines, and they take a third of a JSON parser's time: all lines are walked through at once, a
word, then digits, eight at a time, then the next word. This also proves, rather than assumes, that all lines have the
layout of the first: the first is an object of integers, every line consists of the same words with nothing but digits
between them, perhaps after a minus sign, and no number has leading zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventide.tasks.expressions import TYPES, WHOLE

_PAIR = rb'"[A-Za-z_]+" ?: ?-?[0-9]+'
_LINE = re.compile(rb"\{ ?" + _PAIR + rb"(?: ?, ?" + _PAIR + rb")* ?\}")
_NAME = re.compile(rb'"([A-Za-z_]+)"')
_VALUE = re.compile(rb"-?[0-9]+")
_AT_ONCE = 1 << 20  # bytes: what is computed from them fits into a core's cache
_EIGHT = 8  # bytes, or digits, that are handled together
_MOST_DIGITS = 19  # of an integer with 64 bits
_LARGEST = np.uint64(2**63 - 1)
_POWERS = np.array([10**power for power in range(_EIGHT + 1)], np.uint64)
_NEW_LINE, _MINUS, _ZERO = ord("\n"), ord("-"), ord("0")

Eights = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
Sizes = npt.NDArray[np.uint8]


def _each(byte: int) -> np.uint64:
    """That byte, eight times."""
    return np.uint64(byte * 0x0101010101010101)


class _OtherShape(Exception):
    """A line is not like the first one."""


def may_be_uniform(columns: tuple[tuple[str, str], ...], block: bytes) -> bool:
    """Whether the first of these lines has a layout that `uniform_rows` can read; says nothing about the others."""
    return all(type in WHOLE for _, type in columns) and _LINE.fullmatch(block, 0, block.find(b"\n")) is not None


def uniform_rows(columns: tuple[tuple[str, str], ...], block: bytes) -> pa.Table | None:
    """The rows of these lines, the first of which may be uniform; None unless all lines are like it."""
    first = block[: block.find(b"\n") + 1]
    names, words = [name.decode() for name in _NAME.findall(first)], _VALUE.split(first)
    if len(set(names)) < len(names):
        return None
    try:
        parts = [_values(part, words) for part in _parts(block)]
        count = sum(lines for lines, _ in parts)
        values = dict(zip(names, zip(*(values for _, values in parts), strict=True), strict=True))
        table = {
            name: pa.array(np.concatenate(values[name])).cast(TYPES[type])
            if name in values
            else pa.nulls(count, TYPES[type])
            for name, type in columns
        }
    except (_OtherShape, pa.ArrowInvalid):
        return None
    return pa.table(table) if table else pa.table({"": pa.nulls(count)})


def _parts(block: bytes) -> Iterator[memoryview]:
    """Whole lines, not too many at a time."""
    begin, view = 0, memoryview(block)
    while begin < len(block):
        end = block.rfind(b"\n", begin, begin + _AT_ONCE) + 1
        if end == 0:
            raise _OtherShape
        yield view[begin:end]
        begin = end


def _values(lines: memoryview, words: list[bytes]) -> tuple[int, list[Places]]:
    """How many lines there are, and the integers at each place in a line."""
    padded = b"".join((lines, bytes(_EIGHT)))
    text = np.frombuffer(padded, np.uint8)
    eights = np.ndarray(len(lines) + 1, "<u8", text, strides=(1,))
    has_signs = b"-" in padded
    line_ends = np.flatnonzero(text == _NEW_LINE) + 1
    at = np.concatenate(([0], line_ends[:-1]))
    values = []
    for word in words[:-1]:
        at = _behind(word, at, eights)
        if has_signs:
            negative = text[at] == _MINUS
            numbers, at = _integers(at + negative, eights)
            if (negative & (numbers == 0)).any():
                raise _OtherShape
            values.append(np.where(negative, -numbers, numbers))
        else:
            numbers, at = _integers(at, eights)
            values.append(numbers)
    if (_behind(words[-1], at, eights) != line_ends).any():
        raise _OtherShape
    return len(line_ends), values


def _behind(word: bytes, places: Places, eights: Eights) -> Places:
    """Where the word ends that must be at all these places."""
    for first in range(0, len(word), _EIGHT):
        part = word[first : first + _EIGHT]
        found = eights[places + first if first else places] & np.uint64(256 ** len(part) - 1)
        if (found != np.uint64(int.from_bytes(part, "little"))).any():
            raise _OtherShape
    return places + len(word)


def _integers(begin: Places, eights: Eights) -> tuple[Places, Places]:
    """The numbers that begin at these places, and where they end."""
    digits = eights[begin]
    numbers, sizes = _numbers(digits)
    end = begin + sizes
    has_zeros_in_front = ((digits & np.uint64(0xFF)) == _ZERO) & (end > begin + 1)
    if has_zeros_in_front.any() or not sizes.all():
        raise _OtherShape
    while sizes.max() == _EIGHT:
        more, sizes = _numbers(eights[end])
        numbers = numbers * _POWERS[sizes] + more
        end = end + sizes
        if (end - begin).max() > _MOST_DIGITS:
            raise _OtherShape
    if (numbers > _LARGEST).any():
        raise _OtherShape
    return np.broadcast_to(numbers, begin.shape).view(np.int64), end


def _numbers(text: Eights) -> tuple[Eights, Sizes]:
    """The number that each eight bytes begin with, and how many digits it has: just one of each if all are the same."""
    if (text == text[0]).all():  # as the first digits of times often are
        text = text[:1]
    sizes = _leading_digits(text)
    if sizes.min() == sizes.max():
        sizes = sizes[:1]
    return _number(text, sizes), sizes


def _leading_digits(text: Eights) -> Sizes:
    """How many of eight bytes are digits before the first that is not: bits above the lowest one that marks a non-digit
    do not count.
    """
    from_zero = text ^ _each(_ZERO)
    others = (from_zero + _each(0x76) | from_zero) & _each(0x80)
    below = np.bitwise_count((others & (~others + np.uint64(1))) - np.uint64(1))
    return below // np.uint8(8)


def _number(digits: Eights, sizes: Sizes) -> Eights:
    """The number in the first `sizes` of eight bytes: the last digit is shifted to the highest byte, then digits are
    combined in pairs, fours and all eight.
    """
    numbers = digits << (64 - 8 * sizes.astype(np.uint64))
    numbers &= _each(0x0F)
    for bits, factor, mask in (
        (8, 10, 0x00FF00FF00FF00FF),
        (16, 100, 0x0000FFFF0000FFFF),
        (32, 10_000, 0x00000000FFFFFFFF),
    ):
        behind = numbers >> np.uint64(bits)
        numbers *= np.uint64(factor)
        numbers += behind
        numbers &= np.uint64(mask)
    return numbers
