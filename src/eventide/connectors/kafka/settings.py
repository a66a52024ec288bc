"""How a source or a sink reaches the brokers: what users give, and what is ours to decide."""

from __future__ import annotations

from collections.abc import Mapping

from eventide.errors import EnvironmentError, OptionError
from eventide.eventtime.durations import SECOND, parse_duration

FAMILY = "kafka."
TIMEOUT = "60 seconds"  # for which brokers may be silent
_OURS = {
    "bootstrap.servers": "'servers'",
    "group.id": "'group'",
    "auto.offset.reset": "'start'",
    "enable.auto.commit": "nothing: the checkpoint has the offsets",
    "enable.auto.offset.store": "nothing: the checkpoint has the offsets",
    "enable.partition.eof": "nothing",
    "transactional.id": "nothing: it is made of the checkpoint's identity",
    "enable.idempotence": "'delivery'",
}


def check_installed(what: str) -> None:
    """Raises an EnvironmentError unless there is a client for Kafka."""
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise EnvironmentError(f"{what} needs confluent-kafka", help="pip install 'eventide[kafka]'") from None


def client_settings(what: str, options: Mapping[str, str]) -> dict[str, str]:
    """The settings of librdkafka that `options` give, with the secrets that they name."""
    given = {name.removeprefix(FAMILY): value for name, value in options.items() if name.startswith(FAMILY)}
    for name in given:
        if name in _OURS:
            raise OptionError(f"{what}: '{FAMILY}{name}' is set by Eventide", help=f"use {_OURS[name]} instead")
    return {"bootstrap.servers": options["servers"], "log_level": "0", **given}


def timeout_of(options: Mapping[str, str]) -> float:
    """Seconds for which brokers may be silent."""
    return parse_duration(options.get("timeout", TIMEOUT)) / SECOND
