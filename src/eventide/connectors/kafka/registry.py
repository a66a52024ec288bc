"""A schema registry that answers as Confluent's does: which schema an Avro message was written with.

A message begins with a zero byte and the number of its schema, four bytes with the highest first; then comes the
record. What a number stands for never changes, so each is asked for once in a process.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import struct
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventide.connectors.kafka.avro import AvroEncoder, record_of, schema_of
from eventide.errors import OptionError, SinkError, SourceError

REGISTRY, USER, PASSWORD, SUBJECT = "avro_registry", "avro_registry_user", "avro_registry_password", "avro_subject"
_HEADER = struct.Struct(">bI")
_SECONDS = 20.0  # for which the registry may be silent
_NOT_FOUND = 404


class UnknownSchemaError(Exception):
    """The registry does not know the schema: whoever wrote the message used another one."""


@dataclass(frozen=True)
class Registry:
    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Registry:
        return cls(options[REGISTRY].rstrip("/"), options.get(USER), options.get(PASSWORD))

    def schema(self, number: int) -> Any:
        """The schema with this number, as fastavro wants it. Raises an UnknownSchemaError if there is none."""
        return _schema(self, number)

    def latest(self, subject: str) -> tuple[int, Any]:
        """The newest schema of a subject, and its number."""
        found = self.ask(f"subjects/{_quoted(subject)}/versions/latest")
        return found["id"], parsed(self, found)

    def registered(self, subject: str, schema: str) -> int:
        """The number of a schema, which the subject gets if it does not have it."""
        number: int = self.ask(f"subjects/{_quoted(subject)}/versions", {"schema": schema})["id"]
        return number

    def ask(self, path: str, content: Any = None) -> Any:
        """The answer to a question, in JSON. Raises a SourceError if there is none."""
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if content is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        if self.user is not None:
            pair = f"{self.user}:{self.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            told = _told(error)
            if error.code == _NOT_FOUND:
                raise UnknownSchemaError(f"the registry has no {path}: {told}") from None
            raise self._failure(f"{error.code} {told}") from None
        except (OSError, ValueError) as error:
            raise self._failure(str(getattr(error, "reason", error))) from None

    def _failure(self, told: str) -> SourceError:
        return SourceError(
            f"the schema registry at {self.url} does not help: {told}",
            help="mend the cause and run the stream again: it goes on from where it was",
        )


@functools.lru_cache(1000)
def _schema(registry: Registry, number: int) -> Any:
    return parsed(registry, registry.ask(f"schemas/ids/{number}"))


def parsed(registry: Registry, answer: Mapping[str, Any], names: dict[str, Any] | None = None) -> Any:
    """A schema of the registry's, with those that it refers to."""
    import fastavro

    kind = answer.get("schemaType") or "AVRO"
    if kind != "AVRO":
        raise UnknownSchemaError(f"the schema is {kind}, not Avro")
    named: dict[str, Any] = {} if names is None else names
    for each in answer.get("references") or ():
        path = f"subjects/{_quoted(each['subject'])}/versions/{each['version']}"
        parsed(registry, registry.ask(path), named)
    return fastavro.parse_schema(json.loads(answer["schema"]), named_schemas=named)


def check_registry(what: str, options: Mapping[str, str]) -> None:
    """Raises an OptionError unless the options can name a registry."""
    url = options[REGISTRY]
    parts = urllib.parse.urlsplit(url)
    if "${" not in url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise OptionError(
            f"{what}: '{REGISTRY}' is not the address of a registry: {url}", help="write http://host:port"
        )
    if parts.username is not None or parts.password is not None:
        raise OptionError(
            f"{what}: '{REGISTRY}' has a user or a password in it", help=f"use '{USER}' and '{PASSWORD}' for them"
        )
    if PASSWORD in options and USER not in options:
        raise OptionError(f"{what}: '{PASSWORD}' is there, and no '{USER}'", help=f"add '{USER}' = '...'")


@dataclass(frozen=True)
class RegistryDecoder:
    """Records as the registry says that they were written; with a `reader` schema as that says, by Avro's rules."""

    registry: Registry
    reader: Any = None
    form = "Avro of a registered schema"

    def record(self, value: bytes) -> Mapping[str, Any]:
        if len(value) < _HEADER.size or value[0] != 0:
            raise ValueError("it does not begin with the number of a schema")
        _, number = _HEADER.unpack_from(value)
        return record_of(io.BytesIO(value[_HEADER.size :]), self.registry.schema(number), self.reader)


class RegistryEncoder:
    """Rows as records of the schema that is given, which is registered, or of the newest of the subject."""

    def __init__(self, sink: str, options: Mapping[str, str]) -> None:
        self._sink, self._options = sink, options
        self._opened: tuple[bytes, AvroEncoder] | None = None

    def encoded(self, row: Mapping[str, Any]) -> bytes:
        if self._opened is None:
            self._opened = self._open()
        header, encoder = self._opened
        return header + encoder.encoded(row)

    def _open(self) -> tuple[bytes, AvroEncoder]:
        options, registry = self._options, Registry.of(self._options)
        subject = options.get(SUBJECT, f"{options['topic']}-value")
        try:
            if "avro_schema" in options:
                schema = schema_of(f"sink {self._sink}", options)
                number = registry.registered(subject, json.dumps(_plain(schema)))
            else:
                number, schema = registry.latest(subject)
        except (SourceError, UnknownSchemaError) as error:
            told = error.message if isinstance(error, SourceError) else str(error)
            raise SinkError(
                f"sink {self._sink}: {told}", help="mend the cause and run the stream again: nothing was written"
            ) from None
        return _HEADER.pack(0, number), AvroEncoder(self._sink, schema)


def _plain(schema: Any) -> Any:
    """A schema without what fastavro has noted in it."""
    if isinstance(schema, dict):
        return {name: _plain(part) for name, part in schema.items() if not name.startswith("__")}
    return [_plain(part) for part in schema] if isinstance(schema, list) else schema


def _quoted(name: str) -> str:
    return urllib.parse.quote(name, safe="")


def _told(error: urllib.error.HTTPError) -> str:
    """The registry's own words."""
    try:
        return str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)
