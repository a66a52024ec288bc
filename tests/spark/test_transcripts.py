"""Every transcript on Spark, whole, with a restart after every write, and one row at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import eventide
from eventide.testing import Player

FILES = sorted((Path(__file__).parent.parent / "transcripts").glob("*.yaml"))
CASES = [(path.stem, case) for path in FILES for case in yaml.safe_load(path.read_text())]
CAN_RESTART = [(file, case) for file, case in CASES if "steps" in case and any("write" in step for step in case["steps"])]
CAN_SPLIT = [(file, case) for file, case in CAN_RESTART if not case.get("batching")]


def ids(cases: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [f"{file}: {case['name']}" for file, case in cases]


def play(case: dict[str, Any], spark: Any, **how: bool) -> None:
    Player(case, lambda folder: eventide.connect(folder, spark=spark, **case.get("options", {})), **how).play()


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=ids(CASES))
def test_transcript(case: dict[str, Any], keep_spark: Any) -> None:
    play(case, keep_spark)


@pytest.mark.parametrize("case", [case for _, case in CAN_RESTART], ids=ids(CAN_RESTART))
def test_transcript_with_a_restart_after_every_write(case: dict[str, Any], keep_spark: Any) -> None:
    play(case, keep_spark, restarting=True)


@pytest.mark.parametrize("case", [case for _, case in CAN_SPLIT], ids=ids(CAN_SPLIT))
def test_transcript_one_row_at_a_time(case: dict[str, Any], keep_spark: Any) -> None:
    play(case, keep_spark, one_row=True)
