"""State that was kept under one text of a stream and read under another, against the reference model.

The model keeps rows, so it knows what every text would have made of them; an aggregate that a row did not know is NULL.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from eventide.plan.changes import differences, refused
from eventide.plan.logical import Stream
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.testing import KernelRunner, ReferenceModel
from tests.properties.examples import examples
from tests.properties.reference_plans import AGGREGATES, Plan, stories
from tests.properties.test_reference_and_kernels import main_of, sides_of, tell

EXAMPLES = examples(20, 40)
WINDOWS = {
    "tumble": "TUMBLE(ts, INTERVAL '5' MILLISECOND)",
    "hop": "HOP(ts, INTERVAL '4' MILLISECOND, INTERVAL '10' MILLISECOND)",
    "cumulate": "CUMULATE(ts, INTERVAL '3' MILLISECOND, INTERVAL '9' MILLISECOND)",
    "session": "SESSION(ts, INTERVAL '4' MILLISECOND)",
    "slide": "slidingwindow('ms', 5, 3)",
    "none": None,
}
EMITS = ("", "EMIT ON WATERMARK", "EMIT ON UPDATE", "EMIT CHANGES", "EMIT EVERY INTERVAL '1' SECOND", "EMIT FINAL")


@dataclass(frozen=True)
class Text:
    """What a text of the stream may say differently than the one before."""

    kind: str
    calls: tuple[str, ...]
    emit: str
    lateness: int
    lag: int
    policy: str
    where: str
    having: str
    columns: str
    max_groups: int | None
    dedup: int | None

    @property
    def stream(self) -> Stream:
        catalog = Catalog()
        for statement in parse_statements(self.sql):
            catalog.apply(statement)
        return catalog.stream("o")

    @property
    def sql(self) -> str:
        dedup = "" if self.dedup is None else f", DEDUPLICATE BY id WITHIN INTERVAL '{self.dedup}' MILLISECOND"
        source = (
            f"CREATE SOURCE s (id STRING, k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_us, "
            f"WATERMARK FOR ts AS ts - INTERVAL '{self.lag}' MILLISECOND{dedup})"
        )
        options = [f"'late.policy' = '{self.policy}'"]
        options += ["'late.max_lateness' = '5 milliseconds'"] if self.policy == "reassign" else []
        options += [f"'max_groups' = '{self.max_groups}'"] if self.max_groups else []
        return f"{source}; CREATE STREAM o WITH ({', '.join(options)}) AS {self._query}"

    @property
    def _query(self) -> str:
        if self.kind in ("forward", "ordered"):
            return f"SELECT {self.columns} FROM s{self.where}{' ORDER BY ts' if self.kind == 'ordered' else ''}"
        window = WINDOWS[self.kind]
        bounds = ["window_start", "window_end"] if window else []
        calls = [f"{call} AS {'ab'[number % 2]}{number}" for number, call in enumerate(self.calls)]
        listed = ", ".join([*bounds, "emit_epoch", *(["op"] if "CHANGES" in self.emit else []), "k", *calls])
        groups = ", ".join(["k", *([window] if window else [])])
        late = f" ALLOW LATENESS INTERVAL '{self.lateness}' MILLISECOND" if self.lateness else ""
        return f"SELECT {listed} FROM s{self.where} GROUP BY {groups}{self.having} {self.emit}{late}"


calls = st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3, unique=True).map(tuple)
CHOICES: dict[str, st.SearchStrategy[Any]] = {
    "calls": calls,
    "emit": st.sampled_from(EMITS),
    "lateness": st.sampled_from([0, 4, 15]),
    "lag": st.sampled_from([0, 3, 10]),
    "policy": st.sampled_from(["window", "strict", "reassign"]),
    "where": st.sampled_from(["", " WHERE v > -3", " WHERE k IS NOT NULL"]),
    "having": st.sampled_from(["", " HAVING count(*) > 1"]),
    "columns": st.sampled_from(["k, v * 2 AS w", "ts, k", "v, id"]),
    "max_groups": st.sampled_from([1, 2]),
}


@st.composite
def texts(draw: st.DrawFn, kind: str) -> Text:
    made = {name: draw(strategy) for name, strategy in CHOICES.items()}
    limited = kind in ("tumble", "hop", "session") and draw(st.integers(0, 4)) == 0
    made["max_groups"] = made["max_groups"] if limited else None
    made["dedup"] = 10_000 if draw(st.integers(0, 4)) == 0 and kind != "ordered" else None
    return _allowed(Text(kind=kind, **made))


@st.composite
def changed(draw: st.DrawFn, text: Text) -> Text:
    """The text with one to three things said in another way."""
    names = draw(st.lists(st.sampled_from(list(CHOICES)), min_size=1, max_size=3, unique=True))
    again = {name: draw(CHOICES[name]) for name in names}
    if text.max_groups is None:
        again.pop("max_groups", None)
    return _allowed(replace(text, **again))


def _allowed(text: Text) -> Text:
    """What SQL accepts, and what the model has a clear notion of."""
    if text.kind == "none":
        emit = text.emit if text.emit in ("EMIT ON UPDATE", "EMIT CHANGES") else "EMIT ON UPDATE"
        text = replace(text, emit=emit, lateness=0)
    if text.kind == "slide":
        text = replace(text, emit="", lateness=0)
    if text.emit == "EMIT FINAL":
        text = replace(text, lateness=0)
    if text.emit == "EMIT CHANGES":
        text = replace(text, having="")
    if text.kind == "ordered" or text.dedup is not None:
        text = replace(text, policy="window")
    return text


KINDS = [*WINDOWS, "forward", "ordered"]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_stream_goes_on_under_another_text_as_the_model_does(kind: str, data: Any) -> None:
    told = [data.draw(texts(kind))]
    for _ in range(data.draw(st.integers(1, 2))):
        told.append(data.draw(changed(told[-1])))
        assume(not refused(differences(told[-2].stream, told[-1].stream)))
    plan = Plan(told[0].sql, kind, ("s",), told[0].max_groups is not None, None)
    shards = 1 if told[0].max_groups or told[0].dedup else data.draw(st.sampled_from([1, 3]))
    model, runner = ReferenceModel(told[0].stream), KernelRunner(told[0].stream, shards)
    for number, text in enumerate(told):
        if number:
            model.change(text.stream)
            runner.change(text.stream)
        story = data.draw(stories(plan, most=5))
        for event in story if number == len(told) - 1 else story[:-1]:
            wanted, computed = tell(model, event), tell(runner, event)
            assert Counter(main_of(computed)) == Counter(main_of(wanted)), text.sql
            assert sides_of(computed) == sides_of(wanted)
            assert +computed.counts == +wanted.counts
            assert computed.watermark == wanted.watermark
