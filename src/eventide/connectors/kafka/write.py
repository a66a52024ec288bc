"""Rows as messages of a topic, exactly once: the rows of a batch and its number in one transaction.

The number of the next batch is kept as the offset of a consumer group that nobody joins, called like the producer. A
transaction writes it with the rows, so that both are there or neither is. A new producer first ends what a dead one of
its name has left open, and shuts out one that is not dead; only then it asks for the number. A batch below it is there.

Readers see a batch when it is whole if they read what is committed ('isolation.level' = 'read_committed').
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from eventide.connectors.files.write import as_json
from eventide.connectors.kafka.formats import encoder_of
from eventide.connectors.kafka.settings import client_settings, timeout_of
from eventide.errors import OptionError, SinkError
from eventide.result import Result

_FULL = 0.05  # seconds to wait for room in the producer's buffer


@dataclass(frozen=True)
class Outgoing:
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]


class KafkaSink:
    """`identity` is the stream's in its checkpoint; `hide` takes secrets out of a text."""

    def __init__(
        self,
        name: str,
        options: Mapping[str, str],
        identity: str,
        json_columns: tuple[str, ...] = (),
        hide: Callable[[str], str] = str,
    ) -> None:
        self._name, self._topic, self._key = name, options["topic"], options.get("key")
        self._headers = [part.strip() for part in options.get("headers", "").split(",") if part.strip()]
        self._settings = client_settings(f"sink {name}", options)
        self._seconds = timeout_of(options)
        self._is_exact = options.get("delivery", "exactly_once") == "exactly_once"
        self._id = f"eventide.{identity}.{name}"
        self._encoder = encoder_of(name, options)
        self._json_columns, self._hide = json_columns, hide
        self._opened: _Exact | _AtLeast | None = None

    def write(self, batch: int, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        for option, names in (("key", [self._key] if self._key is not None else []), ("headers", self._headers)):
            missing = [name for name in names if name not in rows.column_names]
            if missing:
                listed = ", ".join(rows.column_names)
                raise OptionError(
                    f"sink {self._name}: there is no column {missing[0]}", help=f"'{option}' is one of: {listed}"
                )
        try:
            if self._opened is None:
                self._opened = self._producer()
            self._opened.write(batch, self._messages(rows))
        except KafkaException as error:
            self._opened = None  # the next one ends what this one has left open
            raise self._failure(batch, error) from None

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _producer(self) -> _Exact | _AtLeast:
        make = _Exact if self._is_exact else _AtLeast
        return make(self._settings, self._topic, self._id, self._seconds)

    def _messages(self, rows: pa.Table) -> Iterator[Outgoing]:
        for row in Result(rows, self._json_columns):
            key = None if self._key is None else row[self._key]
            headers = [header for name in self._headers for header in _headers(name, row[name])]
            value = as_json(row).encode() if self._encoder is None else self._encoder.encoded(row)
            yield Outgoing(None if key is None else _text(key).encode(), value, headers)

    def _failure(self, batch: int, error: KafkaException) -> SinkError:
        told = self._hide(str(error.args[0].str()))
        return SinkError(
            f"sink {self._name}: batch {batch} could not be written to topic {self._topic} at "
            f"{self._settings['bootstrap.servers']}: {told}",
            help="mend the cause and run the stream again: the batch is written again, and takes effect once",
        )


class _Exact:
    """Writes batches in transactions."""

    def __init__(self, settings: Mapping[str, str], topic: str, name: str, seconds: float) -> None:
        self._topic, self._seconds = topic, seconds
        self._producer = Producer({"linger.ms": "10", **settings, "transactional.id": name})
        # of a transaction that is being ended `committed` then awaits the end
        own = {"group.id": name, "isolation.level": "read_committed", "enable.auto.commit": "false"}
        self._numbers = Consumer({**_for_consumers(settings), **own})
        self._producer.init_transactions(seconds)
        (number,) = self._numbers.committed([TopicPartition(topic, 0)], seconds)
        if number.error is not None:
            raise KafkaException(number.error)
        self._next = max(number.offset, 0)

    def write(self, batch: int, messages: Iterator[Outgoing]) -> None:
        if batch < self._next:
            return
        self._producer.begin_transaction()
        _produce(self._producer, self._topic, messages, self._seconds)
        number = [TopicPartition(self._topic, 0, batch + 1)]
        self._producer.send_offsets_to_transaction(number, self._numbers.consumer_group_metadata(), self._seconds)
        self._producer.commit_transaction(self._seconds)
        self._next = batch + 1

    def close(self) -> None:
        self._numbers.close()


class _AtLeast:
    """Writes batches as they come: one that comes again is written again."""

    def __init__(self, settings: Mapping[str, str], topic: str, name: str, seconds: float) -> None:
        self._topic, self._seconds = topic, seconds
        self._failures: list[Any] = []
        self._producer = Producer({"linger.ms": "10", **settings, "enable.idempotence": "true"})

    def write(self, batch: int, messages: Iterator[Outgoing]) -> None:
        self._failures.clear()
        try:
            _produce(self._producer, self._topic, messages, self._seconds, on_delivery=self._delivered)
            if self._producer.flush(self._seconds):
                raise KafkaException(_timed_out())
        except KafkaException:
            self._producer.purge()
            raise
        if self._failures:
            raise KafkaException(self._failures[0])

    def _delivered(self, error: Any, _: Any) -> None:
        if error is not None:
            self._failures.append(error)

    def close(self) -> None:
        self._producer.flush(self._seconds)


def _produce(producer: Producer, topic: str, messages: Iterator[Outgoing], seconds: float, **more: Any) -> None:
    """Raises a KafkaException if the producer's buffer is full, and no room is made for so many seconds."""
    for each in messages:
        until = None
        while True:
            try:
                producer.produce(topic, key=each.key, value=each.value, headers=each.headers or None, **more)
                break
            except BufferError:
                until = time.monotonic() + seconds if until is None else until
                if time.monotonic() > until:
                    raise KafkaException(_timed_out()) from None
                producer.poll(_FULL)


def _timed_out() -> Any:
    from confluent_kafka import KafkaError

    return KafkaError(KafkaError._MSG_TIMED_OUT)


def _for_consumers(settings: Mapping[str, str]) -> dict[str, str]:
    """What a user has set for a producer alone is nothing to a consumer, which would complain."""
    only = ("linger.ms", "batch.", "compression.", "acks", "queue.buffering.", "message.timeout", "transaction.")
    return {name: value for name, value in settings.items() if not name.startswith(only)}


def _headers(name: str, value: Any) -> Iterator[tuple[str, bytes]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _headers(_text(key), item)
    elif value is not None:
        yield name, value if isinstance(value, bytes) else _text(value).encode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else as_json(value)
