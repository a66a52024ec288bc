"""JSON lines parsed by compiled code: one pass over the bytes, values straight into columns.

What it takes means the same to Spark. A line of which it is not sure (a value that does not have the declared type, a
name that occurs twice, broken JSON) is left out whole, for somebody else to read. Values that nobody wants are judged
all the same, and not kept.

Columns are the nodes of a `Tree`, each with cells of eight bytes: a number, a time, or where a text or list begins and
how long it is. A cell without a value is not `valid`. Inside a list cells are numbered by the list's elements,
elsewhere by lines. `text`, `nodes` and so on are addresses: see `machine_code`.
"""

from __future__ import annotations

import numpy as np

from eventide.tasks.compiled.iso_text import NO_TIME, iso_date, iso_micros
from eventide.tasks.compiled.json_scalars import (
    BAD,
    after_colon,
    after_space,
    after_value,
    decimal_number,
    flag,
    is_null,
    name_end,
    text_end,
    whole_number,
)
from eventide.tasks.compiled.json_tree import (
    CHILDREN,
    COUNT,
    DAY,
    FIELD_BITS,
    FIRST,
    FIRST_CHILD,
    FOLLOWS,
    HIGH,
    ISO_TEXT,
    KEPT,
    KIND,
    LINES,
    LIST,
    LOW,
    MET_IN,
    MOST,
    NAME_AT,
    NAME_SIZE,
    NODE,
    NUMBER,
    NUMBERING,
    OBJECT,
    PLACE_BITS,
    SETTLED,
    TEXT,
    TIME,
    WHOLE,
)
from eventide.tasks.compiled.machine_code import byte_at, compiled, eight_at, number_at, put_byte, put_number

_UNKNOWN = -1
_UNWANTED = -2
_QUOTE, _COMMA, _OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST, _NEW_LINE = b'",{}[]\n'


@compiled
def parsed_lines(
    text: int, size: int, nodes: int, names: int, values: int, valid: int, counts: int, inexact: int, opened: int,
    places: int, left: int, how_many_nodes: int, how_many_counts: int,
) -> tuple[int, int]:  # fmt: skip
    """Reads the lines in the first `size` bytes, each of which has an end. Returns how many have become rows and how
    many have not; where they begin is in `places` and `left`.
    """
    rows = others = begin = 0
    while begin < size:
        end = _after_line(text, nodes, names, values, valid, counts, inexact, opened, begin)
        if end == BAD:
            _take_back(nodes, values, valid, counts, inexact, how_many_nodes, how_many_counts)
            put_number(left, others, begin)
            others += 1
            end = _next_line(text, begin)
        else:
            put_number(places, rows, begin)
            rows += 1
            _put(counts, LINES, COUNT, rows)
            for numbering in range(how_many_counts):
                _put(counts, numbering, SETTLED, _of(counts, numbering, COUNT))
        begin = end
    return rows, others


@compiled
def _of(table: int, row: int, field: int) -> int:
    return number_at(table, (row << FIELD_BITS) + field)


@compiled
def _put(table: int, row: int, field: int, value: int) -> None:
    put_number(table, (row << FIELD_BITS) + field, value)


@compiled
def _after_line(
    text: int, nodes: int, names: int, values: int, valid: int, counts: int, inexact: int, opened: int, at: int
) -> int:
    """The place where the next line begins, or BAD. `last` is the member that came before, at first the object."""
    depth, node, last, is_first = 1, 0, 0, True
    at = _opened(text, nodes, values, valid, counts, opened, node, depth, after_space(text, at))
    while at != BAD:
        is_list = _of(nodes, node, KIND) == LIST
        at = after_space(text, at)
        if byte_at(text, at) == (_CLOSE_LIST if is_list else _CLOSE):
            if depth == 1:
                at = after_space(text, at + 1)
                return at + 1 if byte_at(text, at) == _NEW_LINE else BAD
            depth, last, is_first, at = depth - 1, node, False, at + 1
            node = _closed(nodes, values, counts, node, _of(opened, depth, NODE))
            continue
        if not is_first:
            at = after_space(text, at + 1) if byte_at(text, at) == _COMMA else BAD
        at, child = _to_value(text, nodes, names, opened, depth, last, at)
        if at == BAD:
            return BAD
        is_first = False
        if child == _UNKNOWN:
            at = after_value(text, at)
        elif _of(nodes, child, KIND) <= LIST and not is_null(text, at):
            depth, node, last, is_first = depth + 1, child, child, True
            at = _opened(text, nodes, values, valid, counts, opened, node, depth, at)
        else:
            last = child
            at = _after_cell(text, nodes, values, valid, counts, inexact, child, at)
            if is_list:
                _count(nodes, counts, child)
    return BAD


