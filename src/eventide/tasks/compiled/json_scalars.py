"""The words, texts and numbers of JSON, found in bytes by compiled code.

Every function gets the address of the bytes and a place in them, and returns the place behind what it has found, or
BAD. The bytes end with the end of a line, which is part of nothing that is looked for here, and with padding: so
nothing runs past them.
"""

from __future__ import annotations

import numpy as np

from eventide.tasks.compiled.machine_code import byte_at, compiled, eight_at

BAD = -1

_LONGEST_NAME = 1000
_LONGEST_NUMBER = 300  # Spark's parser takes a thousand characters
_LARGEST_EXPONENT = 250  # beyond, a double may be infinite or zero
_EXACT_DIGITS = 15  # so many a double holds, and 22 powers of ten as well: one division rounds correctly
_EXACT_POWER = 22
_POWERS = np.array([float(10**power) for power in range(_EXACT_POWER + 1)])
_DEEPEST = 60

_SPACE, _TAB, _QUOTE, _BACKSLASH, _COMMA, _COLON, _MINUS, _PLUS, _DOT = b' \t"\\,:-+.'
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = b"{}[]"
_ZERO, _NINE, _SMALL_E, _LARGE_E, _SMALL_U = b"09eEu"
_SMALL_A, _SMALL_F, _LARGE_A, _LARGE_F = b"afAF"
_TRUE, _FALSE, _NULL = (int.from_bytes(word, "little") for word in (b"true", b"fals", b"null"))

_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_QUOTES = np.uint64(_QUOTE * 0x0101010101010101)
_BACKSLASHES = np.uint64(_BACKSLASH * 0x0101010101010101)
_PRINTED = np.uint64(_SPACE * 0x0101010101010101)
_NUMBERS_OF_BYTES = np.uint64(0x0001020304050607)
_FOUR_BYTES = np.uint64(0xFFFFFFFF)
_SEVEN, _FIFTY_SIX, _ONE, _NONE = np.uint64(7), np.uint64(56), np.uint64(1), np.uint64(0)


@compiled
def after_space(text: int, at: int) -> int:
    while byte_at(text, at) == _SPACE or byte_at(text, at) == _TAB:
        at += 1
    return at


@compiled
def text_end(text: int, at: int) -> tuple[int, bool]:
    """Where the text that begins at `at` ends, which is at a quote, and whether there are escapes in it."""
    is_escaped = False
    while True:
        word = eight_at(text, at)
        quotes, backslashes = word ^ _QUOTES, word ^ _BACKSLASHES
        marks = (quotes - _ONES) & ~quotes | (backslashes - _ONES) & ~backslashes | (word - _PRINTED) & ~word
        marks &= _HIGHS
        if marks == _NONE:
            at += 8
            continue
        lowest = marks & (~marks + _ONE)  # of the marks only the lowest is certain
        at += int(np.int64(((lowest >> _SEVEN) * _NUMBERS_OF_BYTES) >> _FIFTY_SIX))
        if byte_at(text, at) == _QUOTE:
            return at, is_escaped
        if byte_at(text, at) != _BACKSLASH:
            return BAD, is_escaped
        is_escaped = True
        at = _after_escape(text, at)
        if at == BAD:
            return BAD, is_escaped


@compiled
def _after_escape(text: int, at: int) -> int:
    sign = byte_at(text, at + 1)
    if sign == _SMALL_U:
        code = hex_code(text, at + 2)
        if code < 0 or 0xDC00 <= code < 0xE000:
            return BAD
        if code < 0xD800 or code >= 0xE000:
            return at + 6
        if byte_at(text, at + 6) != _BACKSLASH or byte_at(text, at + 7) != _SMALL_U:
            return BAD
        second = hex_code(text, at + 8)
        return at + 12 if 0xDC00 <= second < 0xE000 else BAD
    for known in b'"\\/bfnrt':
        if sign == known:
            return at + 2
    return BAD


