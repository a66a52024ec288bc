"""Which connector writes a sink."""

from __future__ import annotations

import pytest

from eventide.connectors.writers import open_sink
from eventide.errors import OptionError
from eventide.plan.logical import Sink


def test_a_sink_of_an_unknown_connector_is_an_error_that_lists_the_others() -> None:
    with pytest.raises(OptionError, match="the connector 'fles', which cannot be written to") as raised:
        open_sink(Sink("out", "o", "fles"), "identity")
    assert raised.value.help is not None and raised.value.help.startswith("did you mean files? known: console, delta")


def test_rows_of_an_embedded_sink_stay_with_the_stream() -> None:
    assert open_sink(Sink("out", "o", "embedded"), "identity") is None
