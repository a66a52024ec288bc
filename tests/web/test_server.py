"""Who gets what from the server: reading only, a token beyond this machine, nothing that a browser could misuse."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the dashboard needs eventide[dashboard]")
pytest.importorskip("uvicorn", reason="the dashboard needs eventide[dashboard]")

from eventide.errors import OptionError
from eventide.web.access import is_loopback
from eventide.web.app import STATIC
from eventide.web.serve import Dashboard, DashboardError
from eventide.web.views import RemoteError, RemoteView, view_of
from tests.web.simulated import SECOND, Simulation

NOON = 1_738_324_800_000_000
TOKEN = "a token of enough letters"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    simulation = Simulation(tmp_path_factory.mktemp("server") / "shop")
    simulation.run(NOON, NOON + 30 * SECOND)
    return simulation.root


@pytest.fixture(scope="module")
def dashboard(shop: Path) -> Iterator[Dashboard]:
    with Dashboard(view_of(str(shop)), port=0) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(shop: Path) -> Iterator[Dashboard]:
    with Dashboard(view_of(str(shop)), port=0, token=TOKEN) as running:
        yield running


def get(dashboard: Dashboard, path: str = "", method: str = "GET", **headers: str) -> tuple[int, Any, str]:
    """Status, headers and body."""
    url = f"http://127.0.0.1:{dashboard.port}/{path}"
    request = urllib.request.Request(url, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_the_page_and_its_parts_are_small_and_ask_nobody_else(dashboard: Dashboard) -> None:
    total = 0
    for path in sorted(STATIC.iterdir()):
        status, headers, body = get(dashboard, path.name)
        assert status == 200 and headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert "http://www.w3.org/" in body or "http" not in body.replace("http-equiv", "").replace("https", "http")
        assert "innerHTML" not in body and "insertAdjacentHTML" not in body and "eval(" not in body
        assert " style=" not in body and "onclick=" not in body  # which the policy would refuse
        total += len(body.encode())
    assert total < 300_000
    assert get(dashboard)[2] == (STATIC / "index.html").read_text(encoding="utf-8")


def test_nothing_but_reading(dashboard: Dashboard) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert get(dashboard, "api/snapshot", method)[0] == 405


def test_paths_do_not_leave_the_folder(dashboard: Dashboard) -> None:
    for path in ("../app.py", "%2e%2e/app.py", "static/../app.py", "app.py", "..%2f..%2fapp.py"):
        assert get(dashboard, path)[0] == 404


def test_a_page_whose_name_leads_here_by_a_trick_gets_nothing(dashboard: Dashboard) -> None:
    assert get(dashboard, "api/snapshot", Host="evil.example")[0] == 421
    assert get(dashboard, "api/snapshot", Host=f"localhost:{dashboard.port}")[0] == 200
    assert get(dashboard, "api/snapshot", Host=f"[::1]:{dashboard.port}")[0] == 200


def test_questions_about_what_is_not_there(dashboard: Dashboard) -> None:
    status, _, body = get(dashboard, "api/rows?stream=nobody")
    assert status == 404 and json.loads(body)["error"].startswith("there is no stream nobody")
    assert get(dashboard, "api/rows?stream=per_page&limit=x")[0] == 404
    assert get(dashboard, "api/nothing?stream=per_page")[0] == 404


def test_the_token_is_asked_for_everywhere(guarded: Dashboard) -> None:
    for path in ("", "app.js", "api/snapshot", "events", "metrics"):
        assert get(guarded, path)[0] == 401
        assert get(guarded, path, Authorization="Bearer wrong")[0] == 401
        assert get(guarded, path, Cookie="eventide_token=wrong")[0] == 401
    assert get(guarded, "api/snapshot", Authorization=f"Bearer {TOKEN}")[0] == 200
    assert get(guarded, "api/snapshot", Cookie=f'eventide_token="{TOKEN}"')[0] == 200


def test_the_address_with_the_token_becomes_a_cookie(guarded: Dashboard) -> None:
    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *given: Any) -> None:
            return None

    with pytest.raises(urllib.error.HTTPError) as told:
        urllib.request.build_opener(Stay).open(guarded.url.replace(" ", "%20"), timeout=30)
    cookie = told.value.headers["set-cookie"]
    assert told.value.code == 303 and told.value.headers["location"] == "./"
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()


def test_beyond_this_machine_there_is_always_a_token(shop: Path) -> None:
    with Dashboard(view_of(str(shop)), host="0.0.0.0", port=0) as running:
        assert running.token is not None and len(running.token) >= 24 and running.token in running.url
        assert get(running, "api/snapshot")[0] == 401
        assert get(running, "api/snapshot", Authorization=f"Bearer {running.token}", Host="any.example")[0] == 200
        assert running.token not in repr(running)


def test_what_counts_as_this_machine() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.8.8", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "")))


def test_a_short_token_and_a_taken_port_are_refused(shop: Path, dashboard: Dashboard) -> None:
    with pytest.raises(OptionError, match="can be guessed"):
        Dashboard(view_of(str(shop)), token="short")
    with pytest.raises(DashboardError, match="cannot listen on"):
        Dashboard(view_of(str(shop)), port=dashboard.port)


def test_a_run_elsewhere_is_seen_through_its_url(guarded: Dashboard, shop: Path) -> None:
    remote = RemoteView(f"http://127.0.0.1:{guarded.port}", TOKEN)
    with Dashboard(remote, port=0) as here:
        found = json.loads(get(here, "api/snapshot")[2])
        assert found["kind"] == "remote" and found["streams"][0]["name"] == "per_page"
        assert json.loads(get(here, "api/side?stream=per_page&kind=error&limit=3")[2])["rows"][0]["kind"] == "error"
        assert get(here, "api/rows?stream=nobody")[0] == 502
    with pytest.raises(RemoteError, match="wants a token"):
        RemoteView(f"http://127.0.0.1:{guarded.port}").snapshot()
    with pytest.raises(RemoteError, match="does not answer"):
        RemoteView("http://127.0.0.1:9").snapshot()
    with pytest.raises(OptionError, match="is not the address"):
        RemoteView("ftp://example.com")


def test_pages_are_told_what_is_new_and_no_more_than_so_many(dashboard: Dashboard) -> None:
    url = f"http://127.0.0.1:{dashboard.port}/events"
    with urllib.request.urlopen(url, timeout=30) as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        lines = [events.readline().decode() for _ in range(6)]
    assert lines[0] == "event: snapshot\n" and lines[3] == "event: update\n"
    whole, update = (json.loads(lines[place].removeprefix("data: ")) for place in (1, 4))
    assert len(whole["streams"][0]["points"]) == 30 and update["streams"][0]["points"] == []
    opened = []
    try:
        for _ in range(40):
            opened.append(urllib.request.urlopen(url, timeout=30))
            opened[-1].readline()
        pytest.fail("there is no limit")
    except urllib.error.HTTPError as error:
        assert error.code == 503
    finally:
        for each in opened:
            each.close()


def test_closing_ends_the_thread(shop: Path) -> None:
    before = threading.active_count()
    running = Dashboard(view_of(str(shop)), port=0)
    running.close()
    running.close()
    assert threading.active_count() <= before
