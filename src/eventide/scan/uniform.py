"""JSON lines that differ in nothing but their integers: a table whose columns stand between fixed words.

Machines often write such lines, and Arrow reads a table of integers in a fraction of the time that it takes for JSON. That all lines are
of the first one's shape is proved, not assumed, by four facts:

* without digits and minus signs every line is the same as the first, which is an object of integers with plain names;
* every value can be read as an integer, and none is missing;
* together these integers have exactly as many digits and signs as the text. So none stands anywhere else, and none is a leading zero;
* the names have no digit or minus sign of their own.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

from eventide.scan.expressions import TYPES, WHOLE

_OF_INTEGERS = b"0123456789-"
_PAIR = rb'"[A-Za-z_]+" ?: ?-?[0-9]+'
_LINE = re.compile(rb"\{ ?" + _PAIR + rb"(?: ?, ?" + _PAIR + rb")* ?\}")
_NAME = re.compile(rb'"([A-Za-z_]+)"')
_SEPARATORS = bytes.maketrans(b":}", b",,")
_OPENING = b'{"'
_PARSED_AT_ONCE = 1 << 20
_PARSING = pa.csv.ParseOptions(quote_char=False, double_quote=False, ignore_empty_lines=False)


def may_be_uniform(columns: tuple[tuple[str, str], ...], block: bytes) -> bool:
    """Whether the first of these lines has the shape that `uniform_rows` reads; says nothing of the others."""
    return all(type in WHOLE for _, type in columns) and _LINE.fullmatch(block, 0, block.find(b"\n")) is not None


def uniform_rows(columns: tuple[tuple[str, str], ...], block: bytes) -> pa.Table | None:
    """The rows of whole lines whose first one may be uniform; None unless all are like it."""
    first = block[: block.find(b"\n") + 1]
    shape, shapes = first.translate(None, _OF_INTEGERS), block.translate(None, _OF_INTEGERS)
    count = len(shapes) // len(shape)
    if shapes != shape * count:
        return None
    names = [name.decode() for name in _NAME.findall(first)]
    if len(set(names)) < len(names):
        return None
    values = _values(names, dict(columns), block)
    if values is None or values.num_rows != count or _written(values) != len(block) - len(shapes):
        return None
    wanted = {name: values[name] if name in names else pa.nulls(count, TYPES[type]) for name, type in columns}
    return pa.table(wanted) if wanted else pa.table({"": pa.nulls(count)})


def _values(names: list[str], types: dict[str, str], block: bytes) -> pa.Table | None:
    """Lines as `name, value, name, value,`, of which only values become columns; the others are numbered, as no name is."""
    fields = [field for number, name in enumerate(names) for field in (f"{number}", name)]
    reading = pa.csv.ReadOptions(use_threads=False, block_size=_PARSED_AT_ONCE, column_names=[*fields, f"{len(names)}"])
    converting = pa.csv.ConvertOptions(
        column_types={name: TYPES[types.get(name, "bigint")] for name in names}, include_columns=names, null_values=[]
    )
    try:
        table = pa.csv.read_csv(pa.BufferReader(block.translate(_SEPARATORS, _OPENING)), reading, _PARSING, converting)
    except pa.ArrowInvalid:
        return None
    return table.combine_chunks()


def _written(values: pa.Table) -> int:
    """How many digits and signs the integers have, each written as short as can be."""
    return sum(_length(column.chunk(0).to_numpy()) for column in values.columns)


def _length(values: npt.NDArray[Any]) -> int:
    signs = int(np.count_nonzero(values < 0))
    sizes = np.abs(values.astype(np.int64)) if signs else values
    low, high = int(sizes.min()), int(sizes.max())
    if low < 0:
        return -1  # the one integer that has no positive: not worth a thought, the text is read in another way
    digits = len(str(low)) * len(sizes)
    for power in range(len(str(low)), len(str(high))):
        digits += int(np.count_nonzero(sizes >= 10**power))
    return digits + signs
