"""The page about Kafka knows every option that there is."""

from __future__ import annotations

import pytest

from eventide.sql.options import SINK_CONNECTORS, SOURCE_CONNECTORS, Connector
from tests.markdown import ROOT

PAGE = (ROOT / "docs" / "connectors" / "kafka.md").read_text()


@pytest.mark.parametrize(
    ("connector", "part"),
    [
        (SOURCE_CONNECTORS["kafka"], PAGE.split("## Source")[1].split("## Sink")[0]),
        (SINK_CONNECTORS["kafka"], PAGE.split("## Sink")[1]),
    ],
)
def test_every_option_is_in_the_page(connector: Connector, part: str) -> None:
    assert [name for name in connector.options if f"`{name}`" not in part] == []
    assert [key for key in connector.metadata if f"'{key}'" not in part] == []
