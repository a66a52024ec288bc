"""`eventide run`: runs a SQL or app file until it is told to stop, or until it has processed what is there."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.text import Text

from eventide.cli.console import accounting_line, print_rows
from eventide.cli.files import read_program
from eventide.cli.progress import Progress, ProgressView
from eventide.cli.reload import Reloading
from eventide.errors import OptionError, StreamFailedError

if TYPE_CHECKING:
    from eventide.app.model import Settings
    from eventide.cli.files import Checked
    from eventide.cli.pages import Page
    from eventide.database import Database

ROWS_SHOWN = 20


@dataclass(frozen=True)
class Connection:
    """How to reach Spark and where to keep state; what `eventide.connect` takes."""

    checkpoint: str | Path | None = None
    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
    shards: int | None = None
    local_speed: bool | None = None
    allow_jvm_calls: bool = False

    def over(self, settings: Settings | None) -> Connection:
        """The same, with an app file's settings for whatever the command line does not set."""
        if settings is None:
            return self
        kept = settings.checkpoint
        return Connection(
            self.checkpoint or kept,
            self.master or settings.master,
            {**settings.conf, **self.conf},
            self.shards or settings.shards,
            settings.local_speed if self.local_speed is None else self.local_speed,
            self.allow_jvm_calls,
        )

    def open(self, console: Console) -> Database:
        import eventide

        checkpoint = None if self.checkpoint is None else str(self.checkpoint)
        with console.status("starting Spark …"):
            return eventide.connect(
                checkpoint=checkpoint,
                master=self.master,
                conf=self.conf or None,
                shards=self.shards,
                local_speed=self.local_speed,
                allow_jvm_calls=self.allow_jvm_calls,
            )


class StopSignals:
    """Turns the first SIGINT or SIGTERM into a request to stop; the second ends the process at once.

    The handler only sets an attribute: it may run while this thread holds any lock, so it takes none.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            os._exit(128 + number)
        self.received = signal.Signals(number)

    def wait(self, seconds: float) -> bool:
        """Wait for a signal, at most `seconds`; returns whether one came."""
        end = time.monotonic() + seconds
        while self.received is None and time.monotonic() < end:
            time.sleep(min(0.1, seconds))
        return self.received is not None


def run(
    file: Path,
    connection: Connection,
    *,
    once: bool,
    flush: bool | None,
    console: Console,
    page: Page | None = None,
    reload: bool = False,
) -> None:
    """Raises `StreamFailedError` when a stream fails, after stopping the others."""
    program = read_program(file, connection.allow_jvm_calls, connection.checkpoint)
    connection = connection.over(program.settings)
    console.print(Text(f"{file}: {program.summary()}", style="bold"), soft_wrap=True)
    if connection.checkpoint is None:
        if reload:
            help = "pass --checkpoint DIR"
            raise OptionError("--reload needs a checkpoint, from which streams go on under a new text", help=help)
        console.print(Text("state is temporary; to resume after a restart pass --checkpoint DIR", style="dim"))
    news: Checked | None = program
    while news is not None:
        watch = None
        if reload and connection.checkpoint is not None:
            watch = Reloading(file, connection.checkpoint, connection.allow_jvm_calls, console)
        news = _run_program(news, connection, once=once, flush=flush, console=console, page=page, watch=watch)


def _run_program(
    program: Checked,
    connection: Connection,
    *,
    once: bool,
    flush: bool | None,
    console: Console,
    page: Page | None,
    watch: Reloading | None,
) -> Checked | None:
    """Until it is stopped, or until there is another text of it, which is returned."""
    db = connection.open(console)
    try:
        db.execute(program.sql)
        if page is not None:
            page.announce(db.dashboard(*page.place(), page.token), console)
        with StopSignals() as signals:
            if once:
                _run_once(db, signals, flush, console)
            elif (news := _run_until_stopped(db, signals, flush, console, watch)) is not None:
                return news
        _report(db, console, show_rows=once)
        return None
    finally:
        db.close()


def _run_until_stopped(
    db: Database, signals: StopSignals, flush: bool | None, console: Console, watch: Reloading | None = None
) -> Checked | None:
    """Returns another text of the file, if that is why it has stopped."""
    db.start()
    console.print(Text("running; Ctrl-C stops", style="dim"))
    with ProgressView(console, db.progress) as view:
        while not signals.wait(1.0):
            _raise_failures(view.update())
            if db.has_ended():
                break
            news = None if watch is None else watch.news()
            if news is not None:
                _stop(db, False, console)
                return news
    if signals.received is None:  # every stream has taken in what was there
        _stop(db, bool(flush), console)
        return None
    # SIGTERM comes from something that will restart us (systemd, Kubernetes): windows stay open for the next run.
    graceful = signals.received is signal.SIGINT if flush is None else flush
    _stop(db, graceful, console)
    return None


def _run_once(db: Database, signals: StopSignals, flush: bool | None, console: Console) -> None:
    """Ticks on a second thread, while the main thread shows progress and listens for signals."""
    failure: list[BaseException] = []

    def tick() -> None:
        try:
            db.tick()
        except BaseException as error:
            failure.append(error)

    worker = threading.Thread(target=tick, name="eventide-tick", daemon=True)
    worker.start()
    with ProgressView(console, db.progress) as view:
        while worker.is_alive() and not signals.wait(0.2):
            view.update()
    if signals.received is not None:
        _stop(db, False, console)
        worker.join()
        return
    if failure:
        raise failure[0]
    _stop(db, bool(flush), console)


def _stop(db: Database, graceful: bool, console: Console) -> None:
    doing = "stopping: open windows are emitted" if graceful else "stopping: open windows stay in the checkpoint"
    with console.status(f"{doing} (Ctrl-C again to kill)"):
        db.stop(graceful=graceful)


def _raise_failures(progress: Progress) -> None:
    failed = [f"{stream['stream']}: {stream['error']}" for stream in progress if stream["error"]]
    if failed:
        raise StreamFailedError("\n".join(failed))


def _report(db: Database, console: Console, show_rows: bool) -> None:
    """The accounts of every stream, and the rows of those that have no sink."""
    delivered = {sink.stream for sink in db.catalog.sinks.values()}
    for name in db.catalog.streams:
        if show_rows and name not in delivered:
            result = db.read(name)
            console.print(Text(name, style="bold"))
            print_rows(console, result.columns, result, limit=ROWS_SHOWN)
        console.print(Text(f"{name}: ").append_text(accounting_line(db.accounting(name))))
