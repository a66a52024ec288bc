"""Every transcript on the reference model, whole, with restarts and one row at a time: the same cases as on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from eventide.testing import KernelDatabase, Player, ReferenceDatabase, UnsupportedExpressionError

FILES = sorted((Path(__file__).parent.parent / "transcripts").glob("*.yaml"))
CASES = [(path.stem, case) for path in FILES for case in yaml.safe_load(path.read_text())]
CAN_RESTART = [
    (file, case) for file, case in CASES if "steps" in case and any("write" in step for step in case["steps"])
]
CAN_SPLIT = [(file, case) for file, case in CAN_RESTART if not case.get("batching")]

# The model has no types: what Spark's analysis makes of them, or refuses, it does not know.
NEEDS_SPARK = {
    "columns of a union that do not fit",
    "a number and a text are compared as Spark compares them",
    "a condition that only Spark can evaluate, of an outer join",
}


def ids(cases: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [f"{file}: {case['name']}" for file, case in cases]


def play(case: dict[str, Any], **how: bool) -> None:
    if case["name"] in NEEDS_SPARK:
        pytest.skip("needs Spark's analysis")
    try:
        Player(case, ReferenceDatabase, **how).play()
    except UnsupportedExpressionError as error:
        pytest.skip(error.message)


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=ids(CASES))
def test_transcript_on_the_reference_model(case: dict[str, Any]) -> None:
    play(case)


@pytest.mark.parametrize("case", [case for _, case in CAN_RESTART], ids=ids(CAN_RESTART))
def test_transcript_on_the_reference_model_with_a_restart_after_every_write(case: dict[str, Any]) -> None:
    play(case, restarting=True)


@pytest.mark.parametrize("case", [case for _, case in CAN_SPLIT], ids=ids(CAN_SPLIT))
def test_transcript_on_the_reference_model_one_row_at_a_time(case: dict[str, Any]) -> None:
    play(case, one_row=True)


PLAYED = ("changes", "over", "calendar", "window_tables", "distinct", "qualify", "exists", "grouping_sets")
ON_KERNELS = [(file, case) for file, case in CASES if file in PLAYED]


@pytest.mark.parametrize("case", [case for _, case in ON_KERNELS], ids=ids(ON_KERNELS))
@pytest.mark.parametrize("restarting", [False, True])
def test_transcript_on_bare_kernels(case: dict[str, Any], restarting: bool) -> None:
    Player(case, KernelDatabase, restarting=restarting).play()
