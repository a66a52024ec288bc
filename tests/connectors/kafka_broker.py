"""A Kafka broker for the tests: one process, KRaft, on the loopback, from the jars that scripts/kafka.sh fetches."""

from __future__ import annotations

import base64
import contextlib
import functools
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

MISSING = "no Kafka broker: scripts/kafka.sh fetches its jars with Maven"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eventide"
JARS = Path(os.environ.get("KAFKA_JARS") or _CACHE / "kafka-4.3.1")

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": "1@127.0.0.1:{controller}",
    "log.dirs": "{folder}/data",
    "auto.create.topics.enable": "false",
    # one of everything: this broker has nobody to share with
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "num.network.threads": "2",
    "num.io.threads": "2",
}


def is_there() -> bool:
    """Whether a broker can be started here."""
    return (JARS / "complete").exists() and _java() is not None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else shutil.which("java")


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


class Broker:
    """Started again on its folder it has the same address and topics."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = _free_ports()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the broker does not run")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        port, controller = self._ports
        settings = self._folder / "server.properties"
        if not settings.exists():
            lines = (f"{name}={value}\n" for name, value in _SETTINGS.items())
            settings.write_text("".join(lines).format(port=port, controller=controller, folder=self._folder))
            # a leading dash would be taken for an option
            cluster = "e" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
            self._run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)).wait()
        self._process = self._run("kafka.Kafka", str(settings))
        for _ in range(1200):
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
                return
            time.sleep(0.05)
        raise RuntimeError(f"the broker did not start:\n{(self._folder / 'log').read_text()[-2000:]}")

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        # without its second compiler and G1 Java starts faster, and a test needs no fast broker
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
        command = [_java() or "java", *options, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{JARS}/*"]
        with (self._folder / "log").open("ab") as log:
            environment = {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"}
            return subprocess.Popen(
                [*command, *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )

    def kill(self) -> None:
        """As if the machine had lost its power."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def create(self, topic: str, partitions: int = 1) -> None:
        from confluent_kafka.admin import NewTopic

        self._admin.create_topics([NewTopic(topic, partitions, 1)], operation_timeout=20)[topic].result(30)
        while (known := self._admin.list_topics(topic, timeout=30).topics.get(topic)) is None or known.error:
            time.sleep(0.05)  # the broker has it, and is about to tell clients

    def add_partitions(self, topic: str, total: int) -> None:
        from confluent_kafka.admin import NewPartitions

        self._admin.create_partitions([NewPartitions(topic, total)], operation_timeout=20)[topic].result(30)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic], operation_timeout=20)[topic].result(30)

    @functools.cached_property
    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.address, "log_level": 0})

    def send(self, topic: str, values: Sequence[bytes | str | None], partition: int = 0, **more: Any) -> None:
        """Messages in their order; `more` is for all of them: key, headers, timestamp."""
        from confluent_kafka import Producer

        quiet = {"bootstrap.servers": self.address, "enable.idempotence": True, "log_level": 0}
        producer = Producer({**quiet, "queue.buffering.max.messages": 10_000_000})
        for value in values:
            producer.produce(topic, value, partition=partition, **more)
        assert producer.flush(60) == 0

    def read(self, topic: str) -> list[Any]:
        """All messages that are committed, as any consumer sees them."""
        from confluent_kafka import Consumer, TopicPartition

        reader = Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": uuid.uuid4().hex,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        partitions = reader.list_topics(topic, timeout=30).topics[topic].partitions
        reader.assign([TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            message = reader.poll(30)
            assert message is not None, "the broker is silent"
            if message.error() is None:
                found.append(message)
            else:
                ended += 1
        reader.close()
        return found


@contextlib.contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    broker = Broker(folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
