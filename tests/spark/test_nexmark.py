"""The queries of Nexmark on Spark: what each has given when all events are in is what DuckDB answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.nexmark.answers import Answers
from benchmarks.nexmark.events import Events
from benchmarks.nexmark.material import Material, link, prepare
from benchmarks.nexmark.queries import NAMES, Places, query_sql, sources_sql
from tests.conftest import DatabaseFactory

EVENTS = Events(per_second=100, disorder=50)  # no two at the same time, so that every row of an answer is certain


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return prepare(EVENTS, tmp_path_factory.mktemp("nexmark"), batch_rows=2_000, warm_batches=1, batches=1)


@pytest.fixture(scope="module")
def answers(material: Material) -> Answers:
    return material.answers()


@pytest.mark.slow
def test_queries_with_windows_joins_and_changes_answer_as_duckdb_does(
    db_factory: DatabaseFactory, material: Material, answers: Answers, tmp_path: Path
) -> None:
    assert differences(db_factory, ["q5", "q7", "q16"], material, answers, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("group", [NAMES[first : first + 6] for first in range(0, len(NAMES), 6)], ids=lambda g: g[0])
def test_every_query_answers_as_duckdb_does_with_a_restart_in_between(
    group: Sequence[str], db_factory: DatabaseFactory, material: Material, answers: Answers, tmp_path: Path
) -> None:
    assert differences(db_factory, group, material, answers, tmp_path, restart=True) == []


def differences(
    db_factory: DatabaseFactory,
    names: Sequence[str],
    material: Material,
    answers: Answers,
    folder: Path,
    restart: bool = False,
) -> list[str]:
    places = Places(folder / "events", material.side_input, folder / "output")
    checkpoint = folder / "checkpoint"
    db = db_factory(checkpoint=checkpoint)
    link(material.warm, places.events)
    db.execute(sources_sql(places))
    for name in names:
        db.execute(query_sql(name, places))
    db.tick()
    if restart:
        db.close()
        db = db_factory(checkpoint=checkpoint)
    link(material.measured, places.events)
    db.tick()
    db.advance_watermark("nexmark", material.end_ms)
    db.tick()
    db.stop(graceful=True)  # windows by the clock are still open
    return [found for name in names for found in answers.differences(name, db.read(name).arrow())]
