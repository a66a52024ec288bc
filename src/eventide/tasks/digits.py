"""Numbers in text, many at a time and eight digits at a time: plain arithmetic on words of 64 bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Eights = npt.NDArray[np.uint64]  # eight bytes each, as they stand in the text
Places = npt.NDArray[np.int64]
Sizes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

EIGHT = 8
MOST_DIGITS = 19  # of an integer with 64 bits
_LARGEST = np.uint64(2**63 - 1)
_POWERS = np.array([10**power for power in range(EIGHT + 1)], np.uint64)
_ZERO = ord("0")


def each(byte: int) -> np.uint64:
    """That byte, eight times."""
    return np.uint64(byte * 0x0101010101010101)


def whole_numbers(begin: Places, eights: Eights) -> tuple[Eights, Places, Mask]:
    """The numbers without a sign that begin at these places, where they end, and which are none: no digit, zeros in
    front, or more than 63 bits.
    """
    first = eights[begin]
    numbers, sizes = _numbers(first)
    end = begin + sizes
    wrong = ((first & np.uint64(0xFF)) == _ZERO) & (end > begin + 1)
    wrong |= sizes == 0
    while sizes.max(initial=0) == EIGHT:
        more, sizes = _numbers(eights[end])
        numbers = numbers * _POWERS[sizes] + more
        end = end + sizes
        if (end - begin).max() > MOST_DIGITS:
            wrong |= end - begin > MOST_DIGITS
            break
    return np.broadcast_to(numbers, begin.shape), end, wrong | (numbers > _LARGEST)


def fractions(begin: Places, eights: Eights) -> tuple[Eights, Places]:
    """The digits that begin at these places as numbers, zeros in front allowed, and where they end. Numbers of more
    than 16 digits are cut, which their length tells.
    """
    numbers, sizes = _numbers(eights[begin])
    end = begin + sizes
    if sizes.max(initial=0) == EIGHT:
        more, sizes = _numbers(eights[end])
        numbers, end = numbers * _POWERS[sizes] + more, end + sizes
        while sizes.max() == EIGHT:
            sizes = _leading_digits(eights[end])
            end = end + sizes
    return np.broadcast_to(numbers, begin.shape), np.broadcast_to(end, begin.shape)


def _numbers(text: Eights) -> tuple[Eights, Sizes]:
    """The number that each eight bytes begin with, and how many digits it has: just one of each if all are the same."""
    if len(text) and (text == text[0]).all():  # as the first digits of times often are
        text = text[:1]
    sizes = _leading_digits(text)
    if len(sizes) and sizes.min() == sizes.max():
        sizes = sizes[:1]
    return _number(text, sizes), sizes


def _leading_digits(text: Eights) -> Sizes:
    """How many of eight bytes are digits before the first that is not: bits above the lowest one that marks a non-digit
    do not count.
    """
    from_zero = text ^ each(_ZERO)
    others = (from_zero + each(0x76) | from_zero) & each(0x80)
    below = np.bitwise_count((others & (~others + np.uint64(1))) - np.uint64(1))
    return below // np.uint8(8)


def _number(digits: Eights, sizes: Sizes) -> Eights:
    """The number in the first `sizes` of eight bytes: the last digit is shifted to the highest byte, then digits are
    combined in pairs, fours and all eight.
    """
    numbers = digits << (64 - 8 * sizes.astype(np.uint64))
    numbers &= each(0x0F)
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
