"""The dashboard's pages and answers, as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from eventide.errors import EventideError
from eventide.web.access import Access
from eventide.web.views import DETAILS, View

STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_EVERY = 1.0  # seconds between two updates
_MOST_LISTENERS = 32
_CLOSING = 0.3  # seconds after which pages notice that the dashboard closes
_ONLY_FIGURES = 1 << 40  # a second since which there are no points
_OVERLAP = 2  # seconds of points that are sent again, since the last ones may have grown


class Hub:
    """Tells all pages that are open of what is new; rests while there are none.

    One snapshot serves all of them. A page that reads too slowly misses updates, not memory: it has one waiting.
    """

    def __init__(self, view: View) -> None:
        self.view = view
        self.lock = asyncio.Lock()
        self.is_closed = False  # set by another thread: pages are let go
        self._listeners: set[asyncio.Queue[str]] = set()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        return len(self._listeners) >= _MOST_LISTENERS

    async def take(self, since: int = 0) -> dict[str, Any]:
        async with self.lock:
            return await run_in_threadpool(self.view.snapshot, since)

    async def listen(self) -> AsyncIterator[str]:
        waiting: asyncio.Queue[str] = asyncio.Queue(maxsize=1)
        yield await self._message("snapshot", 0)
        self._listeners.add(waiting)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._tell())
        try:
            while not self.is_closed:
                with contextlib.suppress(TimeoutError):
                    yield await asyncio.wait_for(waiting.get(), _CLOSING)
        finally:
            self._listeners.discard(waiting)

    async def _tell(self) -> None:
        since = 0
        while self._listeners and not self.is_closed:
            await asyncio.sleep(_EVERY)
            text = await self._message("update", since or int(time.time()) - 5)
            since = int(time.time()) - _OVERLAP
            behind = [waiting for waiting in self._listeners if waiting.full()]
            whole = await self._message("snapshot", 0) if behind else ""
            for waiting in list(self._listeners):
                with contextlib.suppress(asyncio.QueueEmpty):
                    if waiting.full():
                        waiting.get_nowait()
                waiting.put_nowait(whole if waiting in behind else text)

    async def _message(self, event: str, since: int) -> str:
        try:
            found = await self.take(since)
        except EventideError as error:
            event, found = "trouble", {"error": error.message, "help": error.help}
        return f"event: {event}\ndata: {as_json(found)}\n\n"


def application(hub: Hub, token: str | None = None, loopback: bool = True) -> ASGIApp:
    """`token` is asked for if there is one; `loopback`: only names of this machine are answered."""
    routes = [
        Route("/", _file("index.html")),
        *(Route(f"/{path.name}", _file(path.name)) for path in sorted(STATIC.iterdir()) if path.suffix in _TYPES),
        Route("/events", _events(hub)),
        Route("/api/snapshot", _snapshot(hub)),
        Route("/metrics", _metrics(hub)),
        *(Route(f"/api/{what}", _detail(hub, what)) for what in DETAILS),
    ]
    return Access(Starlette(routes=routes), token, loopback)


def _snapshot(hub: Hub) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        since = request.query_params.get("since", "0")
        return await _answer(lambda: hub.view.snapshot(int(since) if since.isdigit() else 0), hub)

    return answer


def _detail(hub: Hub, what: str) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        query = dict(request.query_params)
        stream = query.pop("stream", "")
        return await _answer(lambda: hub.view.detail(what, stream, query), hub)

    return answer


async def _answer(ask: Callable[[], dict[str, Any]], hub: Hub) -> Response:
    try:
        async with hub.lock:
            found = await run_in_threadpool(ask)
    except EventideError as error:
        status = 404 if error.fault == "user" else 502
        return JSONResponse({"error": error.message, "help": error.help}, status)
    return Response(as_json(found), media_type="application/json")


def _events(hub: Hub) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        if hub.is_full:
            return PlainTextResponse("too many pages are open", 503, {"retry-after": "10"})
        return StreamingResponse(hub.listen(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    return answer


def _metrics(hub: Hub) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            from eventide.web.prometheus import exposition
        except ModuleNotFoundError as error:
            return PlainTextResponse(f"metrics need {error.name}: pip install 'eventide[dashboard]'", 501)
        try:
            found = await hub.take(_ONLY_FIGURES)
        except EventideError as error:
            return PlainTextResponse(error.render(), 502)
        text, kind = exposition(found, request.headers.get("accept", ""))
        return Response(text, media_type=kind)

    return answer


def _file(name: str) -> Callable[[Request], Any]:
    path = STATIC / name

    async def answer(request: Request) -> Response:
        return Response(path.read_bytes(), media_type=_TYPES[path.suffix])

    return answer


def as_json(value: Any) -> str:
    """JSON that is one line, and harmless wherever it stands."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("</", "<\\/")
