"""`kafka`: topics as sources and sinks, by librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from eventide.connectors.declaration import Connector, Family, Opening, Option, Promise, Reads, Writes
from eventide.connectors.files.connector import CSV
from eventide.connectors.kafka.settings import FAMILY, TIMEOUT, check_installed, client_settings

if TYPE_CHECKING:
    from eventide.connectors.sink import Sink
    from eventide.plan.logical import Source

_CLIENT = Family(
    FAMILY,
    "anything else that [librdkafka](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md) takes: "
    "`kafka.security.protocol`, `kafka.sasl.mechanism`, `kafka.ssl.ca.location`. A password is named, not written: "
    "`'kafka.sasl.password' = '${env:KAFKA_PASSWORD}'` ([secrets](../sql.md#secrets))",
    secrets=r".*(password|secret|\.pem|sasl\.jaas\.config)",
)
_REGISTRY: Mapping[str, Option] = {
    "avro_registry": Option(
        only_format="avro",
        doc="the address of a schema registry that answers as Confluent's does; messages then begin with the number of "
        "their schema",
    ),
    "avro_registry_user": Option(only_format="avro", doc="who asks the registry"),
    "avro_registry_password": Option(only_format="avro", is_secret=True, doc="the user's"),
}
_PROTOBUF: Mapping[str, Option] = {
    "protobuf_descriptor": Option(
        only_format="protobuf",
        doc="the path of a file that `protoc --include_imports --descriptor_set_out=FILE` has written",
    ),
    "protobuf_message": Option(only_format="protobuf", doc="the full name of the message: `shop.Click`"),
}
_TIMEOUT = Option("span", default=TIMEOUT, doc="for how long the brokers may be silent")
_SERVERS = Option(is_required=True, doc="brokers to begin with: `host:port, host:port`")

_SOURCE: Mapping[str, Option] = {
    "servers": _SERVERS,
    "topic": Option(identifies=True, doc="one topic, or several with commas"),
    "topic_pattern": Option(
        instead_of="topic",
        both_say="which topics are read",
        identifies=True,
        doc="instead: a regular expression for the whole name; topics that come later are found",
    ),
    "partitions": Option(
        identifies=True,
        doc="only these partitions: `0, 2`, or with several topics `clicks:0, views:1`; all of them without it",
    ),
    "format": Option(
        "choice",
        ("json", "csv", "avro", "protobuf", "raw"),
        default="json",
        doc="`json`: an object per message, or an array of them; `csv`: a record per message; `avro`: a record in "
        "Avro's binary form, with 'avro_registry' behind the number of its schema; `protobuf`: a message of "
        "Protocol Buffers; `raw`: the message as one column, `STRING` or `BINARY`",
    ),
    "avro_schema": Option(
        only_format="avro",
        doc="the schema of messages as JSON, or the path of a file that holds it; with a registry: the schema as which "
        "messages of older and newer ones are read, or none",
    ),
    **_REGISTRY,
    **_PROTOBUF,
    **CSV,
    "start": Option(
        "position",
        default="earliest",
        doc="for a new checkpoint: `earliest`, `latest`, a time such as `2026-11-16T12:00:00Z`, or offsets such as "
        "`0:42, 1:7` (with several topics `clicks:0:42`); partitions that are not named begin with their first message",
    ),
    "end": Option(
        "position",
        doc="the same: what comes after it is not read. `latest` is what is there when the stream first runs",
    ),
    "missing": Option(
        "choice",
        ("fail", "skip"),
        default="fail",
        doc="when messages have gone before they were read: the stream ends with an error, or goes on without them",
    ),
    "group": Option(
        doc="a consumer group to which offsets are committed after each batch, for tools that show lag. The stream "
        "itself goes by its checkpoint and never joins the group"
    ),
    "timeout": _TIMEOUT,
    "max_messages_per_batch": Option(
        "count", doc="about how many messages a batch has at most; each partition gives its share"
    ),
    "target_latency": Option(
        "span",
        instead_of="max_messages_per_batch",
        doc="instead: batches as large as fit into this time; see [batches.md](../batches.md)",
    ),
}

_SINK: Mapping[str, Option] = {
    "servers": _SERVERS,
    "topic": Option(is_required=True, identifies=True, doc="must exist, or the brokers must make it"),
    "key": Option(doc="the column whose text is the key of the message; none: no key"),
    "format": Option(
        "choice",
        ("json", "avro", "protobuf"),
        default="json",
        doc="`json`: an object per row; `avro`: Avro's binary form; `protobuf`: that of Protocol Buffers",
    ),
    "avro_schema": Option(
        only_format="avro",
        doc="the schema of messages as JSON, or the path of a file that holds it; it is registered where there is a "
        "registry, whose newest schema counts without it",
    ),
    **_REGISTRY,
    "avro_subject": Option(only_format="avro", doc="under which the registry has the schema; default: `TOPIC-value`"),
    **_PROTOBUF,
    "headers": Option(
        doc="columns whose values are headers of the message, named after them: texts as they are, bytes as they are, "
        "others as JSON; of a MAP every entry. NULL is no header"
    ),
    "delivery": Option(
        "choice",
        ("exactly_once", "at_least_once"),
        default="exactly_once",
        doc="whether a batch is a transaction; without it a batch that comes again is written again",
    ),
    "timeout": _TIMEOUT,
}


def _check(what: str, options: Mapping[str, str]) -> None:
    client_settings(what, options)
    if "partitions" in options:
        from eventide.connectors.kafka.offsets import parse_partitions

        parse_partitions(options["partitions"])
    from eventide.connectors.kafka.formats import check_format

    check_format(what, options)


def _ready(source: Source) -> None:
    from eventide.connectors.kafka.fused import check_topics

    check_topics(source)


def _open(opening: Opening) -> Sink:
    check_installed(f"the sink {opening.name}")
    from eventide.connectors.kafka.write import KafkaSink

    return KafkaSink(opening.name, opening.options, opening.identity, opening.json_columns, opening.hide)


KAFKA = Connector(
    name="kafka",
    doc="the messages of topics",
    source=Reads(
        options=_SOURCE,
        one_of=("topic", "topic_pattern"),
        family=_CLIENT,
        check=_check,
        ready=_ready,
        decoded_in_tasks=("json", "raw"),
        is_paced=True,
        has_partitions=True,
        metadata={
            "topic": ("string",),
            "partition": ("int", "bigint"),
            "offset": ("bigint",),
            "timestamp": ("timestamp",),
            "key": ("string", "binary"),
            "headers": ("map<string,binary>", "map<string,string>"),
        },
    ),
    sink=Writes(options=_SINK, family=_CLIENT, check=_check, promise=Promise.EXACTLY_ONCE, open=_open),
)
