"""Every transcript on Spark: whole, with a restart after every write, and one row at a time.

Starting a query takes Spark a second or two, most of it on one core: so all chosen cases are played in the background,
a few at a time, and each test waits for its own. Of the acceptance cases each is played in one of the three ways; the
other two are slow tests.

All cases are played without Spark as well (`tests/properties/test_reference_transcripts.py`), where what they are about
is decided; so of the others, but for those that say themselves that they are `slow` and those with many streams, of
which each takes as long as a case with one, the first of each page and every thirtieth behind it is quick here, whole,
and the rest is slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

import eventide
from eventide.testing import Player
from tests.properties.test_reference_transcripts import NEEDS_SPARK

AT_ONCE = 3
WAYS: dict[str, dict[str, bool]] = {"whole": {}, "restarting": {"restarting": True}, "one row": {"one_row": True}}
ALWAYS = ("core",)
EVERY = 30  # of the other cases, which are quick
MANY_STREAMS = 4


def _is_quick(case: dict[str, Any]) -> bool:
    return not case.get("slow") and str(case).upper().count("CREATE STREAM") < MANY_STREAMS


def _chosen() -> Iterator[Any]:
    for path in sorted((Path(__file__).parent.parent / "transcripts").glob("*.yaml")):
        cases = yaml.safe_load(path.read_text())
        in_turn = {*[case["name"] for case in cases if _is_quick(case)][::EVERY], *NEEDS_SPARK}
        for number, case in enumerate(cases):
            is_chosen = path.stem in ALWAYS
            writes = any("write" in step for step in case.get("steps", ()))
            harder = ["restarting"] * writes + ["one row"] * (writes and not case.get("batching"))
            ways = [*harder, "whole"]
            quick = ways[number % len(ways)] if is_chosen else "whole"
            for way in ways:
                is_quick = way == quick and (is_chosen or case["name"] in in_turn)
                marks = [] if is_quick else [pytest.mark.slow]
                yield pytest.param(case, way, id=f"{way}: {path.stem}: {case['name']}", marks=marks)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, keep_spark: Any) -> Iterator[dict[str, Future[None]]]:
    """The cases that this run has chosen, being played."""

    def play(case: dict[str, Any], way: str) -> None:
        Player(
            case, lambda folder: eventide.connect(folder, spark=keep_spark, **case.get("options", {})), **WAYS[way]
        ).play()

    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            item.name: pool.submit(play, item.callspec.params["case"], item.callspec.params["way"]) for item in items
        }
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize(("case", "way"), list(_chosen()))
def test_transcript(
    case: dict[str, Any], way: str, outcomes: dict[str, Future[None]], request: pytest.FixtureRequest
) -> None:
    outcomes[request.node.name].result()
