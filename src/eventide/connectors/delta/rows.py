"""The rows of one file of a Delta table, with the declared columns; inside a task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from eventide.connectors.delta.data_source import TableSettings
from eventide.connectors.delta.versions import AddedFile
from eventide.errors import SourceError


def rows_of(settings: TableSettings, file: AddedFile) -> Iterator[pa.RecordBatch]:
    with _opened(settings, file.uri) as content:
        parquet = pq.ParquetFile(content)
        there = {name.lower(): name for name in parquet.schema_arrow.names}
        values = {name.lower(): value for name, value in file.values} | {settings.received.lower(): file.modified}
        asked = [there[field.name.lower()] for field in settings.schema if field.name.lower() in there]
        for batch in parquet.iter_batches(columns=asked, use_threads=False):
            columns = [_column(batch, there, values, field, file.uri) for field in settings.schema]
            yield pa.RecordBatch.from_arrays(columns, schema=settings.schema)


def _column(
    batch: pa.RecordBatch, there: dict[str, str], values: dict[str, Any], field: pa.Field, uri: str
) -> pa.Array:
    name = field.name.lower()
    try:
        if name in there:
            return batch.column(there[name]).cast(field.type)
        value = values.get(name)
        text = pa.repeat(pa.scalar(value), batch.num_rows) if value is not None else pa.nulls(batch.num_rows)
        return text.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SourceError(
            f"{uri}: column {field.name} is not {field.type}: {error}", help="declare the column as the table has it"
        ) from None


def _opened(settings: TableSettings, uri: str) -> Any:
    path = uri.removeprefix("file://")
    if "://" not in path:
        return pa.OSFile(path)
    root = settings.versions.path.rstrip("/")
    handler = DeltaStorageHandler(root, dict(settings.versions.storage) or None)
    return fs.PyFileSystem(handler).open_input_file(uri.removeprefix(f"{root}/"))
