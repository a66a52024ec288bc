"""Servers for all tests of the session, and a connector of somebody else's."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eventide.connectors.registry import forget_others
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


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Lets entry points be there, `name = module:object`, as those of an installed package are."""
    found = tmp_path / "site-packages"

    def entry_point(line: str) -> None:
        info = found / f"{line.split()[0]}_package-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {line.split()[0]}-package\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[eventide.connectors]\n{line}\n")
        for path in (found, Path(__file__).parent / "third_party"):
            monkeypatch.syspath_prepend(str(path))
        forget_others()

    yield entry_point
    monkeypatch.undo()
    sys.modules.pop("tiny_connector", None)
    forget_others()


@pytest.fixture
def tiny(install: Callable[[str], None]) -> None:
    install("tiny = tiny_connector:TINY")
