"""Where the page's figures come from: streams of this process, a checkpoint, or a dashboard elsewhere."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any, Protocol

from eventide.diagnose.observer import CheckpointObserver, Observer
from eventide.errors import EventideError, OptionError
from eventide.storage.opening import checkpoint_path
from eventide.web.details import Details, Filter
from eventide.web.snapshot import Snapshots

_TIMEOUT = 10.0
_LARGEST = 64_000_000  # bytes of an answer


class RemoteError(EventideError):
    """A dashboard elsewhere cannot be reached, or gives no sensible answer."""

    fault = "external"


class View(Protocol):
    """Answers as JSON values. Every call may come from another thread, one at a time."""

    def snapshot(self, since: int = 0) -> dict[str, Any]: ...

    def detail(self, what: str, stream: str, query: Mapping[str, str]) -> dict[str, Any]:
        """`what` is one of DETAILS."""
        ...


DETAILS = ("rows", "side", "late", "timeline", "plan")


class LocalView:
    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._snapshots = Snapshots(observer)
        self._details = Details(observer)

    def snapshot(self, since: int = 0) -> dict[str, Any]:
        return self._snapshots.take(since)

    def detail(self, what: str, stream: str, query: Mapping[str, str]) -> dict[str, Any]:
        name = self.observer.catalog().stream(stream).name
        if what == "rows":
            return self._details.rows(name, _number(query, "limit", 50))
        if what == "side":
            wanted = Filter(
                query.get("kind"),
                query.get("reason"),
                query.get("source"),
                query.get("text", "")[:200],
                min(_number(query, "limit", 50), 200),
            )
            return self._details.side(name, wanted)
        if what == "late":
            return self._details.late(name)
        if what == "timeline":
            return self._details.timeline(name, _number(query, "after", -1))
        if what == "plan":
            return self._details.plan(name)
        raise OptionError(f"there is no {what} of a stream", help=f"one of {', '.join(DETAILS)}")


class RemoteView:
    """Passes on what the dashboard of another process says; the token stays here."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError(
                f"{url} is not the address of a dashboard", help="http://HOST:PORT, or a checkpoint folder"
            )
        told = urllib.parse.parse_qs(parts.query).get("token", [None])[0]
        self._token = token or told
        self._base = urllib.parse.urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/"), "", ""))

    def snapshot(self, since: int = 0) -> dict[str, Any]:
        return {**self._get("/api/snapshot", {"since": str(since)}), "kind": "remote"}

    def detail(self, what: str, stream: str, query: Mapping[str, str]) -> dict[str, Any]:
        return self._get(f"/api/{what}", {"stream": stream, **query})

    def _get(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        address = f"{self._base}{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(address, headers={"Accept": "application/json"})
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                found = json.loads(answer.read(_LARGEST))
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                raise RemoteError(f"{self._base} wants a token", help="give it with --token, or in the URL") from None
            raise RemoteError(f"{self._base} answers {error.code}: {_told(error)}") from None
        except (OSError, ValueError) as error:
            raise RemoteError(
                f"{self._base} does not answer: {error}", help="is `eventide run --dashboard` up?"
            ) from None
        if not isinstance(found, dict):
            raise RemoteError(f"{self._base} is not a dashboard of Eventide")
        return found


def view_of(place: str, token: str | None = None) -> View:
    """A checkpoint folder, or the URL of a dashboard."""
    if place.startswith(("http://", "https://")):
        return RemoteView(place, token)
    observer = CheckpointObserver(checkpoint_path(place))
    observer.check()
    return LocalView(observer)


def _told(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(10_000)).get("error"))
    except (OSError, ValueError, AttributeError):
        return error.reason if isinstance(error.reason, str) else "no reason"


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    try:
        return max(-1, min(int(text), 1 << 40))
    except ValueError:
        raise OptionError(f"{name} is a whole number, not {text!r}") from None
