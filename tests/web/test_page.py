"""The page in a real browser: it loads, moves on, filters, shows what fails, and nothing from data becomes a script."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the dashboard needs eventide[dashboard]")

from eventide.diagnose.observer import FAILED, CheckpointObserver, Observed
from eventide.web.serve import Dashboard
from eventide.web.views import LocalView, view_of
from tests.web.browser import CHROMIUM, MISSING, Browser
from tests.web.simulated import SECOND, Simulation

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
EVIL = "<img src=x onerror='alert(1)'>"
SHOTS = os.environ.get("EVENTIDE_SCREENSHOTS")  # a folder in which to keep what the browser showed


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@contextmanager
def growing(simulation: Simulation) -> Iterator[None]:
    """Batches go on while a test looks."""
    done = threading.Event()

    def grow() -> None:
        while not done.wait(0.5):
            simulation.step(time.time_ns() // 1000)

    worker = threading.Thread(target=grow)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()


def shop(root: Path, **other: Any) -> Simulation:
    simulation = Simulation(root, **other)
    simulation.hold()
    now = time.time_ns() // 1000
    simulation.run(now - 90 * SECOND, now)
    return simulation


def keep(browser: Browser, name: str) -> None:
    if SHOTS is not None:
        browser.screenshot(Path(SHOTS) / f"{name}.png")


TEXT: Callable[[str], str] = "document.getElementById({!r}).textContent".format


def test_the_page_loads_moves_on_and_filters(browser: Browser, tmp_path: Path) -> None:
    simulation = shop(tmp_path)
    with Dashboard(view_of(str(tmp_path)), port=0) as dashboard, growing(simulation):
        browser.problems.clear()
        browser.requests.clear()
        browser.open(dashboard.url)
        browser.wait("document.querySelectorAll('.tile').length >= 6")
        assert browser.run(TEXT("name")) == "per_page" and "balanced" in browser.run(TEXT("equation"))
        before = browser.run(TEXT("equation"))
        browser.wait(f"{TEXT('equation')} !== {before!r}")
        browser.wait("document.querySelectorAll('#graph .edge.flowing').length >= 2")
        browser.wait("document.querySelectorAll('#panel tbody tr').length >= 5")
        inked = "document.getElementById('timeline').getContext('2d').getImageData(0, 0, 900, 300).data.some(Boolean)"
        assert browser.run(inked)
        keep(browser, "dashboard")
        browser.press("2")
        browser.wait("document.querySelectorAll('#panel tbody tr .tag').length >= 20")
        browser.run(
            "{ const kind = document.querySelector('select[name=kind]'); kind.value = 'error'; "
            "kind.dispatchEvent(new Event('change')) }"
        )
        browser.wait("[...document.querySelectorAll('#panel tbody .tag')].every(t => t.textContent === 'error')")
        browser.run(
            "{const i=document.querySelector('#panel input'); i.value='no such'; i.dispatchEvent(new Event('input'))}"
        )
        browser.wait("document.getElementById('panel').textContent.includes('no payload is like that')")
        browser.press("3")
        browser.wait("document.getElementById('panel').textContent.includes('What would have caught them')")
        browser.press("5")
        browser.wait("document.querySelectorAll('.plan .figure').length > 6")
        browser.press("6")
        browser.wait("document.querySelector('#panel .sql')?.textContent.startsWith('CREATE STREAM per_page')")
        browser.press("j")
        browser.wait(f"{TEXT('name')} !== 'per_page'")
        browser.press("t")
        assert browser.run("document.documentElement.dataset.theme") in ("dark", "light")
        browser.size(390, 844, mobile=True)
        browser.wait("document.documentElement.scrollWidth <= 390")
        keep(browser, "phone")
        browser.size(1280, 900)
        assert browser.problems == []
        assert {each.split("/")[2] for each in browser.requests} == {f"127.0.0.1:{dashboard.port}"}
        browser.open("about:blank")


def test_a_stream_that_has_failed_and_one_that_stands_still_are_at_the_top(browser: Browser, tmp_path: Path) -> None:
    class Broken(CheckpointObserver):
        def observe(self, name: str, since: int = 0) -> Observed:
            seen = super().observe(name, since)
            if name != "per_page":
                return seen
            told = "stream per_page stopped: the disk is full"
            return Observed(seen.stream, FAILED, seen.results, seen.account, failure=told, way_out="make room")

    shop(tmp_path)
    with Dashboard(LocalView(Broken(tmp_path)), port=0) as dashboard:
        browser.problems.clear()
        browser.open(dashboard.url)
        browser.wait("document.querySelector('.notice.failed')")
        told = browser.run(TEXT("notices"))
        assert "per_page has failed" in told and "the disk is full" in told and "make room" in told
        assert browser.run(TEXT("state")) == "failed"
        assert browser.run("document.querySelectorAll('#graph .is-failed').length") == 1
        assert browser.problems == []
        browser.open("about:blank")


class HostileView(LocalView):
    """Names that SQL would refuse, as a dashboard elsewhere may send them."""

    def snapshot(self, since: int = 0) -> dict[str, Any]:
        return self._spoilt(super().snapshot(since))

    def detail(self, what: str, stream: str, query: Mapping[str, str]) -> dict[str, Any]:
        return self._spoilt(super().detail(what, stream, query))

    @staticmethod
    def _spoilt(value: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(value, default=str)
        for word in ("busiest", "pages", "orders", "revenue", "allowed_lateness_exceeded"):
            text = text.replace(word, EVIL)
        found: dict[str, Any] = json.loads(text)
        return found


def test_hostile_names_and_payloads_stay_text(browser: Browser, tmp_path: Path) -> None:
    simulation = shop(tmp_path, pages=(EVIL,), late_text=EVIL)
    view = HostileView(CheckpointObserver(tmp_path))
    with Dashboard(view, port=0) as dashboard, growing(simulation):
        browser.problems.clear()
        browser.open(dashboard.url)
        browser.run("window.alert = () => { window.hurt = true }")
        browser.wait(f"document.getElementById('graph').textContent.includes({EVIL!r})")
        browser.wait(f"document.getElementById('streams').textContent.includes({EVIL!r})")
        browser.press("1")
        browser.wait(f"document.querySelector('#panel thead')?.textContent.includes({EVIL!r})")
        for key, selector in (("2", "td.code"), ("3", ".advice"), ("4", ".source"), ("5", ".plan"), ("6", ".sql")):
            browser.press(key)
            browser.wait(f"document.querySelector('#panel {selector}')")
        assert browser.run("document.querySelectorAll('main img, main script, main iframe').length") == 0
        assert browser.run("window.hurt === undefined") and browser.problems == []
        browser.open("about:blank")