@compiled
def _opened(
    text: int, nodes: int, values: int, valid: int, counts: int, opened: int, node: int, depth: int, at: int
) -> int:
    """Behind the sign that opens an object or list."""
    is_list = _of(nodes, node, KIND) == LIST
    if byte_at(text, at) != (_OPEN_LIST if is_list else _OPEN):
        return BAD
    object = _of(opened, 0, OBJECT) + 1
    _put(opened, 0, OBJECT, object)
    _put(opened, depth, OBJECT, object)
    _put(opened, depth, NODE, node)
    if _of(nodes, node, KEPT):
        cell = _cell(nodes, counts, node)
        if cell == BAD:
            return BAD
        put_byte(valid, cell, 1)
        if is_list:
            put_number(values, cell, _elements(nodes, counts, node) << PLACE_BITS)
    return at + 1


@compiled
def _closed(nodes: int, values: int, counts: int, node: int, outer: int) -> int:
    """Ends a list or an object, and returns what it stands in."""
    if _of(nodes, node, KIND) == LIST and _of(nodes, node, KEPT):
        cell = _cell(nodes, counts, node)
        begin = number_at(values, cell)
        put_number(values, cell, begin + _elements(nodes, counts, node) - (begin >> PLACE_BITS))
    if _of(nodes, outer, KIND) == LIST:
        _count(nodes, counts, node)
    return outer


@compiled
def _elements(nodes: int, counts: int, node: int) -> int:
    """How many elements all lists of a node have so far."""
    return _of(counts, _of(nodes, _of(nodes, node, FIRST_CHILD), NUMBERING), COUNT)


@compiled
def _count(nodes: int, counts: int, node: int) -> None:
    numbering = _of(nodes, node, NUMBERING)
    _put(counts, numbering, COUNT, _of(counts, numbering, COUNT) + 1)


@compiled
def _cell(nodes: int, counts: int, node: int) -> int:
    """The cell that comes next, or BAD if there is no room for it."""
    numbering = _of(nodes, node, NUMBERING)
    number = _of(counts, numbering, COUNT)
    return _of(nodes, node, FIRST) + number if number < _of(counts, numbering, MOST) else BAD


@compiled
def _to_value(text: int, nodes: int, names: int, opened: int, depth: int, last: int, at: int) -> tuple[int, int]:
    """From the beginning of a member to its value, and which node that is: most likely the one that came behind `last`
    before, with nothing between its name and the colon.
    """
    node, object = _of(opened, depth, NODE), _of(opened, depth, OBJECT)
    if at == BAD or _of(nodes, node, KIND) == LIST:
        return at, _of(nodes, node, FIRST_CHILD)
    child = _of(nodes, last, FOLLOWS)
    size = _of(nodes, child, NAME_SIZE)
    if child and _are_equal(text, at, names, _of(nodes, child, NAME_AT), size):
        at = after_space(text, at + size)
    else:
        end, is_escaped = name_end(text, at)
        if end == BAD or is_escaped:
            return BAD, _UNKNOWN
        child = _named(text, nodes, names, node, at, end)
        at = after_colon(text, end + 1)
        if child == _UNKNOWN:
            return at, child
        _put(nodes, last, FOLLOWS, child)
    if _of(nodes, child, MET_IN) == object:
        return BAD, child
    _put(nodes, child, MET_IN, object)
    return at, child


