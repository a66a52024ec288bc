"""Serves a dashboard: in a thread of a process that does something else, or until Ctrl-C."""

from __future__ import annotations

import secrets
import socket
import threading
from typing import Any

from eventide.errors import EventideError, OptionError
from eventide.web.views import View

PORT = 8321
_START_SECONDS = 10.0
_EXTRA = "pip install 'eventide[dashboard]'"


class DashboardError(EventideError):
    """The dashboard cannot start."""


class Dashboard:
    """A running dashboard. `url` is the address to open, with the token if one is needed."""

    def __init__(self, view: View, host: str = "127.0.0.1", port: int | None = None, token: str | None = None) -> None:
        """`port`: that, or an error; None: 8321, or any that is free. Beyond loopback there is always a token."""
        uvicorn, hub, application, is_loopback = _parts()
        loopback = is_loopback(host)
        self.token = token if token is not None or loopback else secrets.token_urlsafe(24)
        if token is not None and len(token) < 16:
            raise OptionError("a token of less than 16 characters can be guessed", help="leave it out: one is made")
        self._socket = _listening(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._hub = hub(view)
        config = uvicorn.Config(
            application(self._hub, self.token, loopback),
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            date_header=False,
            limit_concurrency=128,
            timeout_graceful_shutdown=3,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="eventide dashboard", daemon=True)
        self._thread.start()
        if not self._wait_until_started():
            raise DashboardError(f"the dashboard did not start within {_START_SECONDS:.0f} seconds")

    @property
    def url(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/" + ("" if self.token is None else f"?token={self.token}")

    def close(self) -> None:
        """Stop serving. Harmless if it was closed already."""
        self._hub.is_closed = True
        self._server.should_exit = True
        self._thread.join(_START_SECONDS)
        self._socket.close()

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Dashboard: http://{self.host}:{self.port}/>"

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def _wait_until_started(self) -> bool:
        tick = threading.Event()
        for _ in range(int(_START_SECONDS / 0.02)):
            if self._server.started:
                return True
            if not self._thread.is_alive():
                return False
            tick.wait(0.02)
        return False


def _listening(host: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    wanted = [PORT, 0] if port is None else [port]
    for number in wanted:
        found = socket.socket(family, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((host, number))
            found.listen(128)
        except OSError as error:
            found.close()
            if number == wanted[-1]:
                raise DashboardError(
                    f"the dashboard cannot listen on {host}, port {number}: {error.strerror or error}",
                    help="choose another with --host and --port",
                ) from None
            continue
        return found
    raise DashboardError(f"no port is free on {host}")


def _parts() -> tuple[Any, Any, Any, Any]:
    try:
        import uvicorn

        from eventide.web.access import is_loopback
        from eventide.web.app import Hub, application
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise DashboardError(f"the dashboard needs {error.name}", help=_EXTRA) from None
    return uvicorn, Hub, application, is_loopback
