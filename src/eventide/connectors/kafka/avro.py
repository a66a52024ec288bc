"""Messages in Avro's binary form, with one schema for all of them; a message holds the record alone.

The schema is given as JSON, or as the path of a file that holds it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from eventide.connectors.contract import CORRUPT
from eventide.connectors.files.write import as_json
from eventide.errors import EnvironmentError, OptionError

SCHEMA = "avro_schema"


def check_installed(what: str) -> None:
    """Raises an EnvironmentError unless there is a reader of Avro."""
    try:
        import fastavro  # noqa: F401
    except ImportError:
        raise EnvironmentError(f"{what} needs fastavro", help="pip install 'eventide[kafka]'") from None


def schema_of(what: str, options: Mapping[str, str]) -> Any:
    """The schema that the options give, as fastavro wants it. Raises an OptionError if it is none."""
    check_installed(what)
    import fastavro

    text = options[SCHEMA]
    try:
        given = json.loads(text if text.lstrip().startswith(("{", "[", '"')) else Path(text).read_text("utf-8"))
        return fastavro.parse_schema(given)
    except OSError as error:
        raise OptionError(f"{what}: '{SCHEMA}' {text} cannot be read: {error.strerror}", help=_HELP) from None
    except Exception as error:
        raise OptionError(f"{what}: '{SCHEMA}' is not a schema: {type(error).__name__}: {error}", help=_HELP) from None


_HELP = "write the schema as JSON, or the path of a file that holds it"


@dataclass(frozen=True)
class AvroMessages:
    """mapInArrow function: messages → their fields, and CORRUPT, with the other columns beside them.

    `fields` are those of the record that are wanted, with the types that they are declared as.
    """

    schema: Any
    line: str
    fields: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            decoded = [self._decoded(value) for value in batch.column(self.line).to_pylist()]
            others = batch.drop_columns([self.line])
            columns = [self._column(decoded, field) for field in self.fields]
            corrupt = pa.array([problem for _, problem in decoded], pa.string())
            names = [*others.schema.names, *self.fields.names, CORRUPT]
            yield pa.RecordBatch.from_arrays([*others.columns, *columns, corrupt], names=names)

    def _decoded(self, value: bytes | None) -> tuple[dict[str, Any], str | None]:
        """The record, and what is wrong with it."""
        import fastavro

        if value is None:
            return {}, "a message without content"
        stream = io.BytesIO(value)
        try:
            record = fastavro.schemaless_reader(stream, self.schema, None)
            if not isinstance(record, dict) or stream.tell() != len(value):
                raise ValueError("there is more than one record")
            fitted = {field.name: self._fitted(record.get(field.name), field.type) for field in self.fields}
        except Exception as error:
            return {}, f"not Avro of this schema ({type(error).__name__}: {error}): {value[:100].hex()}"
        return fitted, None

    @staticmethod
    def _fitted(value: Any, kind: pa.DataType) -> Any:
        """The value if it fits its column; raises if it does not."""
        if value is not None and pa.types.is_string(kind) and not isinstance(value, str):
            value = value.decode() if isinstance(value, bytes) else as_json(value)
        return pa.scalar(value, kind).as_py() if value is not None else None

    def _column(self, decoded: list[tuple[dict[str, Any], str | None]], field: pa.Field) -> pa.Array:
        return pa.array([record.get(field.name) for record, _ in decoded], field.type)


@dataclass(frozen=True)
class AvroRows:
    """Rows as messages."""

    sink: str
    schema: Any

    def encoded(self, row: Mapping[str, Any]) -> bytes:
        import fastavro

        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self.schema, dict(row), strict_allow_default=False)
        except Exception as error:
            raise OptionError(
                f"sink {self.sink}: a row does not fit the Avro schema: {type(error).__name__}: {error}",
                help="name the columns in the SELECT as the schema has them, with types that fit",
            ) from None
        return out.getvalue()
