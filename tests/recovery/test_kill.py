"""kill -9 of the driver and of Python workers, in every phase of a batch: the outcome is that of a run that nobody
disturbed.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.connectors.postgres_server import MISSING, binaries, server
from tests.recovery import scenarios
from tests.recovery.killer import Killer, Plan

pytestmark = pytest.mark.timeout(2400)  # all lives together are the set-up of the first test

BATCHES = 3
PARTS = ("rows", "late", "duplicate", "rejected", "files", "late files", "dead letters", "function")


@dataclass(frozen=True)
class Trial:
    """What runs, when its drivers die, and how many workers are killed for each thing that the writer reports.

    A batch tells once that it is written, and again of each sink: so what waits for the rarer sign comes first, while
    there are batches left.
    """

    names: tuple[str, ...]
    deaths: tuple[str, ...]
    workers: float


# A life costs up to half a minute, and so does a stream's worker for every few times that it is killed. So here is one
# scenario for each thing that a crash may break: state, limits, two sources, a text that changes, a stream that reads
# another, a table with keys. The slow one has all windows, the soak run all moments.
QUICK = Trial(("tumble", "limits", "pairs", "altered", "over", "counts"), ("changing", "commit"), 0.6)
WHOLE = Trial(tuple(scenarios.SCENARIOS), ("written", "changing", "tick", "commit"), 2.0)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str | None]:
    """The address of a server, if one is available."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(server()).url if binaries() is not None else None


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(QUICK, id="some scenarios"),
        pytest.param(WHOLE, id="all scenarios", marks=pytest.mark.slow),
    ],
)
def trial(request: pytest.FixtureRequest) -> Trial:
    chosen: Trial = request.param
    return chosen


@pytest.fixture(scope="module")
def killer(trial: Trial, tmp_path_factory: pytest.TempPathFactory, postgres: str | None) -> Killer:
    """Scenarios, run to their end, with deaths in the phases of a batch on the way."""
    chance = random.Random(int(os.environ.get("EVENTIDE_KILL_SEED", "20")))
    if postgres is not None:
        scenarios.drop_tables(postgres)
    killer = Killer(tmp_path_factory.mktemp("killed"), BATCHES, postgres, chance, trial.names)
    for moment in trial.deaths:
        killer.live(Plan.at(moment, chance, trial.workers))
    killer.live(Plan(None, trial.workers))
    return killer


@pytest.fixture(scope="module")
def outcome(killer: Killer) -> dict[str, Any]:
    return killer.outcome()


def test_drivers_and_workers_were_killed_and_left_nothing_behind(trial: Trial, killer: Killer) -> None:
    """How many workers die depends on how busy the machine is."""
    assert killer.drivers == dict.fromkeys(trial.deaths, 1) and killer.workers > 0, (killer.drivers, killer.workers)
    assert killer.left_behind() == []


def test_nothing_is_lost_or_repeated(killer: Killer, outcome: dict[str, Any]) -> None:
    for name in killer.names:
        wanted = json.loads(json.dumps(scenarios.expected(name, BATCHES)))
        found = {part: scenarios.difference(wanted[part], outcome[name][part]) for part in PARTS}
        assert found == dict.fromkeys(PARTS, (0, 0)), f"{name}: (lost, twice) by part"
        assert outcome[name]["accounts"] == wanted["accounts"] and scenarios.is_balanced(wanted["accounts"]), name
        # what one stream gives another is on time; there is no window to miss
        is_never_late = name in ("over", "named", "counts", "spread", "best")
        assert wanted["rows"] and bool(wanted["late"]) != is_never_late, name
        assert bool(wanted["duplicate"]) == (name in ("dedup", "pairs")), name
        assert bool(wanted["rejected"]) == (name == "limits"), name


@pytest.mark.skipif(binaries() is None, reason=MISSING)
def test_a_table_of_postgres_has_every_row_once(killer: Killer, outcome: dict[str, Any], postgres: str) -> None:
    for name in killer.names:
        wanted = json.loads(json.dumps(scenarios.expected(name, BATCHES)["table"]))
        found = scenarios.difference(wanted, scenarios.in_table(name, postgres))
        assert wanted and found == (0, 0), f"{name}: (lost, twice)"


def test_a_stream_that_is_changed_gives_rows_of_both_texts(outcome: dict[str, Any]) -> None:
    counts = {n > 1000 for _, _, n, _, _ in outcome["altered"]["rows"]}
    assert counts == {False, True}
