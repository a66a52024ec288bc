"""Side-output payloads: the order of their fields, and the rows inside them as typed columns."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MOMENT = pa.timestamp("us", tz="UTC")
PAYLOAD_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("reason", pa.string()),
        ("event_time", _MOMENT),
        ("processing_time", _MOMENT),
        ("watermark", _MOMENT),
        ("window", pa.struct([("start", _MOMENT), ("end", _MOMENT)])),
        ("group_key", pa.string()),
        ("original_event", pa.string()),
        ("error_detail", pa.string()),
        ("plan_id", pa.string()),
        ("shard", pa.int32()),
    ]
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
    return value
