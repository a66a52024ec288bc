"""Side-output payloads: the order of their fields, and the rows inside them as typed columns."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.contract import SIDE_OUTPUT_SCHEMA

_ORDER = (
    "kind reason source event_time processing_time watermark window group_key original_event error_detail plan_id shard"
)
_WINDOW = pa.struct([("start", pa.timestamp("us", tz="UTC")), ("end", pa.timestamp("us", tz="UTC"))])
PAYLOAD_SCHEMA = pa.schema(
    [pa.field(name, _WINDOW) if name == "window" else SIDE_OUTPUT_SCHEMA.field(name) for name in _ORDER.split()]
)
JSON_FIELDS = ("group_key", "original_event")


def to_payloads(side: pa.Table) -> pa.Table:
    """Side rows from the operator, converted to PAYLOAD_SCHEMA."""
    start, end = side["window_start"].combine_chunks(), side["window_end"].combine_chunks()
    window = pa.StructArray.from_arrays(
        [start, end], fields=list(PAYLOAD_SCHEMA.field("window").type), mask=pc.is_null(start)
    )
    columns = [window if name == "window" else side[name] for name in PAYLOAD_SCHEMA.names]
    return pa.table(columns, schema=PAYLOAD_SCHEMA)


SOURCE = "source"


def late_schema(sides: Sequence[pa.Schema]) -> pa.Schema:
    """The columns of a stream's late rows: those of the rows that it takes in.

    For a join those of both sides, after the name of the source; a column that both have under one name and type is
    one column, and one that they have with different types is text.
    """
    if len(sides) == 1:
        return sides[0]
    kinds: dict[str, pa.DataType] = {SOURCE: pa.string()}
    for field in (field for side in sides for field in side):
        kinds[field.name] = field.type if kinds.get(field.name, field.type) == field.type else pa.string()
    return pa.schema(list(kinds.items()))


def late_rows(payloads: pa.Table, sides: Sequence[pa.Schema]) -> pa.Table:
    """The late ones among `payloads`, with the columns of `late_schema`."""
    late, schema = payloads.filter(pc.equal(payloads["kind"], "late")), late_schema(sides)
    rows = original_rows(late, schema)
    return rows if len(sides) == 1 else rows.set_column(0, schema.field(0), late[SOURCE])


def late_rows_with_times(payloads: pa.Table, schema: pa.Schema) -> tuple[pa.Table, pa.ChunkedArray]:
    """The late ones among `payloads` as rows of `schema`, and their event times."""
    late = payloads.filter(pc.equal(payloads["kind"], "late"))
    rows = original_rows(late, schema)
    place = schema.get_field_index(SOURCE)
    if place >= 0 and rows[SOURCE].null_count == rows.num_rows:  # of a join: no column of the user's
        rows = rows.set_column(place, schema.field(place), late[SOURCE])
    return rows, late["event_time"]


def original_rows(payloads: pa.Table, schema: pa.Schema) -> pa.Table:
    """The original events of `payloads` as rows with the columns of `schema`."""
    events = [json.loads(text) if text else {} for text in payloads["original_event"].to_pylist()]
    columns = [
        pa.array([from_json(event.get(field.name), field.type) for event in events], field.type) for field in schema
    ]
    return pa.table(columns, schema=schema)


def from_json(value: Any, type: pa.DataType) -> Any:
    """A JSON value as the Python value that pyarrow takes for `type`; reverses how payloads are written."""
    if value is None:
        return None
    if pa.types.is_timestamp(type):
        moment = dt.datetime.fromisoformat(value)
        return moment if type.tz else moment.replace(tzinfo=None)
    if pa.types.is_date(type):
        return dt.date.fromisoformat(value)
    if pa.types.is_decimal(type):
        return decimal.Decimal(str(value))
    if pa.types.is_floating(type):
        return float(value)
    if pa.types.is_binary(type):
        return base64.b64decode(value)
    if pa.types.is_list(type):
        return [from_json(item, type.value_type) for item in value]
    if pa.types.is_struct(type):
        return {field.name: from_json(value.get(field.name), field.type) for field in type}
    if pa.types.is_map(type):
        return [(from_json(pair[0], type.key_type), from_json(pair[1], type.item_type)) for pair in value.items()]
    return value if not pa.types.is_string(type) or isinstance(value, str) else json.dumps(value)
