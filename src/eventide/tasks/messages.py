"""Messages of a log, such as Kafka's, decoded inside a task: many at a time, and what Arrow refuses left to Spark.

A message is like a line of a file, with more beside it: a key, headers, a place, a time. These become columns as well,
where the source declares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from eventide.tasks.expressions import TYPES
from eventide.tasks.json_lines import JsonLines

_FEW = 64  # so few messages are not worth splitting
_PIECES = 8
_NOTHING = b"null"  # what stands for a message without content: no object, so Spark's reader says that it is none
HEADERS = pa.map_(pa.string(), pa.binary())


class Message(Protocol):
    """What is asked of a message; `confluent_kafka.Message` is one."""

    def value(self) -> bytes | None: ...
    def key(self) -> bytes | None: ...
    def headers(self) -> Any: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]: ...


@dataclass(frozen=True)
class Run:
    """Messages of one partition, in their order."""

    topic: str
    partition: int
    messages: Sequence[Message]


@dataclass(frozen=True)
class Decoded:
    """Messages `first` to `last` of a run: as rows, or as they are."""

    first: int
    last: int
    rows: pa.Table | None
    lines: Sequence[bytes | None]


@dataclass(frozen=True)
class Messages:
    """How messages are decoded. `columns` are those that are read, by name and type; `metadata` says which of them are
    no part of the content, and what they are.

    `format` is json, raw (all of the content in one column), or another that only Spark decodes.
    """

    format: str
    columns: tuple[tuple[str, str], ...]
    metadata: tuple[tuple[str, str], ...] = ()
    iso: str | None = None
    left_to_spark: bool = False

    @property
    def content(self) -> tuple[tuple[str, str], ...]:
        """The columns that are inside a message."""
        beside = {name for name, _ in self.metadata}
        return tuple((name, type) for name, type in self.columns if name not in beside)

    def decode(self, run: Run) -> Iterator[Decoded]:
        """All messages of a run, in their order."""
        values = [message.value() for message in run.messages]
        if self.left_to_spark:
            yield Decoded(0, len(values), None, as_lines(values) if self.format == "json" else values)
        elif self.format == "raw":
            yield Decoded(0, len(values), self._with_metadata(self._raw(values), run, 0, len(values)), [])
        else:
            yield from self._split(JsonLines(self.content, self.iso), values, run, 0, len(values))

    def _split(
        self, reader: JsonLines, values: list[bytes | None], run: Run, first: int, last: int
    ) -> Iterator[Decoded]:
        count = last - first
        part = values[first:last]
        rows = None if None in part else reader.rows_of(_joined(part), count)
        if rows is not None:
            yield Decoded(first, last, self._with_metadata(rows, run, first, last), [])
        elif count <= _FEW:
            yield Decoded(first, last, None, as_lines(part))
        else:
            step = -(-count // _PIECES)
            for begin in range(first, last, step):
                yield from self._split(reader, values, run, begin, min(begin + step, last))

    def _raw(self, values: list[bytes | None]) -> pa.Table:
        return (
            pa.table({name: _as_type(values, type) for name, type in self.content}) if self.content else _empty(values)
        )

    def _with_metadata(self, rows: pa.Table, run: Run, first: int, last: int) -> pa.Table:
        types = dict(self.columns)
        messages = run.messages[first:last]
        for name, key in self.metadata:
            if name in types:
                rows = rows.append_column(name, _metadata(key, types[name], run, messages))
        return rows


def received(messages: Sequence[Message]) -> pa.Array:
    """When the broker, or the producer, says that messages came, in microseconds; NULL where nobody says."""
    return _micros([message.timestamp() for message in messages])


def beside(run: Run, first: int, last: int, keys: Sequence[str]) -> pa.Table:
    """What messages have beside their content, by its own names."""
    types = {"topic": "string", "partition": "int", "offset": "bigint", "key": "binary", "headers": "headers"}
    messages = run.messages[first:last]
    return pa.table({key: _metadata(key, types[key], run, messages) for key in keys})


def as_lines(values: Sequence[bytes | None]) -> list[bytes | None]:
    """For Spark to decode: a message that holds nothing is no row, but must not disappear."""
    return [value if value and not value.isspace() else _NOTHING for value in values]


def lane(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def _joined(values: Sequence[bytes | None]) -> bytes:
    return b"\n".join([*filter(None, values), b""])


def _metadata(key: str, type: str, run: Run, messages: Sequence[Message]) -> pa.Array:
    match key:
        case "topic":
            return pa.repeat(pa.scalar(run.topic), len(messages))
        case "partition":
            return pa.repeat(pa.scalar(run.partition, TYPES[type]), len(messages))
        case "offset":
            return pa.array([message.offset() for message in messages], pa.int64())
        case "timestamp":
            return received(messages).cast(TYPES["timestamp"])
        case "key":
            return _as_type([message.key() for message in messages], type)
        case _:
            return pa.array([_headers(message) for message in messages], HEADERS)


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    """By name; of several with one name the last counts, as in a map."""
    return list(dict(message.headers() or ()).items())


def _as_type(values: Sequence[bytes | None], type: str) -> pa.Array:
    """Bytes, or a text: whoever reads it looks whether it is UTF-8."""
    array = pa.array(values, pa.binary())
    return array if type == "binary" else pa.Array.from_buffers(pa.string(), len(array), array.buffers())


def _empty(values: Sequence[bytes | None]) -> pa.Table:
    return pa.table({"": pa.nulls(len(values))})


def _micros(times: list[tuple[int, int]]) -> pa.Array:
    kinds, millis = np.array(times, np.int64).reshape(-1, 2).T
    return pa.array(millis * 1000, mask=kinds == 0)
