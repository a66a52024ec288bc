"""Side-output payloads: rows that a kernel did not use, as tables of SIDE_SCHEMA."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from eventide.kernels.contract import FROM, SIDE_SCHEMA, TS, InputSpec, Output
from eventide.kernels.vector.columns import Ints, Mask, column, timestamps, typed

LATE_REASON, STRICT_REASON = "allowed_lateness_exceeded", "behind_watermark"
EVICTED_REASON, DUPLICATE_REASON = "max_groups", "duplicate_id"
_MOMENT = pa.timestamp("us", tz="UTC")
_TEXT_NEEDS_CARE = r"[\x00-\x1f\x7f]"


class NotReadError(Exception):
    """A row is put aside, and its original has columns that were not read, as the plan expects no such row."""


class SideRows:
    """Puts rows aside: each is counted, and leaves a payload that names its source.

    With `store_late` False late rows are counted and leave no payload (EMIT FINAL).
    """

    def __init__(self, inputs: tuple[InputSpec, ...], store_late: bool = True) -> None:
        self._inputs, self._store_late = inputs, store_late

    def source(self, input: int) -> str:
        return self._inputs[input].source

    def put(
        self,
        output: Output,
        rows: pa.Table,
        chosen: Mask,
        kind: str,
        reason: str | pa.Array,
        *,
        input: int | None = None,
        windows: Callable[[], tuple[Ints, Ints]] | None = None,
        detail: pa.Array | None = None,
    ) -> pa.Table:
        """Put the chosen rows aside; returns the others.

        `input` is the number of the input of all rows; without it the column FROM says it, or there is only one.
        `windows` gives starts and ends of the chosen rows, in microseconds. `reason` and `detail`, where they are
        arrays, are those of all rows.
        """
        if not chosen.any():
            return rows
        mask = pa.array(chosen)
        aside = rows.filter(mask)
        output.counts[kind] += aside.num_rows
        if kind != "late" or self._store_late:
            reason = reason if isinstance(reason, str) else reason.filter(mask)
            detail = None if detail is None else detail.filter(mask)
            output.side.append(self._payloads(aside, kind, reason, input, windows, detail))
        return rows.filter(pa.array(~chosen))

    def _payloads(
        self,
        rows: pa.Table,
        kind: str,
        reason: str | pa.Array,
        input: int | None,
        windows: Callable[[], tuple[Ints, Ints]] | None,
        detail: pa.Array | None,
    ) -> pa.Table:
        count, names = rows.num_rows, self._inputs[input or 0]
        if not {packed for _, packed in names.originals} <= set(rows.column_names):
            raise NotReadError
        unknown = pa.nulls(count, _MOMENT)
        starts, ends = (unknown, unknown) if windows is None else (timestamps(bound) for bound in windows())
        arrays = [
            pa.repeat(pa.scalar(kind), count),
            pa.repeat(pa.scalar(reason), count) if isinstance(reason, str) else typed(reason, pa.string()),
            self._sources(rows, input),
            typed(column(rows, TS), pa.int64()).view(_MOMENT),
            starts,
            ends,
            json_objects(rows, names.keys),
            json_objects(rows, names.originals),
            pa.nulls(count, pa.string()) if detail is None else typed(detail, pa.string()),
        ]
        return pa.Table.from_arrays(arrays, schema=SIDE_SCHEMA)

    def _sources(self, rows: pa.Table, input: int | None) -> pa.Array:
        if input is None and FROM in rows.column_names:
            return pa.array([each.source for each in self._inputs], pa.string()).take(column(rows, FROM))
        return pa.repeat(pa.scalar(self._inputs[input or 0].source), rows.num_rows)


def json_objects(rows: pa.Table, names: Sequence[tuple[str, str]]) -> pa.Array:
    """One JSON object per row, as text, with the user's names in order."""
    if not names:
        return pa.repeat(pa.scalar("{}"), rows.num_rows)
    parts: list[pa.Array | pa.Scalar] = []
    for n, (name, packed) in enumerate(names):
        parts.append(pa.scalar(("{" if n == 0 else ", ") + json.dumps(name, ensure_ascii=False) + ": "))
        parts.append(json_values(column(rows, packed)))
    return pc.binary_join_element_wise(*parts, pa.scalar("}"), "")


def json_values(values: pa.Array) -> pa.Array:
    """Each value as JSON text; NULL is the text null."""
    return pc.fill_null(_json_known(values), "null")


def _json_known(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return values.cast(pa.string())
    if pa.types.is_floating(kind):
        return _json_floats(values)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _json_strings(values.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        text = pc.replace_substring(
            values.cast(pa.timestamp("us", tz=kind.tz and "UTC")).cast(pa.string()), " ", "T", max_replacements=1
        )
        return _quoted(pc.replace_substring_regex(text, r"\.000000(Z?)$", r"\1"))
    if pa.types.is_date(kind):
        return _quoted(values.cast(pa.string()))
    return pa.array((None if value is None else json_text(value, kind) for value in values.to_pylist()), pa.string())


def _json_floats(values: pa.Array) -> pa.Array:
    """The shortest digits that give the value back; 1 as 1.0; what JSON has no number for as text."""
    text = pc.replace_substring_regex(values.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    strange = pc.if_else(pc.is_nan(values), '"NaN"', pc.if_else(pc.greater(values, 0), '"Infinity"', '"-Infinity"'))
    return pc.if_else(pc.is_finite(values), text, strange)


def _json_strings(values: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(values, _TEXT_NEEDS_CARE)).as_py():
        return pa.array(
            (None if text is None else json.dumps(text, ensure_ascii=False) for text in values.to_pylist()), pa.string()
        )
    return _quoted(pc.replace_substring(pc.replace_substring(values, "\\", "\\\\"), '"', '\\"'))


def _quoted(values: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(pa.scalar('"'), values, pa.scalar('"'), "")


def json_text(value: Any, kind: pa.DataType) -> str:
    """The JSON of one value as pyarrow gives it: for nested values, and types that are rare."""
    if value is None:
        return "null"
    if pa.types.is_struct(kind):
        return _object((part.name, json_text(value[part.name], part.type)) for part in kind)
    if pa.types.is_map(kind):
        return _object((_map_key(name), json_text(item, kind.item_type)) for name, item in value)
    if isinstance(value, list):
        return "[" + ", ".join(json_text(item, kind.value_type) for item in value) + "]"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"  # exact: as a float it would lose digits
    return json.dumps(_plain(value), ensure_ascii=False)


def _object(members: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in members) + "}"


def _map_key(name: object) -> str:
    plain = _plain(name)
    return plain if isinstance(plain, str) else str(plain)


def _plain(value: object) -> object:
    """A value that is not nested, in terms that JSON has."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime.datetime):
        return (
            value.isoformat()
            if value.tzinfo is None
            else value.astimezone(datetime.UTC).replace(tzinfo=None).isoformat() + "Z"
        )
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return value
