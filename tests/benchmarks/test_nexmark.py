"""Nexmark without an engine: the events, the answers, the texts of the queries."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.figures import CPU, OURS, SPEED, Results
from benchmarks.nexmark import files
from benchmarks.nexmark.answers import Answers
from benchmarks.nexmark.engines import NATIVE
from benchmarks.nexmark.events import AUCTION, BID, PERSON, Events
from benchmarks.nexmark.queries import NAMES, Places, batch_sql, flink_sql, has_windows, query_sql, sources_sql
from benchmarks.nexmark.report import BEGIN, END, NexmarkReport
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements

SLOW_EVENTS = Events(per_second=100, disorder=50)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    folder = tmp_path_factory.mktemp("nexmark")
    made = files.write(SLOW_EVENTS, 4_000, folder / "events", 2)
    return Answers(made, files.write_side_input(folder / "side_input"), have_equal_times=False)


def test_of_fifty_events_one_is_a_person_and_three_are_auctions() -> None:
    kinds = Events().table(0, 50_000)["event_type"]
    assert {kind: pc.sum(pc.equal(kinds, kind)).as_py() for kind in (PERSON, AUCTION, BID)} == {
        PERSON: 1_000,
        AUCTION: 3_000,
        BID: 46_000,
    }


def test_events_are_the_same_in_whatever_pieces_they_are_made() -> None:
    whole = Events(seed=7).table(0, 3_000)
    parts = [Events(seed=7).table(first, 500) for first in range(0, 3_000, 500)]
    assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()


def test_only_queries_whose_results_wait_for_windows_have_any_to_close() -> None:
    assert [name for name in NAMES if has_windows(name)] == ["q5", "q7", "q8", "q11", "q12"]


def test_another_seed_makes_other_events() -> None:
    assert Events(seed=1).table(0, 100) != Events(seed=2).table(0, 100)


def test_events_are_out_of_order_by_no_more_than_was_asked_for() -> None:
    times = SLOW_EVENTS.table(0, 2_000)["dateTime"].cast(pa.int64()).to_pylist()
    behind = [max(times[: place + 1]) - time for place, time in enumerate(times)]
    assert 0 < max(behind) < 50 * 10  # 50 events, of which each takes ten milliseconds
    assert len(set(times)) == 2_000
    assert (
        Events(disorder=1)
        .table(0, 1_000)["dateTime"]
        .combine_chunks()
        .equals(Events(disorder=1).table(0, 1_000)["dateTime"].combine_chunks().sort())
    )


def test_files_say_what_the_events_say(tmp_path: Path) -> None:
    import duckdb

    made = files.write(SLOW_EVENTS, 1_000, tmp_path, 3)
    assert [path.name for path in made] == ["000000.json", "000001.json", "000002.json"]
    found = duckdb.sql(f"SELECT bid.price FROM read_json('{tmp_path}/*.json') WHERE event_type = 2").fetchall()
    bids = [event["bid"]["price"] for event in SLOW_EVENTS.table(0, 1_000).to_pylist() if event["bid"] is not None]
    assert [price for (price,) in found] == bids


@pytest.mark.parametrize("name", NAMES)
def test_every_query_has_an_answer_that_is_not_empty(answers: Answers, name: str) -> None:
    assert answers.rows(name) > 0


def test_a_wrong_row_and_a_missing_one_are_found(answers: Answers) -> None:
    right = answers.table("q8")
    assert answers.differences("q8", right) == []
    [missing] = answers.differences("q8", right.slice(1))
    assert missing.startswith("q8 missing")
    [twice] = answers.differences("q8", pa.concat_tables([right, right.slice(0, 1)]))[:1]
    assert twice.startswith("q8 too many")


def test_a_change_log_is_summed_up(answers: Answers) -> None:
    right = answers.table("q4")
    first = right.slice(0, 1).set_column(1, "final", pa.array([0.0]))
    log = pa.concat_tables(
        [rows.append_column("op", pa.array([op] * rows.num_rows)) for rows, op in ((first, 1), (first, -1), (right, 1))]
    )
    assert answers.differences("q4", log) == []
    assert answers.differences("q4", log.slice(0, 1)) != []


def test_the_texts_for_others_are_plain_queries() -> None:
    for name in NAMES:
        for text in (batch_sql(name), flink_sql(name)):
            assert text.startswith(("SELECT", "WITH")), name
            assert "EMIT" not in text
            assert ";" not in text


@pytest.mark.parametrize("name", NAMES)
def test_every_query_is_understood(name: str) -> None:
    places = Places(Path("events"), Path("side_input"), Path("output"))
    catalog = Catalog.from_texts([], False)
    for statement in parse_statements(sources_sql(places) + query_sql(name, places)):
        catalog.apply(statement)
    assert catalog.parts(name)[-1].name == name


def test_the_table_shows_how_many_times_better_we_are(tmp_path: Path) -> None:
    results: Results = {
        "q0": {OURS: [{SPEED.key: 300.0, CPU.key: 2.0}], NATIVE: [{SPEED.key: 100.0, CPU.key: 8.0}]},
        "q4": {OURS: [{SPEED.key: 50.0, CPU.key: 4.0}]},
    }
    report = NexmarkReport(results, ["q5, eventide: no disk"], 1_000)
    assert report.table() == [
        ["query", "rows/s", NATIVE, "s per million rows", NATIVE],
        ["q0", "300", "3.00x", "2.00", "4.00x"],
        ["q4", "50", "", "4.00", ""],
    ]
    report.save(tmp_path / "results.json")
    assert NexmarkReport.load(tmp_path / "results.json") == report
    page = tmp_path / "page.md"
    page.write_text(f"before {BEGIN} old {END} after")
    report.write_docs(page, lambda line: None)
    assert "| q0 | 300 | 3.00x | 2.00 | 4.00x |" in page.read_text()
    assert "no disk" in page.read_text()
    assert "old" not in page.read_text()
