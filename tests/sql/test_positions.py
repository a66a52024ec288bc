"""Where in a topic to begin or end."""

from __future__ import annotations

import pytest

from eventide.errors import OptionError
from eventide.plan.positions import At, Edge, Since, parse_position


def test_the_edges_a_time_and_offsets_are_places() -> None:
    assert parse_position("Latest") == Edge(latest=True)
    assert parse_position("1970-01-01T01:00:00+01:00") == Since(0)
    assert parse_position(" 0:42,1:7 ") == At(((None, 0, 42), (None, 1, 7)))
    assert parse_position("my.topic-1:0:42") == At((("my.topic-1", 0, 42),))


@pytest.mark.parametrize("text", ["", "yesterday", "0:", "a:b:c", "2026-13-01T00:00:00Z"])
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(OptionError, match="not a place in a topic"):
        parse_position(text)


def test_a_time_needs_a_zone() -> None:
    with pytest.raises(OptionError, match="without a zone"):
        parse_position("2026-11-16T12:00:00")
