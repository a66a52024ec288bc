"""Whatever the text, SQL is planned, or refused with one clear error."""

from __future__ import annotations

import time
from collections import Counter
from copy import deepcopy
from random import Random

import pytest

from eventide.errors import EventideError
from eventide.plan.explain import Known, explain
from eventide.plan.planner import plan
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from tests.fuzz.statements import known_texts, statements
from tests.sql.support import SOURCES, catalog

LONGEST_ERROR = 3_000  # characters: a statement, its place and what to do
LONGEST_TIME = 5.0  # seconds of processor time for one text


def outcome(text: str, made: Catalog) -> str:
    """A text that is planned is explained too: each stream has a plan that Spark could run."""
    try:
        for statement in parse_statements(text):
            made.apply(statement)
        plans = {name: plan(stream) for name, stream in made.graph().items()}
        for physical in plans.values():
            assert explain(physical, known=Known(plans.get))
    except EventideError as error:
        message = str(error)
        assert message.strip() and len(message) < LONGEST_ERROR, message[:LONGEST_ERROR]
        assert "Traceback" not in message and "object at 0x" not in message, message
        return "refused"
    return "planned"


def check(seed: int, count: int) -> Counter[str]:
    random, found, sources = Random(seed), Counter[str](), catalog(SOURCES)
    for text in statements(random, count):
        made = deepcopy(sources)
        began = time.process_time()
        try:
            found[outcome(text, made)] += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, {type(error).__name__}: {error}\n{text!r}") from error
        assert time.process_time() - began < LONGEST_TIME, text
    return found


def test_the_texts_of_other_tests_are_found() -> None:
    assert len(known_texts()) > 300


@pytest.mark.parametrize("seed", range(4))
def test_any_text_is_planned_or_refused(seed: int) -> None:
    found = check(seed, 250)
    assert min(found["planned"], found["refused"]) > 20, found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 150))
def test_a_hundred_thousand_texts_are_planned_or_refused(seed: int) -> None:
    check(seed, 2_000)
