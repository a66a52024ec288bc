"""Random plans, joins among them, and random stories on Spark, against the reference model: the same rows, payloads,
accounts and watermarks.
"""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import eventide
from eventide.database import Database
from eventide.testing import ReferenceModel, Step
from eventide.testing.aggregates import frozen
from tests.properties.events import Event
from tests.properties.join_sql import JoinPlan, told_joins
from tests.properties.reference_plans import Plan, plans, stories

PLANS = int(os.environ.get("EVENTIDE_SPARK_PLANS", "50"))
AT_ONCE = 3
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FUTURE = 4_000_000_000_000_000  # for the model and for the wall clock alike
Story = list[Event]


def draw_stories(count: int) -> list[tuple[Plan, Story]]:
    """The same ones in every run. Without what depends on the wall clock."""
    drawn: list[tuple[Plan, Story]] = []

    @settings(
        max_examples=count * 3, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.data())
    def draw(data: Any) -> None:
        plan = data.draw(plans())
        story = data.draw(stories(plan, most=5))
        if "EMIT EVERY" not in plan.sql:
            drawn.append((plan, [for_spark(event) for event in story if event.verb != "tick"]))

    draw()
    kinds = ("tumble", "hop", "session", "slide", "forward", "ordered")
    by_kind = [iter([pair for pair in drawn if pair[0].kind == kind]) for kind in kinds]
    mixed = [
        pair for turn in range(len(drawn)) for pair in [next(by_kind[turn % len(kinds)], None)] if pair is not None
    ]
    return mixed[:count]


def draw_joins(count: int) -> list[tuple[JoinPlan, list[Event]]]:
    """The same ones in every run."""
    drawn: list[tuple[JoinPlan, list[Event]]] = []

    @settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(told_joins(most=6))
    def draw(told: tuple[JoinPlan, list[Event]]) -> None:
        drawn.append(told)

    draw()
    return drawn[:count]


def for_spark(event: Event) -> Event:
    """Watermarks in whole milliseconds, and a future that is one for everybody."""
    rows = event.rows and {
        name: [(*row[:3], FUTURE if row[3] == 10**15 else row[3]) for row in some] for name, some in event.rows.items()
    }
    return replace(event, rows=rows, at=event.at // 1000 * 1000)


class Teller:
    """Tells one story to Spark and to the model, and compares after every event."""

    def __init__(self, plan: Plan | JoinPlan, story: Sequence[Event], folder: Path, spark: Any) -> None:
        self.plan, self.story, self.folder, self.spark = plan, story, folder, spark
        self.model = ReferenceModel(plan.stream)
        self.main: list[Any] = []
        self.sides: Counter[Any] = Counter()

    def open(self) -> Database:
        return eventide.connect(self.folder, spark=self.spark, shards=2)

    def tell(self) -> None:
        db = self.open()
        try:
            db.execute(self.plan.sql)
            for event in self.story:
                db = self.happen(db, event)
                self.compare(db, event)
        finally:
            db.close()

    def happen(self, db: Database, event: Event) -> Database:
        step = Step()
        if event.verb == "batch":
            step = self.model.batch(event.rows)
            for name, rows in (event.rows or {}).items():
                db.write(name, rows)
            db.tick()
        elif event.verb == "advance":
            sources = self.plan.sources if event.source == "all" else (event.source,)
            step = self.model.batch(advance=dict.fromkeys(sources, event.at))
            for source in sources:
                db.advance_watermark(source, event.at // 1000)
            db.tick()
        elif event.verb == "flush":
            step = self.model.flush()
            db.stop(graceful=True)
        else:
            db.close()
            db = self.open()
        self.main += [frozen(row) for row in step.main]
        self.sides.update((payload.kind, payload.reason, payload.event_time) for payload in step.side)
        return db

    def compare(self, db: Database, event: Event) -> None:
        given = [frozen(row) for row in db.read("o")]
        assert Counter(given) == Counter(self.main), (self.plan.sql, event)
        assert self.plan.kind != "ordered" or given == self.main, (self.plan.sql, event)
        sides = Counter(
            (payload["kind"], payload["reason"], micros(payload["event_time"])) for payload in db.side_output("o")
        )
        assert sides == self.sides, (self.plan.sql, event)
        counts = {name: count for name, count in db.accounting("o").items() if count and name != "rows_in"}
        assert counts == {name: count for name, count in self.model.totals.items() if count and name != "rows_in"}, (
            self.plan.sql,
            event,
        )
        wanted = self.model.watermark
        assert db.watermark("o") == (None if wanted is None else wanted // 1000), (self.plan.sql, event)


def micros(moment: dt.datetime | None) -> int | None:
    return None if moment is None else (moment - EPOCH) // dt.timedelta(microseconds=1)


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory, keep_spark: Any) -> Iterator[list[Any]]:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        drawn: list[Any] = [*draw_stories(PLANS), *draw_joins(PLANS)]
        folders = [tmp_path_factory.mktemp("story") for _ in drawn]
        tellers = [
            Teller(plan, story, folder, keep_spark) for (plan, story), folder in zip(drawn, folders, strict=True)
        ]
        yield [pool.submit(teller.tell) for teller in tellers]
        pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2 * PLANS))
def test_spark_gives_what_the_reference_model_gives(number: int, telling: list[Any]) -> None:
    telling[number].result()
