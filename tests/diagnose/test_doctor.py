"""What `eventide doctor` finds, on machines that the tests make up."""

from __future__ import annotations

import io
import shutil
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from eventide.cli.doctor import print_findings
from eventide.diagnose import doctor
from eventide.diagnose.doctor import BAD, CARE, OK, Finding, examine
from tests.web.simulated import SECOND, Simulation


def found(checkpoint: Path | None = None) -> dict[str, Finding]:
    return {finding.what: finding for finding in examine(checkpoint)}


def test_a_checkpoint_that_is_well(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path)
    now = time.time_ns() // 1000
    simulation.run(now - 5 * SECOND, now)
    findings = found(tmp_path)
    assert findings["checkpoint"] == Finding("checkpoint", OK, "2 sources, 3 streams, 2 sinks")
    assert findings["stream per_page"].words.startswith("stopped, batch 4, ")
    assert findings["stream busiest"].words == "has not run yet"
    assert findings["Python"].state == OK and "clock" in findings and "doctor" not in findings
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".doctor")]


def test_a_checkpoint_of_the_future_and_one_that_is_none(tmp_path: Path) -> None:
    ahead = Simulation(tmp_path / "ahead")
    ahead.step(time.time_ns() // 1000 + 3600 * SECOND)
    stream = found(tmp_path / "ahead")["stream per_page"]
    assert stream.state == CARE and stream.words.endswith("its last batch is in the future")
    none = found(tmp_path / "none")["checkpoint"]
    assert none.state == BAD and none.words.endswith("is not an Eventide checkpoint") and none.way_out is not None


def test_a_machine_that_lacks_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> str:
        raise OSError("no such host")

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.delenv("SPARK_LOCAL_HOSTNAME", raising=False)
    monkeypatch.setattr(socket, "gethostbyname", nowhere)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=5_000_000, total=10**12))
    monkeypatch.setattr(doctor, "_available_memory", lambda: 300_000_000)
    findings = found()
    for what in ("Java", "memory", "disk of temporary files", "host name"):
        assert findings[what].state == BAD and findings[what].way_out, what
    console = Console(width=100, record=True, file=io.StringIO())
    assert not print_findings(None, console)
    assert "✗" in console.export_text(clear=False) and "→ install Java 17" in console.export_text()


def test_little_memory_and_a_nearly_full_disk_need_care(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=20 * 10**9, total=10**12))
    monkeypatch.setattr(doctor, "_available_memory", lambda: 64 * 10**9)
    monkeypatch.setattr(doctor, "_container_limit", lambda: 1_500_000_000)
    findings = found()
    assert findings["memory"].state == CARE and "the container has 1.5 GB" in findings["memory"].words
    assert findings["disk of temporary files"].state == CARE