@compiled
def hex_code(text: int, at: int) -> int:
    """What four digits say, or BAD."""
    code = 0
    for place in range(at, at + 4):
        sign = byte_at(text, place)
        if _ZERO <= sign <= _NINE:
            code = code * 16 + sign - _ZERO
        elif _SMALL_A <= sign <= _SMALL_F:
            code = code * 16 + sign - _SMALL_A + 10
        elif _LARGE_A <= sign <= _LARGE_F:
            code = code * 16 + sign - _LARGE_A + 10
        else:
            return BAD
    return code


@compiled
def name_end(text: int, at: int) -> tuple[int, bool]:
    """Where the name of a member ends whose quote is at `at`."""
    if byte_at(text, at) != _QUOTE:
        return BAD, False
    end, is_escaped = text_end(text, at + 1)
    return (end, is_escaped) if end - at <= _LONGEST_NAME else (BAD, False)


@compiled
def after_colon(text: int, at: int) -> int:
    at = after_space(text, at)
    return after_space(text, at + 1) if byte_at(text, at) == _COLON else BAD


@compiled
def is_null(text: int, at: int) -> bool:
    return bool(eight_at(text, at) & _FOUR_BYTES == np.uint64(_NULL))


@compiled
def flag(text: int, at: int) -> tuple[int, int]:
    """1 or 0, and the place behind the word."""
    word = eight_at(text, at) & _FOUR_BYTES
    if word == np.uint64(_TRUE):
        return 1, at + 4
    if word == np.uint64(_FALSE) and byte_at(text, at + 4) == ord("e"):
        return 0, at + 5
    return 0, BAD


# Numbers --------------------------------------------------------------------------------------------------------------


@compiled
def whole_number(text: int, at: int) -> tuple[int, int]:
    """An integer of 64 bits, and the place behind it. A zero with a sign is none."""
    is_negative = byte_at(text, at) == _MINUS
    begin = at + 1 if is_negative else at
    at = begin
    value = np.uint64(0)
    while _ZERO <= byte_at(text, at) <= _NINE:
        value = value * np.uint64(10) + np.uint64(byte_at(text, at) - _ZERO)
        at += 1
    size = at - begin
    if size == 0 or size > 19 or (byte_at(text, begin) == _ZERO and (size > 1 or is_negative)):
        return 0, BAD
    if value > np.uint64(2**63 - 1):
        return 0, BAD
    found = int(np.int64(value))
    return -found if is_negative else found, at


@compiled
def decimal_number(text: int, at: int) -> tuple[float, bool, int]:
    """A number, whether it is exact, and the place behind it. A zero with a sign is none."""
    begin = at
    is_negative = byte_at(text, at) == _MINUS
    at += is_negative
    if byte_at(text, at) == _ZERO and _ZERO <= byte_at(text, at + 1) <= _NINE:
        return 0.0, False, BAD
    first = at
    mantissa, digits, at = _digits(text, at, 0, 0)
    if at == first:
        return 0.0, False, BAD
    exponent = 0
    if byte_at(text, at) == _DOT:
        first = at + 1
        mantissa, digits, at = _digits(text, first, mantissa, digits)
        if at == first:
            return 0.0, False, BAD
        exponent = first - at
    if byte_at(text, at) == _SMALL_E or byte_at(text, at) == _LARGE_E:
        power, at = _exponent(text, at + 1)
        exponent += power
    if at == BAD or at - begin > _LONGEST_NUMBER or (is_negative and digits == 0):
        return 0.0, False, BAD
    if digits > _EXACT_DIGITS or not -_EXACT_POWER <= exponent <= _EXACT_POWER:
        return 0.0, False, at if -_LARGEST_EXPONENT <= exponent <= _LARGEST_EXPONENT - digits else BAD
    value = np.float64(-mantissa if is_negative else mantissa)
    return value / _POWERS[-exponent] if exponent < 0 else value * _POWERS[exponent], True, at


