"""Tables as Arrow blobs, and blobs as a column, copied as rarely as can be: they are most of what a task gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def to_buffer(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def array_of(values: Sequence[Any], type: pa.DataType) -> pa.Array:
    return binaries(values) if type == pa.binary() else pa.array(values, type)


def binaries(values: Sequence[bytes | pa.Buffer | None]) -> pa.Array:
    """The values as one column; a single one is not copied at all.

    >>> binaries([b"ab", None, pa.py_buffer(b"c")]).to_pylist()
    [b'ab', None, b'c']
    """
    given = [value for value in values if value is not None]
    ends = np.cumsum([0, *(0 if value is None else len(value) for value in values)])
    if ends[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError(f"{ends[-1]} bytes are too many for one column of blobs")
    data = given[0] if len(given) == 1 else b"".join(map(memoryview, given))
    is_given = None if len(given) == len(values) else pa.array([value is not None for value in values]).buffers()[1]
    offsets = pa.py_buffer(ends.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(values), [is_given, offsets, pa.py_buffer(data)])
