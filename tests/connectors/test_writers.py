"""Which connector writes a sink."""

from __future__ import annotations

import pytest

from eventide.connectors.writers import CONNECTORS, open_sink
from eventide.errors import OptionError
from eventide.plan.logical import Sink
from eventide.sql.options import SINK_CONNECTORS


def test_a_sink_of_an_unknown_connector_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(OptionError, match="the connector 'fles', which cannot be written to") as raised:
        open_sink(Sink("out", "o", "fles"), "identity")
    assert raised.value.help == "did you mean files? known: console, delta, embedded, files, kafka, postgres"


def test_every_connector_that_sql_takes_has_a_writer() -> None:
    assert set(CONNECTORS) == SINK_CONNECTORS.keys()
    assert open_sink(Sink("out", "o", "embedded"), "identity") is None
