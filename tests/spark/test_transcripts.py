"""Every transcript on Spark: whole, with a restart after every write, and one row at a time.

Starting a query takes Spark a second or two, most of it on one core: so all chosen cases are played in the background,
a few at a time, and each test waits for its own. The two harder ways are slow tests but for the acceptance cases, of
which half is played in the one and half in the other, and then not whole as well.

All cases are played without Spark as well (`tests/properties/test_reference_transcripts.py`), where what they are about
is decided; so every twelfth of the others is quick here, unless it says itself that it is `slow`, and the rest is slow.
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
EVERY = 12  # of the other cases, which are quick


def _chosen() -> Iterator[Any]:
    for path in sorted((Path(__file__).parent.parent / "transcripts").glob("*.yaml")):
        for number, case in enumerate(yaml.safe_load(path.read_text())):
            is_chosen = path.stem in ALWAYS
            writes = any("write" in step for step in case.get("steps", ()))
            harder = ["restarting"] * writes + ["one row"] * (writes and not case.get("batching"))
            quick = harder[number % len(harder)] if is_chosen and harder else "whole"
            has_turn = (number % EVERY == 0 and not case.get("slow")) or case["name"] in NEEDS_SPARK
            for way in ["whole", *harder]:
                is_quick = way == quick and (is_chosen or has_turn)
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
