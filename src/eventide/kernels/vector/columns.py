"""Helpers on Arrow columns: what pyarrow's compute functions lack, vectorised.

Values are ordered and compared as Spark does: NULL first, NaN equal to itself and above all other numbers, strings and
binaries bytewise, structs field by field, arrays element by element with a prefix first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def column(table: pa.Table, name: str) -> pa.Array:
    """A table's column as one array."""
    return whole(table.column(name))


def whole(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(values, pa.ChunkedArray):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def ints(table: pa.Table, name: str) -> Ints:
    """An int64 column without NULLs, as numpy."""
    return np.asarray(column(table, name).to_numpy(zero_copy_only=False), dtype=np.int64)


def first_of_each(number: Ints, count: int) -> Ints:
    """Where each of the numbers 0 to `count` - 1, all of which must be there, comes first."""
    first = np.empty(count, np.int64)
    first[number[::-1]] = np.arange(len(number) - 1, -1, -1)
    return first


def stable_order(values: Ints) -> Ints:
    """Where each value goes, equal ones as they come. Small numbers are several times as fast as large ones."""
    least = int(values.min())
    if int(values.max()) - least < 1 << 16:
        return np.argsort((values - least).astype(np.uint16), kind="stable")
    return np.argsort(values, kind="stable")


def ties_broken(order: Ints, is_equal: Mask, by: Sequence[Ints]) -> Ints:
    """An order in which few neighbours are equal (`is_equal`: to the next), with these by columns, of which the last
    counts most, then as they came.
    """
    among_equals = np.flatnonzero(np.append(is_equal, False) | np.append(False, is_equal))
    some = np.sort(order[among_equals])
    order[among_equals] = some[np.lexsort([each[some] for each in by])]
    return order


def distinct(values: Ints) -> Ints:
    """The values, each once, ascending: many of them several times as fast as by np.unique, which hashes them."""
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


_SPARSE = 8  # with at most so many possible numbers per row, a table of all of them is quicker than sorting


def numbered(values: Ints) -> Ints:
    """For each value its rank among the distinct ones, from 0."""
    if len(values) == 0:
        return values
    least = int(values.min())
    spread = int(values.max()) - least + 1
    if spread > _SPARSE * len(values):
        return np.asarray(np.unique(values, return_inverse=True)[1], np.int64)
    is_there = np.zeros(spread, np.bool_)
    is_there[values - least] = True
    return (np.cumsum(is_there) - 1)[values - least]


def in_one_number(columns: Sequence[Ints]) -> Ints | None:
    """Numbers that sort as several columns of them do, the first being the most significant; None if such would be too
    large.
    """
    if len(columns[0]) == 0:
        return columns[0]
    least = [int(values.min()) for values in columns]
    spans = [int(values.max()) - low + 1 for values, low in zip(columns, least, strict=True)]
    if math.prod(spans) >= 1 << 62:
        return None
    code = np.zeros(len(columns[0]), np.int64)
    for values, low, span in zip(columns, least, spans, strict=True):
        code = code * span + (values - low)
    return code


def order_by(columns: Sequence[Ints]) -> Ints:
    """The order of rows by several columns of numbers, the first being the most significant, then as they come. If all
    fit into one number, sorting that is several times as fast.
    """
    code = in_one_number(columns)
    return np.lexsort(columns[::-1]) if code is None else np.argsort(code, kind="stable")


def typed(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    return values if values.type == wanted else values.cast(wanted)


def is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def is_slow_to_compare(kind: pa.DataType) -> bool:
    return not pa.types.is_primitive(kind)


def normalised(values: pa.Array) -> pa.Array:
    """The same values with a single NaN and a single zero, also inside structs and arrays: group keys compare by
    bits.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        plain = values.fill_null(0).to_numpy(zero_copy_only=False) + 0.0  # -0.0 + 0.0 is 0.0
        plain[np.isnan(plain)] = np.nan
        mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        return pa.array(plain, kind, mask=mask)
    if not is_nested(kind) or not holds_floats(kind):
        return values
    if pa.types.is_struct(kind):
        children = [normalised(whole(child)) for child in _fields_of(values)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())
    offsets, items = list_parts(values)
    return _list_like(kind, offsets, normalised(items), values)


def holds_floats(kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return True
    return any(holds_floats(kind.field(i).type) for i in range(kind.num_fields))


def _fields_of(values: pa.StructArray) -> list[pa.Array]:
    return [pc.struct_field(values, i) for i in range(values.type.num_fields)]


def _list_like(kind: pa.DataType, offsets: Ints, items: pa.Array, model: pa.Array) -> pa.Array:
    """A list or map array with these parts and the NULLs of `model`."""
    if pa.types.is_map(kind):
        keys, values = _fields_of(items)
        built = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, values, kind)
    else:
        built = pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), items).cast(kind)
    return pc.if_else(model.is_null(), pa.scalar(None, kind), built) if model.null_count else built


def list_parts(values: pa.Array) -> tuple[Ints, pa.Array]:
    """(offsets, items) of a list or map array: offsets start at 0, NULL lists are empty."""
    if pa.types.is_map(values.type):
        entries = pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])
        values = values.cast(pa.list_(entries))
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.concatenate(([0], np.cumsum(lengths))), whole(values.flatten())


def lists(offsets: Ints, items: pa.Array, kind: pa.DataType) -> pa.Array:
    """A list array of type `kind` without NULLs from its parts."""
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, type=kind)


def kinds(values: pa.Array) -> Ints:
    """For each row a number, from 0, that is the same for equal values only; in no order, and thus cheaper than
    `dense_rank`.
    """
    if is_nested(values.type) or pa.types.is_null(values.type):
        return dense_rank(values)
    encoded = whole(values).dictionary_encode()
    return np.asarray(encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False), np.int64)


def dense_rank(values: pa.Array) -> Ints:
    """For each row, the rank of its value among the distinct values, in Spark's order; 0 is NULL."""
    kind = values.type
    if pa.types.is_struct(kind):
        ranks = combined_rank([dense_rank(whole(child)) for child in _fields_of(values)], len(values)) + 1
        return np.where(values.is_null().to_numpy(zero_copy_only=False), 0, ranks)
    if is_nested(kind):
        values = _list_as_binary(values)
    if pa.types.is_null(kind):
        return np.zeros(len(values), np.int64)
    encoded = whole(values).dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    rank_of = np.empty(len(order) + 1, np.int64)
    rank_of[order] = np.arange(1, len(order) + 1)
    rank_of[-1] = 0
    codes: Ints = encoded.indices.fill_null(len(order)).to_numpy(zero_copy_only=False)
    return rank_of[codes]


def _list_as_binary(values: pa.Array) -> pa.Array:
    """Lists as bytes that sort and compare like the lists: the ranks of their items, big endian."""
    offsets, items = list_parts(values)
    data = pa.py_buffer(dense_rank(items).astype(">i8").tobytes())
    bounds = pa.py_buffer((offsets * 8).tobytes())
    plain = pa.Array.from_buffers(pa.large_binary(), len(values), [None, bounds, data])
    return pc.if_else(values.is_null(), pa.scalar(None, pa.large_binary()), plain) if values.null_count else plain


def combined_rank(ranks: Sequence[Ints], length: int) -> Ints:
    """The dense rank, from 0, of rows by several columns of ranks, the first being the most significant."""
    total = np.zeros(length, np.int64)
    for rank in ranks:
        total = numbered(total * (int(rank.max(initial=0)) + 1) + rank)
    return total


def sortable(values: pa.Array) -> pa.Array:
    """Values in the same order that `pc.sort_indices` and `group_by` can handle instead of these."""
    return pa.array(dense_rank(values)) if is_nested(values.type) else values


def sort_order(keys: Sequence[pa.Array]) -> pa.Array:
    """Row indices in the order of these columns, NULL first."""
    names = [str(n) for n in range(len(keys))]
    table = pa.table([sortable(key) for key in keys], names=names)
    return pc.sort_indices(table, sort_keys=[(name, "ascending", "at_start") for name in names])


def timestamps(values: Ints) -> pa.Array:
    """Microseconds since the epoch as Arrow timestamps in UTC."""
    return pa.array(values).view(pa.timestamp("us", tz="UTC"))
