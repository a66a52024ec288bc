"""/metrics, read back by Prometheus' own parser; Grafana board and alert rules use no name that is not there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

pytest.importorskip("prometheus_client", reason="metrics need eventide[dashboard]")
pytest.importorskip("uvicorn", reason="the dashboard needs eventide[dashboard]")

from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from eventide.web.prometheus import METRICS, exposition
from eventide.web.serve import Dashboard
from eventide.web.views import view_of
from tests.web.simulated import SECOND, Simulation

TOP = Path(__file__).parent.parent.parent / "observability"
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="no promtool on this machine: apt-get install prometheus"
)
NAME = re.compile(r"\beventide_[a-z_]+")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Simulation:
    simulation = Simulation(tmp_path_factory.mktemp("prometheus") / "shop")
    now = time.time_ns() // 1000
    simulation.run(now - 30 * SECOND, now)
    return simulation


def test_what_prometheus_reads_is_what_happened(shop: Simulation) -> None:
    with Dashboard(view_of(str(shop.root)), port=0) as dashboard:
        with urllib.request.urlopen(f"{dashboard.url}metrics", timeout=30) as answer:
            kind, text = answer.headers["content-type"], answer.read().decode()
    assert kind.startswith("text/plain")
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    for what in ("used", "late", "error"):
        assert samples["eventide_rows_total", *sorted((what, "per_page"))] == shop.totals[what]
    assert samples["eventide_rows_in_total", "per_page"] == shop.totals["rows_in"]
    assert samples["eventide_source_rows_total", "clicks", "per_page"] == shop.rows_read
    assert samples["eventide_unaccounted_rows", "per_page"] == 0
    assert 2 < samples["eventide_watermark_lag_seconds", "per_page"] < 600
    assert samples["eventide_batch_phase_seconds_total", "compute", "per_page"] >= 30 * 0.09
    assert {family.name for family in text_string_to_metric_families(text)} == {
        name.removesuffix("_total") for name in METRICS
    }


def test_openmetrics_is_given_to_those_who_ask_for_it(shop: Simulation) -> None:
    text, kind = exposition(view_of(str(shop.root)).snapshot(), "application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text") and text.endswith(b"# EOF\n")
    assert {family.name for family in openmetrics(text.decode())} == {name.removesuffix("_total") for name in METRICS}


def test_hostile_names_are_escaped() -> None:
    evil = 'a"} 1\n# HELP x\\'
    found = {
        "name": evil, "state": "failed", "accounting": {"rows_in": 0}, "took": {}, "watermark": None, "figures": {},
        "given": 0, "closed": 0, "batch": -1, "open": 0, "state_bytes": 0, "sources": [],
    }  # fmt: skip
    text, _ = exposition({"now": 0, "streams": [found]})
    labels = {s.labels["stream"] for family in text_string_to_metric_families(text.decode()) for s in family.samples}
    assert labels == {evil}


def test_the_grafana_board_uses_names_that_are_there() -> None:
    board = json.loads((TOP / "grafana.json").read_text(encoding="utf-8"))
    used = {name for panel in board["panels"] for each in panel["targets"] for name in NAME.findall(each["expr"])}
    used |= set(NAME.findall(board["templating"]["list"][1]["query"]))
    assert used <= set(METRICS) and len(used) >= 15
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_alert_rules_use_names_and_labels_that_are_there() -> None:
    (group,) = yaml.safe_load((TOP / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]:
        names = set(NAME.findall(rule["expr"]))
        assert names and names <= set(METRICS) and rule["annotations"]["summary"]
        assert set(re.findall(r"kind=\"(\w+)\"", rule["expr"])) <= {"late", "error"}
    assert "eventide_unaccounted_rows != 0" in [rule["expr"] for rule in group["rules"]]


@needs_promtool
def test_promtool_finds_nothing_wrong_with_the_metrics(shop: Simulation) -> None:
    text, _ = exposition(view_of(str(shop.root)).snapshot())
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


@needs_promtool
def test_promtool_understands_the_alert_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", str(TOP / "alerts.yml")], capture_output=True, text=True)
    assert checked.returncode == 0 and "SUCCESS" in checked.stdout, checked.stdout + checked.stderr
