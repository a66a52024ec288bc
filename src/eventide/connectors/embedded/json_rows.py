"""Rows from Python as the JSON text that Spark's JSON reader decodes."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from eventide.errors import SourceError, suggest
from eventide.plan.logical import Source


def encode_rows(source: Source, rows: Any) -> list[str]:
    """One JSON object per row; raises SourceError for anything that cannot be a row of `source`."""
    names = [column.name for column in source.columns]
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        rows = rows.to_pylist()
    elif hasattr(rows, "to_dict") and hasattr(rows, "columns"):  # a pandas frame, without importing pandas
        rows = pa.Table.from_pandas(rows, preserve_index=False).to_pylist()
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise SourceError(
            f"source {source.name} cannot take a {type(rows).__name__} as its rows",
            help="pass a list of dicts or tuples, a pandas DataFrame or a pyarrow Table",
        )
    return [_encode(source.name, names, number, row) for number, row in enumerate(rows)]


def _encode(source: str, names: list[str], number: int, row: Any) -> str:
    where = f"source {source}, row {number}"
    if isinstance(row, Mapping):
        unknown = [key for key in row if key not in names]
        if unknown:
            row = _case_folded(where, names, row, unknown)
    elif isinstance(row, Sequence) and not isinstance(row, str | bytes):
        if len(row) != len(names):
            raise SourceError(
                f"{where}: {len(row)} values for {len(names)} columns", help=f"the columns are {', '.join(names)}"
            )
        row = dict(zip(names, row, strict=True))
    else:
        raise SourceError(f"{where}: a row is a dict or a tuple, not a {type(row).__name__}")
    try:
        return json.dumps(row, default=_plain, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise SourceError(f"{where}: {error}") from None


def _case_folded(where: str, names: list[str], row: Mapping[Any, Any], unknown: list[Any]) -> dict[str, Any]:
    by_case = {name.lower(): name for name in names}
    for key in unknown:
        if str(key).lower() not in by_case:
            raise SourceError(f"{where}: there is no column {key}", help=suggest(str(key), names))
    return {by_case[str(key).lower()]: value for key, value in row.items()}


def _plain(value: Any) -> Any:
    """The JSON form of values that JSON has no form for."""
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return moment.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be written; use a number, text, datetime, list or dict")
