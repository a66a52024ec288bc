"""Many lines looked at together, each at a place of its own: words that must stand there, and values.

A line in which something else stands is marked as bad, and what is read of it from there on means nothing. Every value
may also be null.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventide.tasks.digits import EIGHT, Eights, Mask, Places, each, fractions, whole_numbers

_NEW_LINE, _QUOTE, _BACKSLASH, _MINUS, _DOT, _FIRST_PRINTED = (*b'\n"\\-.', 0x20)
LONGEST = 1000  # characters: longer lines may be beyond limits that Spark's parser has
_PADDING = 4 * LONGEST  # what a bad line looks at may be as far behind its end as two words and a value are long
_EXACT_DIGITS = 15  # so many a double holds, and such powers of ten as well: one division rounds correctly
_FLOAT_POWERS = np.array([float(10**power) for power in range(_EXACT_DIGITS + 1)])
_WHOLE_POWERS = np.array([10**power for power in range(_EXACT_DIGITS + 1)], np.uint64)
_NULL, _TRUE, _FALSE = b"null", b"true", b"false"

_ROUNDS = 6  # in which the ends of texts are looked for in all lines

Doubles = npt.NDArray[np.float64]


class Lines:
    """Whole lines as numpy sees them: their bytes, eight bytes from every place on, and where lines begin and end.

    `odd` are lines with escapes or control characters, and very long ones.
    """

    def __init__(self, text: bytes | memoryview) -> None:
        padded = b"".join((text, b'"', bytes(_PADDING)))  # a quote that ends what nothing else ends
        self.bytes = np.frombuffer(padded, np.uint8)
        self.eights: Eights = np.ndarray(len(padded) - EIGHT, "<u8", padded, strides=(1,))
        self.ends: Places = np.flatnonzero(self.bytes == _NEW_LINE) + 1
        self.begins: Places = np.concatenate(([0], self.ends[:-1]))
        self.buffer = pa.py_buffer(padded)
        self.odd: Mask = self.ends - self.begins > LONGEST
        if np.count_nonzero(self.bytes < _FIRST_PRINTED) != len(self.ends) + _PADDING:
            self._mark((self.bytes < _FIRST_PRINTED) & (self.bytes != _NEW_LINE))
        if b"\\" in padded:
            self._mark(self.bytes == _BACKSLASH)

    def _mark(self, where: Mask) -> None:
        places = np.flatnonzero(where[:-_PADDING])
        self.odd[np.searchsorted(self.ends, places, side="right")] = True

    @cached_property
    def quotes(self) -> Places:
        """How many quotes each line has."""
        is_quote = (self.bytes[: self.ends[-1]] == _QUOTE).view(np.uint8)
        return np.add.reduceat(is_quote, self.begins, dtype=np.int64)

    @cached_property
    def all_quotes(self) -> int:
        return int(np.count_nonzero(self.bytes == _QUOTE)) - 1

    def texts(self, begin: Places, end: Places, nulls: Mask | None = None) -> pa.Array:
        """What stands between these places, which are in ascending order."""
        if len(begin) == 0:
            return pa.array([], pa.string())
        offsets = np.empty(2 * len(begin), np.int32)
        offsets[::2], offsets[1::2] = begin, end
        pieces = pa.StringArray.from_buffers(2 * len(begin) - 1, pa.py_buffer(offsets), self.buffer)
        chosen = np.arange(0, 2 * len(begin), 2)
        return pieces.take(pa.array(chosen, mask=nulls))


class Cursor:
    """Places in lines. What is read of `bad` lines means nothing.

    Where a text ends is guessed first: where that of another line does. So somebody must count in the end whether a
    line has as many quotes as were met (`quotes`), or one is inside a text.
    """

    def __init__(self, lines: Lines, at: Places, ends: Places, bad: Mask) -> None:
        self.lines, self.at, self.ends, self.bad = lines, at, ends, bad
        self.quotes: Places | int = 0

    @classmethod
    def at_lines(cls, lines: Lines, chosen: Places | None) -> Cursor:
        """At the beginning of all lines, or of those chosen."""
        begins, ends, odd = lines.begins, lines.ends, lines.odd
        if chosen is not None:
            begins, ends, odd = begins[chosen], ends[chosen], odd[chosen]
        return cls(lines, begins, ends, odd.copy())

    def part(self, chosen: Places) -> Cursor:
        """The same of some lines, which goes on by itself."""
        part = Cursor(self.lines, self.at[chosen], self.ends[chosen], self.bad[chosen])
        part.quotes = self.quotes if isinstance(self.quotes, int) else self.quotes[chosen]
        return part

    def stay_inside(self, begins: Places) -> None:
        """Lines that have gone astray go back to their beginning."""
        if self.bad.any():
            self.at = np.where(self.bad, begins, self.at)

    # Words --------------------------------------------------------------------------------------------------------

    def differ(self, word: bytes, at: Places) -> Mask | None:
        """Where the word does not stand; None if it does everywhere."""
        differs: Eights | None = None
        for first in range(0, len(word), EIGHT):
            part = word[first : first + EIGHT]
            found = self.lines.eights[at + first if first else at]
            if len(part) < EIGHT:
                found &= np.uint64(256 ** len(part) - 1)
            found ^= np.uint64(int.from_bytes(part, "little"))
            differs = found if differs is None else np.bitwise_or(differs, found, out=differs)
        return None if differs is None or not differs.any() else differs != 0

    def word(self, word: bytes) -> None:
        differs = self.differ(word, self.at)
        if differs is not None:
            self.bad |= differs
        self._behind(word)

    def opened(self, word: bytes) -> Mask | None:
        """The word, which ends with what opens a value; returns the lines that have null in its place, if any."""
        differs = self.differ(word, self.at)
        nulls = None
        if differs is not None:
            without = self.differ(word[:-1], self.at)
            if without is not None:
                self.bad |= without
            nulls = self._nulls(differs, self.at + len(word) - 1)
        self._behind(word)
        return nulls

    def _behind(self, word: bytes) -> None:
        self.at = self.at + len(word)
        self.quotes = self.quotes + word.count(b'"')

    def _nulls(self, suspects: Mask, at: Places) -> Mask:
        """Of lines in which something is amiss those that have null at these places; the others are bad."""
        differs = self.differ(_NULL, at)
        nulls: Mask = suspects if differs is None else suspects & ~differs
        self.bad |= suspects & ~nulls
        return nulls

    # Values -------------------------------------------------------------------------------------------------------

    def text(self, word: bytes, guess: int | None = None) -> tuple[Places, Places, Mask | None]:
        """Behind a word that ends with a quote: where texts begin and end. `guess` is how long they may all be."""
        nulls = self.opened(word)
        begin = self.at
        close = None if guess is None or nulls is not None else begin + guess
        if close is None or not (self.lines.bytes[np.minimum(close, self.ends)] == _QUOTE).all():
            close = self._closing(begin)
        self.at = close + 1
        self.quotes = self.quotes + 1
        if nulls is not None:
            close = np.where(nulls, begin, close)
            self.at = np.where(nulls, begin - 1 + len(_NULL), self.at)
            self.quotes = np.where(nulls, self.quotes - 2, self.quotes)
        outside = self.at > self.ends
        if outside.any():
            self.bad |= outside
            self.at = np.where(outside, self.ends, self.at)
        return begin, close, nulls

    def _closing(self, begin: Places) -> Places:
        """The first quote from there on."""
        at = begin
        for _ in range(_ROUNDS):
            sizes = _before_quote(self.lines.eights[at])
            at = at + sizes
            going = sizes == EIGHT
            if not going.any():
                return at
        left = np.flatnonzero(going)
        while len(left):  # a few long ones
            sizes = _before_quote(self.lines.eights[at[left]])
            at[left] += sizes
            left = left[(sizes == EIGHT) & (at[left] < self.ends[left])]
        return at

    def whole(self) -> tuple[Places, Mask | None]:
        """Integers of 64 bits."""
        begin = self.at
        negative = self.lines.bytes[begin] == _MINUS
        has_signs = bool(negative.any())
        numbers, self.at, wrong = whole_numbers(begin + negative if has_signs else begin, self.lines.eights)
        values: Places = numbers.view(np.int64)
        if has_signs:
            wrong = wrong | (negative & (numbers == 0))
            values = np.where(negative, -values, values)
        return values, self._or_null(wrong, begin)

    def number(self, *, judged_only: bool = False) -> tuple[Doubles, Mask | None]:
        """Numbers with or without a fraction, none with an exponent, no zero with a sign."""
        begin = self.at
        negative = self.lines.bytes[begin] == _MINUS
        first = begin + negative
        wholes, dot, wrong = whole_numbers(first, self.lines.eights)
        has_fraction = self.lines.bytes[dot] == _DOT
        parts, end = fractions(dot + 1, self.lines.eights)
        if not has_fraction.all():
            parts, end = np.where(has_fraction, parts, np.uint64(0)), np.where(has_fraction, end, dot + 1)
        size = end - dot - 1
        wrong = wrong | (has_fraction & (size == 0)) | (negative & (wholes == 0) & (parts == 0))
        self.at = np.where(has_fraction, end, dot)
        nulls = self._or_null(wrong, begin)
        if judged_only:
            return np.zeros(0), nulls
        is_short = (dot - first) + size <= _EXACT_DIGITS
        size = np.where(is_short, size, 0)
        values: Doubles = (wholes * _WHOLE_POWERS[size] + parts).view(np.int64) / _FLOAT_POWERS[size]
        values = np.where(negative, -values, values)
        is_long = ~is_short & ~self.bad if nulls is None else ~is_short & ~self.bad & ~nulls
        if is_long.any():
            texts = self.lines.texts(begin[is_long], self.at[is_long])
            values[is_long] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return values, nulls

    def flag(self) -> tuple[Mask, Mask | None]:
        begin = self.at
        not_true, not_false = self.differ(_TRUE, begin), self.differ(_FALSE, begin)
        is_true: Mask = np.ones(len(begin), bool) if not_true is None else ~not_true
        is_false: Mask = np.ones(len(begin), bool) if not_false is None else ~not_false
        self.at = begin + np.where(is_true, len(_TRUE), len(_FALSE))
        return is_true, self._or_null(~(is_true | is_false), begin)

    def _or_null(self, wrong: Mask, begin: Places) -> Mask | None:
        """Where null stands in place of a value, if it does anywhere; `at` is moved behind it."""
        if not wrong.any():
            return None
        nulls = self._nulls(wrong, begin)
        self.at = np.where(nulls, begin + len(_NULL), self.at)
        return nulls


def _before_quote(text: Eights) -> npt.NDArray[np.uint8]:
    """How many of eight bytes stand before the first quote: of bytes that become zero, the lowest is marked rightly."""
    found = text ^ each(_QUOTE)
    marks = (found - each(0x01)) & ~found & each(0x80)
    return np.bitwise_count((marks & (~marks + np.uint64(1))) - np.uint64(1)) >> np.uint8(3)
