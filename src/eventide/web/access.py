"""Who may see the dashboard, and what a browser may do with it."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "eventide_token"
HEADERS = {
    # Nothing from elsewhere, no inline script or style, no frame around the page, no form that leaves it.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """Lets only reading requests through, with the token if there is one, for a name of this machine if it listens on
    loopback only: a page from elsewhere whose name leads here by a trick of DNS must not read what is here.
    """

    def __init__(self, app: ASGIApp, token: str | None, loopback: bool) -> None:
        self._app = app
        self._token = token
        self._loopback = loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name for name, _ in message["headers"]}
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(pair for pair in own if pair[0] not in known)]
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("the dashboard only shows", 405, {"allow": "GET, HEAD"})
        if self._loopback and not is_loopback(_host_name(headers.get("host", ""))):
            return PlainTextResponse("not a name of this machine", 421)
        if self._token is None:
            return None
        told = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if told and self._is_right(told):
            return self._welcome(scope, told)
        if self._is_right(_bearer(headers)) or self._is_right(_cookie(headers)):
            return None
        return PlainTextResponse(
            "a token is needed: open the address that the dashboard printed when it started, or send "
            "Authorization: Bearer TOKEN\n",
            401,
            {"www-authenticate": "Bearer"},
        )

    def _is_right(self, told: str) -> bool:
        return bool(told) and hmac.compare_digest(told.encode(), (self._token or "").encode())

    @staticmethod
    def _welcome(scope: Scope, token: str) -> Response | None:
        """Keeps the token as a cookie, and takes it out of the address; for machines the address is enough."""
        if scope["path"] != "/":
            return None
        answer = RedirectResponse("./", 303)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=scope["scheme"] == "https")
        return answer


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _bearer(headers: Mapping[str, str]) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def _cookie(headers: Mapping[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value
