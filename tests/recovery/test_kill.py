"""kill -9 of the driver and of Python workers, in every phase of a batch: the outcome is that of a run that nobody
disturbed.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.connectors.postgres_server import MISSING, binaries, server
from tests.recovery import scenarios
from tests.recovery.killer import Killer, Plan

pytestmark = pytest.mark.timeout(2400)  # all lives together are the set-up of the first test

BATCHES = 4
QUICK = ("tumble", "limits", "session", "pairs", "altered", "over", "counts", "spread")
# A life costs up to half a minute; the soak run has all moments. A batch tells once that it is written, and again of
# each sink: so what waits for the rarer sign comes first, while there are batches left.
DEATHS = ("written", "changing", "tick", "commit")
WORKERS = 2.0  # that are killed for each thing the writer reports
PARTS = ("rows", "late", "duplicate", "rejected", "files", "late files", "dead letters", "function")


@pytest.fixture(scope="module")
def postgres() -> Iterator[str | None]:
    """The address of a server, if one is available."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(server()).url if binaries() is not None else None


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(QUICK, id="some scenarios"),
        pytest.param(tuple(scenarios.SCENARIOS), id="all scenarios", marks=pytest.mark.slow),
    ],
)
def killer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: str | None) -> Killer:
    """Scenarios, run to their end, with deaths in the phases of a batch on the way."""
    chance = random.Random(int(os.environ.get("EVENTIDE_KILL_SEED", "20")))
    if postgres is not None:
        scenarios.drop_tables(postgres)
    killer = Killer(tmp_path_factory.mktemp("killed"), BATCHES, postgres, chance, request.param)
    for moment in DEATHS:
        killer.live(Plan.at(moment, chance, WORKERS))
    killer.live(Plan(None, WORKERS))
    return killer


@pytest.fixture(scope="module")
def outcome(killer: Killer) -> dict[str, Any]:
    return killer.outcome()


def test_drivers_and_workers_were_killed_and_left_nothing_behind(killer: Killer) -> None:
    """How many workers die depends on how busy the machine is."""
    assert killer.drivers == dict.fromkeys(DEATHS, 1) and killer.workers > 0, (killer.drivers, killer.workers)
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
