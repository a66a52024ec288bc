"""Who looks at streams without touching them: at those of a running database, or at what a checkpoint holds.

Nothing here waits for a batch or for the database's lock, and nothing is opened or changed.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from eventide.errors import OptionError
from eventide.plan.logical import Stream
from eventide.plan.reads import tables_of
from eventide.sql.catalog import Catalog
from eventide.storage.atomic import read_json
from eventide.storage.history import Point, history_of, stored_accounts
from eventide.storage.layout import Layout
from eventide.storage.lease import holders
from eventide.storage.passed_over import scan_figures
from eventide.storage.paths import AnyPath, RemotePath
from eventide.storage.results import Account, Results
from eventide.storage.tables import TableVersions, VersionLog, table_figures

if TYPE_CHECKING:
    from eventide.plan.fusion import Fused
    from eventide.spark.engine import Engine
    from eventide.spark.running import RunningStream

NEW, RUNNING, STOPPED, FAILED = "new", "running", "stopped", "failed"
_LISTING_SHARE = 0.05  # of the time, at most, goes into listing the results of a checkpoint


@dataclass(frozen=True)
class Observed:
    """What is known of one stream at a moment; times in microseconds."""

    stream: Stream
    state: str
    results: Results | None = None
    account: Account | None = None
    watermark: int | None = None
    points: list[Point] = field(default_factory=list)
    took: Mapping[str, int] = field(default_factory=dict)  # by all batches since somebody counts, by phase
    idle: Collection[str] = ()
    idle_partitions: Mapping[str, Collection[str]] = field(default_factory=dict)
    failure: str | None = None
    way_out: str | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)  # load, side sinks, scans of files
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # that it looks up


class Observer(Protocol):
    @property
    def kind(self) -> str:
        """`live` or `checkpoint`."""
        ...

    @property
    def layout(self) -> Layout: ...

    def catalog(self) -> Catalog: ...

    def observe(self, name: str, since: int = 0) -> Observed:
        """A stream of the catalog, with its points of the second `since` and later."""
        ...

    def fused(self, name: str) -> Fused | None:
        """What a stream that was compiled runs as one."""
        ...


class LiveObserver:
    """Looks at the streams of a database of this process."""

    kind = "live"

    def __init__(self, catalog: Catalog, layout: Layout, engine: Engine) -> None:
        self._catalog = catalog
        self.layout = layout
        self._engine = engine
        self._before = CheckpointObserver(layout.root)

    def catalog(self) -> Catalog:
        return self._catalog

    def fused(self, name: str) -> Fused | None:
        return self._engine.fused(name)

    def observe(self, name: str, since: int = 0) -> Observed:
        running = self._engine.opened(name)
        if running is None:
            return self._before.stored(self._catalog.stream(name), since, is_running=False)
        results, failure = running.router.results, running.failed()
        account = results.latest()
        state = FAILED if failure else RUNNING if running.is_active else STOPPED if account else NEW
        now = time.time_ns() // 1000
        return Observed(
            self._catalog.stream(name),
            state,
            results,
            account,
            running.watermark(),
            self._points(running, since),
            running.router.history.took(),
            running.idle(now),
            running.idle_lanes(now),
            None if failure is None else failure.message,
            None if failure is None else failure.help,
            {**running.load(), **running.router.side.metrics(), **scan_figures(self.layout.scans(name))},
            running.table_figures(),
        )

    @staticmethod
    def _points(running: RunningStream, since: int) -> list[Point]:
        """Those of the batches of this run, after what the disk knows of those before it."""
        history = running.router.history
        found = history.points(since)
        if since:
            return found
        return [*history_of(stored_accounts(running.router.results, history.first_batch)).points(), *found]


class CheckpointObserver:
    """Looks at a checkpoint, which another process may have open. Needs no Spark."""

    kind = "checkpoint"

    def __init__(self, root: AnyPath) -> None:
        self.layout = Layout(root)
        self._kept: dict[str, _Stored] = {}
        self._catalog: tuple[int, Catalog] | None = None

    def check(self) -> None:
        if not self.layout.catalog.exists():
            raise OptionError(
                f"{self.layout.root} is not an Eventide checkpoint",
                help="give the folder that `eventide run --checkpoint DIR` used",
            )

    def catalog(self) -> Catalog:
        changed = self.layout.catalog.stat().st_mtime_ns
        if self._catalog is None or self._catalog[0] != changed:
            texts = read_json(self.layout.catalog)
            self._catalog = changed, Catalog.from_texts(texts, allow_jvm_calls=True)  # nothing of it is run
        return self._catalog[1]

    def fused(self, name: str) -> Fused | None:
        return None

    def observe(self, name: str, since: int = 0) -> Observed:
        return self.stored(self.catalog().stream(name), since, self._is_open())

    def stored(self, stream: Stream, since: int, is_running: bool) -> Observed:
        """What the checkpoint says of a stream."""
        kept = self._kept.setdefault(stream.name, _Stored(self.layout.results(stream.name)))
        results = kept.results()
        account = None if results is None else results.latest()
        told: int | None = read_json(self.layout.stream(stream.name) / "watermark.json")
        return Observed(
            stream,
            NEW if account is None else RUNNING if is_running else STOPPED,
            results,
            account,
            told if told is not None else account.watermark if account else None,
            [] if results is None else kept.points(results, since),
            kept.took(),
            figures=scan_figures(self.layout.scans(stream.name)),
            tables=self._tables(stream),
        )

    def _tables(self, stream: Stream) -> dict[str, dict[str, Any]]:
        looked_up = tables_of(stream.query)
        if not looked_up:
            return {}
        used = VersionLog(self.layout.table_log(stream.name)).latest()
        states = {name: TableVersions(self.layout.tables / name).state() for name in looked_up}
        return {name: table_figures(state, used.get(name)) for name, state in states.items()}

    def _is_open(self) -> bool:
        """Whether the process that opened the checkpoint last still has it; its lock is left alone."""
        if isinstance(self.layout.root, RemotePath):
            return bool(holders(self.layout.root / "owners"))
        lock = self.layout.root / "lock"
        try:
            holder = lock.read_text(encoding="utf-8").split()
            os.kill(int(holder[-1]), 0)
            locks = Path("/proc/locks").read_text(encoding="utf-8")
        except PermissionError:
            return True  # it is there, and is somebody else's
        except FileNotFoundError:
            return lock.exists()  # a system that does not list its locks
        except (OSError, ValueError, IndexError):
            return False
        return f":{lock.stat().st_ino} " in locks


class _Stored:
    """The results of one stream on disk. A folder of many batches is listed seldom, so that looking costs little."""

    def __init__(self, folder: AnyPath) -> None:
        self._folder = folder
        self._results: Results | None = None
        self._changed = -1
        self._next_listing = 0.0
        self._history = history_of([])

    def results(self) -> Results | None:
        with contextlib.suppress(FileNotFoundError):
            changed = _changed(self._folder)
            began = time.monotonic()
            if changed != self._changed and began >= self._next_listing:
                self._results, self._changed = Results(self._folder), changed
                self._next_listing = time.monotonic() + (time.monotonic() - began) / _LISTING_SHARE
        return self._results

    def points(self, results: Results, since: int) -> list[Point]:
        last = self._history.last_batch
        if last < 0:
            self._history = history_of(stored_accounts(results))
        for batch in results.batches(last) if last >= 0 else ():
            self._history.add(results.account(batch))
        return self._history.points(since)

    def took(self) -> dict[str, int]:
        return self._history.took()


def _changed(folder: AnyPath) -> int:
    """A number that is another one when a file has come or gone. A store does not tell that of a folder."""
    return time.time_ns() if isinstance(folder, RemotePath) else folder.stat().st_mtime_ns
