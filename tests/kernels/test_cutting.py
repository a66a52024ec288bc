"""State that is cut into other shards, up and down, in the middle of a transcript: all goes on as it would have."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventide.testing import KernelDatabase, Player, UnsupportedExpressionError
from eventide.testing.kernel_runner import KernelRunner
from tests.properties.test_reference_transcripts import NEEDS_SPARK

FILES = (
    "core",
    "tumbling",
    "windows",
    "time",
    "unbounded",
    "forward",
    "distinct",
    "grouping_sets",
    "compose",
    "calendar",
)
FOLDER = Path(__file__).parent.parent / "transcripts"
CASES = [
    (file, case)
    for file in FILES
    for case in yaml.safe_load((FOLDER / f"{file}.yaml").read_text())
    if "steps" in case and case["name"] not in NEEDS_SPARK
]
MOVED: set[str] = set()


class RescaledDatabase(KernelDatabase):
    """Every time it is opened all streams that can be moved get another number of shards."""

    numbers = itertools.cycle([5, 1, 3, 2, 8])

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        for stream in self._state.streams.values():
            if isinstance(stream.model, KernelRunner) and stream.model.is_movable:
                stream.model.rescale(next(self.numbers))
                MOVED.add(type(stream.model.spec.build()._inner).__name__)


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[f"{file}: {case['name']}" for file, case in CASES])
def test_a_stream_goes_on_in_other_shards(case: dict[str, Any]) -> None:
    try:
        Player(case, RescaledDatabase, restarting=True).play()
    except UnsupportedExpressionError as error:
        pytest.skip(error.message)


def test_all_kernels_that_keep_groups_have_moved() -> None:
    assert {"AggregateAtClose", "AggregateEarly", "AggregateUnbounded", "Sessions", "Forward"} <= MOVED