@compiled
def _digits(text: int, at: int, mantissa: int, digits: int) -> tuple[int, int, int]:
    """Further digits of a number: what they make of it, how many there are behind leading zeros, and the place behind
    them. Of more than 18 the number itself means nothing.
    """
    while _ZERO <= byte_at(text, at) <= _NINE:
        mantissa = mantissa * 10 + byte_at(text, at) - _ZERO
        digits += digits > 0 or byte_at(text, at) != _ZERO
        at += 1
    return mantissa, digits, at


@compiled
def _exponent(text: int, at: int) -> tuple[int, int]:
    is_negative = byte_at(text, at) == _MINUS
    if is_negative or byte_at(text, at) == _PLUS:
        at += 1
    power, begin = 0, at
    while _ZERO <= byte_at(text, at) <= _NINE:
        power = min(power * 10 + byte_at(text, at) - _ZERO, 10 * _LARGEST_EXPONENT)
        at += 1
    return -power if is_negative else power, at if at > begin else BAD


# Values of any kind ---------------------------------------------------------------------------------------------------


@compiled
def after_value(text: int, at: int) -> int:
    """Behind a value of any kind, with all that is in it."""
    depth, is_object = 0, np.uint64(0)  # a bit for each level, the innermost is the lowest
    while True:
        sign = byte_at(text, at)
        if sign in (_OPEN, _OPEN_LIST):
            opened = after_space(text, at + 1)
            if byte_at(text, opened) != sign + 2:  # the sign that closes it
                depth += 1
                is_object = is_object << _ONE | np.uint64(sign == _OPEN)
                at = _after_name(text, opened) if sign == _OPEN else opened
                if at == BAD or depth > _DEEPEST:
                    return BAD
                continue
            at = opened + 1
        else:
            at = _after_scalar(text, at)
        at, depth, is_object = _after_closed(text, at, depth, is_object)
        if at == BAD or depth == 0:
            return at


@compiled
def _after_closed(text: int, at: int, depth: int, is_object: np.uint64) -> tuple[int, int, np.uint64]:
    """From behind a value to the next one, or behind all that ends with it."""
    while at != BAD and depth > 0:
        at = after_space(text, at)
        if byte_at(text, at) == _COMMA:
            at = after_space(text, at + 1)
            return _after_name(text, at) if is_object & _ONE else at, depth, is_object
        if byte_at(text, at) != (_CLOSE if is_object & _ONE else _CLOSE_LIST):
            return BAD, depth, is_object
        at, depth, is_object = at + 1, depth - 1, is_object >> _ONE
    return at, depth, is_object


@compiled
def _after_name(text: int, at: int) -> int:
    end, _ = name_end(text, at)
    return BAD if end == BAD else after_colon(text, end + 1)


@compiled
def _after_scalar(text: int, at: int) -> int:
    if byte_at(text, at) == _QUOTE:
        end, _ = text_end(text, at + 1)
        return BAD if end == BAD else end + 1
    if is_null(text, at):
        return at + 4
    if byte_at(text, at) == _MINUS or _ZERO <= byte_at(text, at) <= _NINE:
        return _after_number(text, at)
    _, end = flag(text, at)
    return end


@compiled
def _after_number(text: int, at: int) -> int:
    begin = at
    if byte_at(text, at) == _MINUS:
        at += 1
    first = at
    at = _after_digits(text, at)
    if at == first or (byte_at(text, first) == _ZERO and at > first + 1):
        return BAD
    if byte_at(text, at) == _DOT:
        first = at + 1
        at = _after_digits(text, first)
        if at == first:
            return BAD
    if byte_at(text, at) == _SMALL_E or byte_at(text, at) == _LARGE_E:
        _, at = _exponent(text, at + 1)
    return at if at - begin <= _LONGEST_NUMBER else BAD


@compiled
def _after_digits(text: int, at: int) -> int:
    while _ZERO <= byte_at(text, at) <= _NINE:
        at += 1
    return at
