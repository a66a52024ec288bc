"""What the page is told, from a checkpoint without Spark."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from eventide.diagnose.observer import CheckpointObserver
from eventide.errors import CatalogError, OptionError
from eventide.web.app import as_json
from eventide.web.details import Details, Filter
from eventide.web.prometheus import exposition
from eventide.web.snapshot import POINT_COLUMNS, Snapshots
from eventide.web.views import LocalView, view_of
from tests.web.simulated import SECOND, SQL, Simulation

NOON = 1_738_324_800_000_000


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Simulation:
    simulation = Simulation(tmp_path_factory.mktemp("web") / "shop")
    now = time.time_ns() // 1000
    simulation.run(now - 60 * SECOND, now)
    return simulation


def test_figures_of_every_stream_and_what_flows_where(shop: Simulation) -> None:
    found = json.loads(as_json(Snapshots(CheckpointObserver(shop.root)).take()))
    assert (found["kind"], found["place"]) == ("checkpoint", "shop")
    edges = {(edge["from"], edge["to"]): edge for edge in found["graph"]["edges"]}
    assert set(edges) == {
        ("source:clicks", "stream:per_page"),
        ("stream:per_page", "stream:busiest"),
        ("source:orders", "stream:buyers"),
        ("source:clicks", "stream:buyers"),
        ("stream:per_page", "sink:pages"),
        ("stream:per_page", "sink:lates"),
    }
    assert edges["source:clicks", "stream:per_page"]["rate"] > 1000
    assert edges["stream:per_page", "sink:lates"]["late"] and edges["stream:per_page", "sink:lates"]["rate"] > 1
    per_page = next(stream for stream in found["streams"] if stream["name"] == "per_page")
    counts = per_page["accounting"]
    assert counts["rows_in"] == sum(value for name, value in counts.items() if name != "rows_in") > 100_000
    assert per_page["window"] == {"kind": "tumble", "size": 10_000, "step": 10_000, "offset": 0, "lateness": 4000}
    assert per_page["state"] == "stopped" and per_page["standing"][0].startswith("per_page: the oldest open window is")
    assert per_page["open"] == 10 and per_page["state_bytes"] > 0 and per_page["rates"]["given"] > 0
    assert len(per_page["points"]) == 60 and all(len(point) == len(POINT_COLUMNS) for point in per_page["points"])
    last = dict(zip(POINT_COLUMNS, per_page["points"][-1], strict=True))
    assert last["compute"] >= 90 and last["newest"] > last["watermark"]
    busiest = next(stream for stream in found["streams"] if stream["name"] == "busiest")
    assert busiest["state"] == "new" and "busiest has not run yet" in busiest["standing"][1]


def test_only_new_points_come_with_an_update(tmp_path: Path) -> None:
    simulation, snapshots = Simulation(tmp_path), Snapshots(CheckpointObserver(tmp_path))
    simulation.run(NOON, NOON + 20 * SECOND)
    first = snapshots.take()["streams"][0]["points"]
    since = first[-1][0]
    time.sleep(0.02)  # so that the folder's time of change is another
    simulation.step(NOON + 21 * SECOND)
    deadline = time.monotonic() + 500
    while len(snapshots.take(since)["streams"][0]["points"]) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)  # a folder is listed again only after a while
    assert [point[0] for point in snapshots.take(since)["streams"][0]["points"]] == [since, since + 2]


def test_a_stream_that_goes_on_is_not_asked_why(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path)
    simulation.hold()
    now = time.time_ns() // 1000
    simulation.run(now - 40 * SECOND, now)
    (stream,) = [each for each in Snapshots(CheckpointObserver(tmp_path)).take()["streams"] if each["batch"] >= 0]
    assert stream["state"] == "running" and stream["standing"] is None
    simulation.release()


def test_a_process_that_has_let_go_of_the_checkpoint_does_not_count_as_running(tmp_path: Path) -> None:
    simulation, observer = Simulation(tmp_path), CheckpointObserver(tmp_path)
    simulation.run(NOON, NOON + 3 * SECOND)
    simulation.hold()
    assert observer.observe("per_page").state == "running"
    simulation.release()
    assert observer.observe("per_page").state == "stopped"


def test_a_running_stream_that_stands_still_says_why(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path)
    simulation.hold()
    now = time.time_ns() // 1000
    simulation.run(now - 120 * SECOND, now - 60 * SECOND)
    (stream,) = [each for each in Snapshots(CheckpointObserver(tmp_path)).take()["streams"] if each["batch"] >= 0]
    assert stream["state"] == "running" and "the oldest open window is" in stream["standing"][0]
    simulation.release()


def test_partitions_have_a_watermark_each_and_the_one_behind_is_named(tmp_path: Path) -> None:
    behind = {
        "t-0": {"watermark": NOON, "unread": 0},
        "t-1": {"watermark": NOON - 9 * SECOND, "unread": 1200},
        "t-2": {},
    }
    simulation = Simulation(tmp_path, lanes=behind)
    simulation.run(NOON, NOON + 3 * SECOND)
    taken = Snapshots(CheckpointObserver(tmp_path)).take()
    (source,) = taken["streams"][0]["sources"]
    assert source["holder"] == "t-1"
    assert source["partitions"] == [
        {"name": "t-0", "watermark": NOON // 1000, "unread": 0, "idle": False},
        {"name": "t-1", "watermark": NOON // 1000 - 9000, "unread": 1200, "idle": False},
        {"name": "t-2", "watermark": None, "unread": 0, "idle": False},
    ]
    text = exposition(taken)[0].decode()
    assert 'eventide_partition_unread_messages{partition="t-1",source="clicks",stream="per_page"} 1200.0' in text


def test_the_latest_rows_come_first(shop: Simulation) -> None:
    found = Details(CheckpointObserver(shop.root)).rows("per_page", limit=7)
    assert found["columns"] == ["window_start", "window_end", "page", "clicks", "revenue"]
    assert len(found["rows"]) == 7 and found["total"] == shop.totals["rows_out"]
    assert found["rows"][0][0] >= found["rows"][-1][0] and isinstance(found["rows"][0][3], int)


def test_side_output_is_filtered(shop: Simulation) -> None:
    details = Details(CheckpointObserver(shop.root))
    everything = details.side("per_page", Filter())
    assert everything["kinds"]["late"] == {"allowed_lateness_exceeded": shop.totals["late"]}
    assert everything["sources"] == ["clicks"] and len(everything["rows"]) == 50
    errors = details.side("per_page", Filter(kind="error", limit=5))["rows"]
    assert [row["kind"] for row in errors] == ["error"] * 5 and errors[0]["detail"].startswith("'yesterday'")
    assert {row["kind"] for row in details.side("per_page", Filter(text="V0"))["rows"]} == {"late"}
    assert details.side("per_page", Filter(text="no such thing"))["rows"] == []
    assert details.side("per_page", Filter(reason="future_timestamp"))["rows"] == []
    late = details.side("per_page", Filter(kind="late", limit=1))["rows"][0]
    assert late["behind"] > 6000 and late["window"][1] - late["window"][0] == 10_000


def test_lateness_has_a_histogram_and_advice(shop: Simulation) -> None:
    found = Details(CheckpointObserver(shop.root)).late("per_page")
    assert sum(rows for _, rows in found["histogram"]) == found["rows"] == shop.totals["late"]
    assert [each["percent"] for each in found["advice"]] == [99.0, 99.9, 100.0] and found["advice"][-1]["extra"] > 0
    assert found["remedies"][0].startswith("ALTER STREAM per_page SET ('allowed_lateness' = ")


def test_the_timeline_knows_windows_that_closed_and_rows_that_were_late(shop: Simulation) -> None:
    details = Details(CheckpointObserver(shop.root))
    found = details.timeline("per_page")
    closed = [window for batch in found["batches"] for window in batch.get("windows", [])]
    assert closed and all(end % 10_000 == 0 and rows == 5 for end, rows in closed)
    assert all(at > event for batch in found["batches"] for at, event in batch.get("late", []))
    assert details.timeline("per_page", found["last"]) == {"last": found["last"], "batches": []}


def test_the_plan_has_figures_at_its_stages(shop: Simulation) -> None:
    stages = {}
    waiting = [Details(CheckpointObserver(shop.root)).plan("per_page")]
    while waiting:
        node = waiting.pop()
        stages[node["stage"]] = dict(node["figures"])
        waiting += node["inputs"]
    assert stages["scan clicks"]["rows"] == shop.rows_read and stages["output"]["rows"] == shop.totals["rows_out"]
    assert stages["operator"]["open windows"] == 10 and stages["route"]["late"] == shop.totals["late"]
    assert set(stages["watermark clicks"]) == {"watermark", "newest time"} and stages["stream"]["compute ms"] >= 90


def test_what_is_asked_wrongly_is_said(shop: Simulation, tmp_path: Path) -> None:
    view = LocalView(CheckpointObserver(shop.root))
    with pytest.raises(CatalogError, match="there is no stream nobody"):
        view.detail("rows", "nobody", {})
    with pytest.raises(OptionError, match="limit is a whole number"):
        view.detail("rows", "per_page", {"limit": "many"})
    with pytest.raises(OptionError, match="is not an Eventide checkpoint"):
        view_of(str(tmp_path))
    assert not list(tmp_path.iterdir())  # looking leaves nothing behind


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    kafka = "WITH ('connector' = 'kafka', 'topic' = 't', 'servers' = 'b:9092', 'format' = 'json')"
    sql = SQL.replace("WITH ('connector' = 'files', 'path' = 'clicks', 'format' = 'json')", kafka)
    secret = "SELECT window_start, window_end, page, 'password=hunter2hunter2' AS p, count(*) AS clicks"
    Simulation(tmp_path, sql=sql.replace("SELECT window_start, window_end, page, count(*) AS clicks", secret))
    assert "hunter2" not in as_json(Snapshots(CheckpointObserver(tmp_path)).take())
