"""What is in the topics of a source: their partitions, and the offsets at which these begin and end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from eventide.connectors.kafka.offsets import Offsets, Partition, TopicChoice
from eventide.errors import OptionError, SourceError
from eventide.plan.positions import Edge, Position, Since


class Topics:
    """Asks the brokers; every question is one request to each of them at most."""

    def __init__(self, source: str, settings: Mapping[str, str], choice: TopicChoice, seconds: float) -> None:
        """`seconds` is how long the brokers may take to answer."""
        self._source = source
        self._servers = settings["bootstrap.servers"]
        self._choice = choice
        self._seconds = seconds
        self._errors: list[str] = []
        own = {name: value for name, value in settings.items() if name != "isolation.level"}
        self._admin = AdminClient({**own, "error_cb": lambda error: self._errors.append(error.str())})
        is_dirty = settings.get("isolation.level") == "read_uncommitted"
        self._isolation = IsolationLevel.READ_UNCOMMITTED if is_dirty else IsolationLevel.READ_COMMITTED

    def partitions(self) -> list[Partition]:
        """Of all chosen topics; an error if one that is named is not there."""
        one = self._choice.names[0] if len(self._choice.names) == 1 else None
        try:
            found = (
                self._admin.list_topics(one, timeout=self._seconds).topics
                if one
                else self._admin.list_topics(timeout=self._seconds).topics
            )
        except KafkaException as error:
            raise self._unreachable(error.args[0].str()) from None
        there = {name: topic for name, topic in found.items() if topic.error is None}
        for name, topic in found.items():
            if topic.error is not None and topic.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise SourceError(f"source {self._source}: topic {name}: {topic.error.str()}")
        for name in self._choice.names:
            if name not in there:
                raise SourceError(
                    f"source {self._source}: there is no topic {name} at {self._servers}",
                    help="create it, or correct the option 'topic'",
                )
        all = [(name, number) for name in self._choice.chosen(there) for number in sorted(there[name].partitions)]
        missing = self._choice.missing(all)
        if missing is not None:
            raise SourceError(
                f"source {self._source}: there is no partition {missing[1]} of topic {missing[0] or 'any'} at "
                f"{self._servers}",
                help="correct the option 'partitions'",
            )
        return [partition for partition in all if self._choice.takes(partition)]

    def at(self, position: Position, partitions: Collection[Partition]) -> Offsets:
        """Where the position is in each partition."""
        if isinstance(position, Edge):
            edge = OffsetSpec.latest() if position.latest else OffsetSpec.earliest()
            found = self._listed(dict.fromkeys(partitions, edge))
            if any(offset < 0 for offset in found.values()):  # a broker that is just going away gives no offset
                raise self._unreachable("they know no offsets")
            return found
        if isinstance(position, Since):
            found = self._listed(dict.fromkeys(partitions, OffsetSpec.for_timestamp(position.micros // 1000)))
            behind = [partition for partition, offset in found.items() if offset < 0]
            return {**found, **self.at(Edge(latest=True), behind)}
        topics = {topic for topic, _ in partitions}
        given: Offsets = {}
        for topic, number, offset in position.offsets:
            if topic is None and len(topics) > 1:
                raise OptionError(
                    f"source {self._source}: it reads {len(topics)} topics", help="write topic:partition:offset"
                )
            partition = topic or next(iter(topics)), number
            if partition not in partitions:
                raise OptionError(f"source {self._source}: there is no partition {number} of topic {partition[0]}")
            given[partition] = offset
        rest = [partition for partition in partitions if partition not in given]
        return {**self.at(Edge(latest=False), rest), **given}

    def commit(self, group: str, offsets: Offsets) -> None:
        """Let the group's members, and the usual tools, see how far the stream is."""
        marks = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, marks)]
        for answer in self._admin.alter_consumer_group_offsets(request, request_timeout=self._seconds).values():
            answer.result()

    def _listed(self, wanted: dict[Partition, Any]) -> Offsets:
        if not wanted:
            return {}
        asked = {TopicPartition(*partition): spec for partition, spec in wanted.items()}
        answers = self._admin.list_offsets(asked, isolation_level=self._isolation, request_timeout=self._seconds)
        try:
            return {(each.topic, each.partition): answer.result().offset for each, answer in answers.items()}
        except KafkaException as error:
            raise self._unreachable(error.args[0].str()) from None

    def _unreachable(self, error: str) -> SourceError:
        told = self._errors[-1] if self._errors else error
        return SourceError(
            f"source {self._source}: the brokers {self._servers} do not answer: {told}",
            help="start them, or correct 'servers' and the options 'kafka.…'; then run the stream again",
        )
