"""Text that can be read: Spark takes any bytes for a string, Python and Arrow's readers only UTF-8."""

from __future__ import annotations

import pyarrow as pa

from eventide.kernels.vector.columns import whole


def readable(rows: pa.Table) -> pa.Table:
    """The rows with replacement characters in place of bytes that are not UTF-8, in texts at any depth."""
    for place, field in enumerate(rows.schema):
        if not is_readable(rows.column(place)):
            rows = rows.set_column(place, field, _mended(whole(rows.column(place))))
    return rows


def is_readable(values: pa.Array | pa.ChunkedArray) -> bool:
    if pa.types.is_primitive(values.type):
        return True
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def is_utf8(text: bytes) -> bool:
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _mended(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = values.cast(pa.binary()).to_pylist()
        return pa.array([None if text is None else text.decode(errors="replace") for text in texts], kind)
    values = values.take(pa.array(range(len(values))))  # a slice has no offsets of its own
    nulls = values.is_null() if values.null_count else None
    if pa.types.is_struct(kind):
        fields = [_mended(values.field(number)) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=nulls)
    if pa.types.is_map(kind):
        keys, items = _mended(values.keys), _mended(values.items)
        return pa.MapArray.from_arrays(values.offsets, keys, items, kind, mask=nulls)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(values.offsets, _mended(values.values), kind, mask=nulls)
    return values
