"""Which messages a batch takes, and who reads them."""

from __future__ import annotations

import pytest

from eventide.connectors.kafka.offsets import (
    Offsets,
    TopicChoice,
    check_progress,
    dealt_out,
    from_json,
    parse_partitions,
    to_json,
    within,
)
from eventide.errors import OptionError, SourceError

START: Offsets = {("a", 0): 10, ("a", 1): 0, ("b", 0): 5}
LATEST: Offsets = {("a", 0): 1010, ("a", 1): 10, ("b", 0): 5}


def test_offsets_survive_sparks_checkpoint() -> None:
    assert from_json(to_json(START)) == START
    assert to_json({("a", 10): 1, ("a", 2): 3}) == {"a": {"2": 3, "10": 1}}


def test_without_a_limit_a_batch_takes_all() -> None:
    assert within(START, LATEST, None) == LATEST
    assert within(START, LATEST, 1010) == LATEST


def test_with_a_limit_each_partition_gives_its_share_and_none_starves() -> None:
    end = within(START, LATEST, 101)
    assert end == {("a", 0): 110, ("a", 1): 1, ("b", 0): 5}
    taken, batches = dict(START), 0
    while taken != LATEST:
        taken, before = within(taken, LATEST, 3), taken
        batches += 1
        assert sum(taken.values()) - sum(before.values()) <= 4  # at least one of each
    assert batches >= 300


@pytest.mark.parametrize("tasks", [1, 2, 7])
def test_tasks_share_the_messages_evenly_and_nothing_is_read_twice_or_left_out(tasks: int) -> None:
    start: Offsets = {("a", 0): 0, ("a", 1): 100_000, ("b", 0): 7}
    end: Offsets = {("a", 0): 250_001, ("a", 1): 130_000, ("b", 0): 7}
    shares = dealt_out(start, end, tasks)
    assert len(shares) == tasks
    read = sorted((each.topic, each.partition, each.start, each.end) for share in shares for each in share)
    for partition, last in end.items():
        at = start[partition]
        for _, _, begin, stop in [each for each in read if each[:2] == partition]:
            assert begin == at < stop
            at = stop
        assert at == last
    sizes = [sum(each.count for each in share) for share in shares]
    assert max(sizes) <= 1.2 * sum(sizes) / tasks


def test_few_messages_are_one_tasks_work() -> None:
    assert len(dealt_out({("a", 0): 0, ("a", 1): 0}, {("a", 0): 500, ("a", 1): 500}, 8)) == 1
    assert dealt_out(START, START, 8) == []


def test_messages_are_numbered_in_the_order_of_batches() -> None:
    (first,) = dealt_out({("a", 0): 0, ("a", 1): 0}, {("a", 0): 3, ("a", 1): 4}, 1)
    (second,) = dealt_out({("a", 0): 3, ("a", 1): 4}, {("a", 0): 5, ("a", 1): 5}, 1)
    assert [(each.first, each.count) for each in (*first, *second)] == [(0, 3), (3, 4), (7, 2), (9, 1)]


def test_a_topic_that_has_gone_or_is_another_one_is_an_error() -> None:
    check_progress("s", START, LATEST)
    with pytest.raises(SourceError, match="partition 0 of topic b has gone"):
        check_progress("s", START, {("a", 0): 10, ("a", 1): 0})
    with pytest.raises(SourceError, match="ends at offset 9, and the stream has read it up to offset 10"):
        check_progress("s", START, {**LATEST, ("a", 0): 9})


def test_topics_are_chosen_by_name_or_by_their_whole_name() -> None:
    there = ["clicks", "clicks-eu", "orders"]
    assert TopicChoice(("orders", "clicks"), None).chosen(there) == ["orders", "clicks"]
    assert TopicChoice((), "clicks.*").chosen(there) == ["clicks", "clicks-eu"]
    assert TopicChoice((), "click").chosen(there) == []


def test_a_choice_of_partitions_takes_those_and_misses_what_is_not_there() -> None:
    there = [("a", 0), ("a", 1), ("b", 1)]
    choice = TopicChoice(("a", "b"), None, parse_partitions("1, a:0"))
    assert [each for each in there if choice.takes(each)] == there and choice.missing(there) is None
    only = TopicChoice(("a", "b"), None, parse_partitions("b:1"))
    assert [each for each in there if only.takes(each)] == [("b", 1)]
    assert TopicChoice(("a",), None, ((None, 7),)).missing(there) == (None, 7)
    with pytest.raises(OptionError, match="'partitions' cannot be 'x'"):
        parse_partitions("x")
