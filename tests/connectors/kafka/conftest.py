"""One broker for all tests of the session."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.connectors.kafka_broker import MISSING, Broker, is_there, running_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    pytest.importorskip("confluent_kafka", reason="no confluent-kafka: pip install 'eventide[kafka]'")
    if not is_there():
        pytest.skip(MISSING)
    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def new_topic(broker: Broker) -> Callable[..., str]:
    """Makes a topic of the test's own."""

    def create(partitions: int = 1) -> str:
        name = f"t{uuid.uuid4().hex[:10]}"
        broker.create(name, partitions)
        return name

    return create
