"""Messages in Avro's binary form, with one schema for all of them; a message holds the record alone. With a registry:
`registry`.

The schema is given as JSON, or as the path of a file that holds it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
class AvroDecoder:
    """One record per message, all of one schema."""

    schema: Any
    form = "Avro of this schema"

    def record(self, value: bytes) -> Mapping[str, Any]:
        return record_of(io.BytesIO(value), self.schema)


def record_of(stream: io.BytesIO, written: Any, read: Any = None) -> Mapping[str, Any]:
    """The one record of a stream, `written` with a schema; with another one to `read` it, as Avro's rules say."""
    import fastavro

    record = fastavro.schemaless_reader(stream, written, read)
    if not isinstance(record, dict) or stream.read(1):
        raise ValueError("there is more than one record")
    return record


@dataclass(frozen=True)
class AvroEncoder:
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