@compiled
def _named(text: int, nodes: int, names: int, node: int, begin: int, end: int) -> int:
    """The child whose name stands between these quotes."""
    size = end + 1 - begin
    first = _of(nodes, node, FIRST_CHILD)
    for child in range(first, first + _of(nodes, node, CHILDREN)):
        if _of(nodes, child, NAME_SIZE) == size + 1 and _are_equal(
            text, begin, names, _of(nodes, child, NAME_AT), size
        ):
            return child
    return _UNKNOWN


@compiled
def _are_equal(text: int, at: int, other: int, place: int, size: int) -> bool:
    """Whether the same bytes stand at two places."""
    end = at + size
    while at + 8 <= end:
        if eight_at(text, at) != eight_at(other, place):
            return False
        at, place = at + 8, place + 8
    if at == end:
        return True
    different = eight_at(text, at) ^ eight_at(other, place)
    return bool(different << np.uint64(8 * (8 - end + at)) == np.uint64(0))


@compiled
def _after_cell(text: int, nodes: int, values: int, valid: int, counts: int, inexact: int, node: int, at: int) -> int:
    """Behind a value that is no object or list, or behind null; its cell is filled if somebody wants it."""
    cell = _cell(nodes, counts, node) if _of(nodes, node, KEPT) else _UNWANTED
    if cell == BAD or is_null(text, at):
        return BAD if cell == BAD else at + 4
    kind, begin, is_exact = _of(nodes, node, KIND), at, True
    if kind <= ISO_TEXT or kind >= TIME:
        value, at = _text_cell(text, kind, at)
    elif kind == NUMBER:
        number, is_exact, at = decimal_number(text, at)
        value = int(np.float64(number).view(np.int64)) if is_exact else (begin << PLACE_BITS) + at - begin
    elif kind == WHOLE:
        value, at = whole_number(text, at)
        at = at if _of(nodes, node, LOW) <= value <= _of(nodes, node, HIGH) else BAD
    else:
        value, at = flag(text, at)
    if cell != _UNWANTED and at != BAD:
        put_byte(valid, cell, 1)
        put_number(values, cell, value)
        if not is_exact:
            put_number(inexact, 0, number_at(inexact, 0) + 1)
            put_number(inexact, number_at(inexact, 0), cell)
    return at


@compiled
def _text_cell(text: int, kind: int, at: int) -> tuple[int, int]:
    """The cell of a text, a time or a day, and the place behind it."""
    if byte_at(text, at) != _QUOTE:
        return 0, BAD
    begin = at + 1
    end, is_escaped = text_end(text, begin)
    if end == BAD:
        return 0, BAD
    if kind == TEXT:
        return (begin << PLACE_BITS) + ((end - begin) << 1) + is_escaped, end + 1
    value = iso_micros(text, begin, end) if kind != DAY else iso_date(text, begin, end)
    if value == NO_TIME:
        return 0, BAD
    return (begin << PLACE_BITS) + ((end - begin) << 1) if kind == ISO_TEXT else value, end + 1


@compiled
def _take_back(
    nodes: int, values: int, valid: int, counts: int, inexact: int, how_many_nodes: int, how_many_counts: int
) -> None:
    """Forgets what has been read of a line."""
    for node in range(how_many_nodes):
        numbering, first = _of(nodes, node, NUMBERING), _of(nodes, node, FIRST)
        begin = first + _of(counts, numbering, SETTLED)
        end = first + min(_of(counts, numbering, COUNT) + 1, _of(counts, numbering, MOST))
        for cell in range(begin, end if _of(nodes, node, KEPT) else begin):
            put_byte(valid, cell, 0)
            put_number(values, cell, 0)
    for numbering in range(how_many_counts):
        _put(counts, numbering, COUNT, _of(counts, numbering, SETTLED))
    while number_at(inexact, 0) and not byte_at(valid, number_at(inexact, number_at(inexact, 0))):
        put_number(inexact, 0, number_at(inexact, 0) - 1)


@compiled
def _next_line(text: int, at: int) -> int:
    while byte_at(text, at) != _NEW_LINE:
        at += 1
    return at + 1
