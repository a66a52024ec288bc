"""Texts of JSON put one after the other, without their escapes, by compiled code."""

from __future__ import annotations

from eventide.tasks.compiled.json_scalars import hex_code
from eventide.tasks.compiled.json_tree import PLACE_BITS
from eventide.tasks.compiled.machine_code import byte_at, compiled, eight_at, number_at, put_byte, put_eight, put_half

_BACKSLASH, _SMALL_U = b"\\u"


@compiled
def copied_texts(text: int, values: int, count: int, out: int, offsets: int) -> int:
    """The texts of so many cells; where each ends is in `offsets`, 32 bits each. Returns how many bytes they take;
    eight more are written to.
    """
    end = 0
    for number in range(count):
        cell = number_at(values, number)
        begin, size = cell >> PLACE_BITS, (cell & 0xFFFFFFFF) >> 1
        if cell & 1:
            end = _unescaped(text, begin, begin + size, out, end)
        else:
            place = 0
            while place < size:
                put_eight(out, end + place, eight_at(text, begin + place))
                place += 8
            end += size
        put_half(offsets, number + 1, end)
    return end


@compiled
def _unescaped(text: int, at: int, end: int, out: int, to: int) -> int:
    while at < end:
        if byte_at(text, at) != _BACKSLASH:
            put_byte(out, to, byte_at(text, at))
            at, to = at + 1, to + 1
        elif byte_at(text, at + 1) == _SMALL_U:
            code, at = hex_code(text, at + 2), at + 6
            if 0xD800 <= code < 0xDC00:
                code, at = 0x10000 + ((code - 0xD800) << 10) + hex_code(text, at + 2) - 0xDC00, at + 6
            to = _encoded(code, out, to)
        else:
            put_byte(out, to, _meant(byte_at(text, at + 1)))
            at, to = at + 2, to + 1
    return to


@compiled
def _meant(sign: int) -> int:
    """What a sign behind a backslash means."""
    if sign == ord("b"):
        return ord("\b")
    if sign == ord("f"):
        return ord("\f")
    if sign == ord("n"):
        return ord("\n")
    if sign == ord("r"):
        return ord("\r")
    return ord("\t") if sign == ord("t") else sign


@compiled
def _encoded(code: int, out: int, to: int) -> int:
    """As UTF-8."""
    if code < 0x80:
        put_byte(out, to, code)
        return to + 1
    size = 2 if code < 0x800 else 3 if code < 0x10000 else 4
    for place in range(size - 1, 0, -1):
        put_byte(out, to + place, 0x80 | code & 0x3F)
        code >>= 6
    put_byte(out, to, (0xF00 >> size) & 0xFF | code)
    return to + size
