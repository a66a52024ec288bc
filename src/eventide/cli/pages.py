"""`eventide dashboard`, and the page that other commands serve beside what they do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from eventide.errors import OptionError

if TYPE_CHECKING:
    from eventide.web.serve import Dashboard

_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Page:
    """Where a dashboard listens, as the command line says it."""

    address: str | None = None
    token: str | None = None

    def place(self) -> tuple[str, int | None]:
        """Host and port.

        >>> Page("0.0.0.0:8080").place(), Page(":9000").place(), Page("[::1]:80").place(), Page("localhost").place()
        (('0.0.0.0', 8080), ('127.0.0.1', 9000), ('::1', 80), ('localhost', None))
        """
        if self.address is None:
            return _HOST, None
        host, colon, port = self.address.rpartition(":")
        if not colon or "]" in port or (host.count(":") > 0 and not host.startswith("[")):
            host, port = self.address, ""
        if port and (not port.isdigit() or int(port) > 65535):
            raise OptionError(f"{self.address} is no address to listen on", help="HOST:PORT, such as 0.0.0.0:8321")
        return host.strip("[]") or _HOST, int(port) if port else None

    @staticmethod
    def announce(dashboard: Dashboard, console: Console) -> None:
        console.print(Text("dashboard: ", style="dim").append(dashboard.url, style="cyan"), soft_wrap=True)


def show_dashboard(place: str, page: Page, remote_token: str | None, console: Console) -> None:
    """Until Ctrl-C or SIGTERM."""
    from eventide.cli.runner import StopSignals
    from eventide.web.serve import Dashboard
    from eventide.web.views import view_of

    view = view_of(place, remote_token)
    view.snapshot()  # what is wrong with it is said here, not on the page
    with StopSignals() as signals, Dashboard(view, *page.place(), token=page.token) as dashboard:
        page.announce(dashboard, console)
        console.print(Text("Ctrl-C stops", style="dim"))
        while not signals.wait(60.0):
            pass
