"""Messages that hold one record each, in a form that Python decodes: their columns, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from eventide.connectors.contract import CORRUPT
from eventide.connectors.files.write import as_json
from eventide.errors import SourceError


class Decoder(Protocol):
    """`form` is what a message should be, in words."""

    @property
    def form(self) -> str: ...

    def record(self, value: bytes) -> Mapping[str, Any]:
        """The fields of a message, by name; raises whatever it likes if it is none.

        A SourceError says that nobody can tell now, and ends the stream rather than the message.
        """
        ...


class Encoder(Protocol):
    def encoded(self, row: Mapping[str, Any]) -> bytes:
        """A row as a message; raises an OptionError if it does not fit."""
        ...


@dataclass(frozen=True)
class RecordMessages:
    """mapInArrow function: messages → their fields, and CORRUPT, with the other columns beside them.

    `fields` are those of the record that are wanted, with the types that they are declared as.
    """

    decoder: Decoder
    line: str
    fields: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            decoded = [self._decoded(value) for value in batch.column(self.line).to_pylist()]
            others = batch.drop_columns([self.line])
            columns = [pa.array([record.get(each.name) for record, _ in decoded], each.type) for each in self.fields]
            corrupt = pa.array([problem for _, problem in decoded], pa.string())
            names = [*others.schema.names, *self.fields.names, CORRUPT]
            yield pa.RecordBatch.from_arrays([*others.columns, *columns, corrupt], names=names)

    def _decoded(self, value: bytes | None) -> tuple[dict[str, Any], str | None]:
        """The record, and what is wrong with it."""
        if value is None:
            return {}, "a message without content"
        try:
            record = self.decoder.record(value)
            return {field.name: _fitted(record.get(field.name), field.type) for field in self.fields}, None
        except SourceError:
            raise
        except Exception as error:
            return {}, f"not {self.decoder.form} ({type(error).__name__}: {error}): {value[:100].hex()}"


def _fitted(value: Any, kind: pa.DataType) -> Any:
    """The value if it fits its column; raises if it does not."""
    if value is not None and pa.types.is_string(kind) and not isinstance(value, str):
        value = value.decode() if isinstance(value, bytes) else as_json(value)
    return pa.scalar(value, kind).as_py() if value is not None else None
