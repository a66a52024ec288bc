"""Where things are in a checkpoint folder, and who holds it.

catalog.json                 the SQL of every source, stream and sink
lock                         held by the process that has the database open
owners/                      the same, in a store that has no locks: who has it, and since when
migration.json, before/      while streams begin anew: the catalog and the streams that they take the place of
handover/                    rows of streams that have begun anew, on their way to sinks
tables/NAME/                 versions of a table that is looked up
sources/NAME/                rows written with db.write, one Arrow file per call; in time a thousand calls in one
streams/NAME$1, NAME$2, ...  inner streams: parts of its query that keep state; each folder is like that of a stream
streams/NAME/plan.json       what the stream means, its number of shards, and which batch ran under which text
streams/NAME/inbox/          manifests: which rows, watermarks and commands the stream should take in
streams/NAME/spark/          Spark's own checkpoint: offsets, commits, state
streams/NAME/scans/          which files the fused scan of each source has found
streams/NAME/moved/          state on its way to other shards, by the number of the batch from which they are
streams/NAME/time_bound.json  how far its time may have advanced, for fused scans
streams/NAME/shed_orders.json  what its shedder was told, with the times from which it holds
streams/NAME/tables.json     which versions of tables its batches use, with the times from which they count
streams/NAME/results/        what the stream emitted, one set of files per batch
streams/NAME/side/           how far each side sink has got, one file per sink
streams/NAME/reinject/       rows on their way back to sources
streams/NAME/replay/         corrections from late rows that were replayed
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import IO

from eventide.errors import CheckpointError
from eventide.storage.lease import Lease
from eventide.storage.paths import AnyPath, RemotePath

_PRIVATE = 0o700


class Layout:
    def __init__(self, root: AnyPath) -> None:
        self.root = root

    def make_private(self) -> None:
        """Let nobody but the owner into the checkpoint: what Spark writes below has the modes that Spark gives it.

        A folder that holds other things beside a checkpoint stays as it is, and so does a store, which has rules of its
        own.
        """
        if isinstance(self.root, RemotePath):
            return
        ours = {"catalog.json", "lock", "sources", "streams", "tables", "migration.json", "before", "handover"}
        for folder in (self.root, self.root / "sources", self.root / "streams"):
            folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            if folder != self.root or {path.name for path in folder.iterdir()} <= ours:
                with contextlib.suppress(PermissionError):  # of another owner, who has let us in
                    folder.chmod(_PRIVATE)

    @property
    def catalog(self) -> AnyPath:
        return self.root / "catalog.json"

    @property
    def lock(self) -> AnyPath:
        return self.root / "lock"

    @property
    def owners(self) -> AnyPath:
        return self.root / "owners"

    @property
    def migration(self) -> AnyPath:
        return self.root / "migration.json"

    @property
    def before(self) -> AnyPath:
        return self.root / "before"

    @property
    def handover(self) -> AnyPath:
        return self.root / "handover"

    def source(self, name: str) -> AnyPath:
        return self.root / "sources" / name

    @property
    def tables(self) -> AnyPath:
        return self.root / "tables"

    def table_log(self, stream: str) -> AnyPath:
        return self.stream(stream) / "tables.json"

    def stream(self, name: str) -> AnyPath:
        return self.root / "streams" / name

    def inner_streams(self, stream: str) -> list[AnyPath]:
        """The folders of its inner streams, which are called stream$1, stream$2, ..."""
        return sorted((self.root / "streams").glob(f"{stream}$[0-9]*"))

    def plan(self, stream: str) -> AnyPath:
        return self.stream(stream) / "plan.json"

    def inbox(self, stream: str) -> AnyPath:
        return self.stream(stream) / "inbox"

    def spark(self, stream: str) -> AnyPath:
        return self.stream(stream) / "spark"

    def side(self, stream: str) -> AnyPath:
        return self.stream(stream) / "side"

    def reinject(self, stream: str) -> AnyPath:
        return self.stream(stream) / "reinject"

    def replay(self, stream: str) -> AnyPath:
        return self.stream(stream) / "replay"

    def scans(self, stream: str) -> AnyPath:
        return self.stream(stream) / "scans"

    def moved(self, stream: str) -> AnyPath:
        return self.stream(stream) / "moved"

    def time_bound(self, stream: str) -> AnyPath:
        return self.stream(stream) / "time_bound.json"

    def shed_orders(self, stream: str) -> AnyPath:
        return self.stream(stream) / "shed_orders.json"

    def results(self, stream: str) -> AnyPath:
        return self.stream(stream) / "results"


def hold(layout: Layout) -> Lock | Lease:
    """The right to use a checkpoint: one process, one database. A CheckpointError says who has it, if somebody has."""
    root = layout.root
    return Lease(root, root / "owners") if isinstance(root, RemotePath) else Lock(root / "lock")


class Lock:
    """The right to use a checkpoint that is a folder. The system releases it when the process dies."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise CheckpointError(
                f"the checkpoint {path.parent} is open in {holder}",
                help="close that database first, or use another checkpoint folder; two writers would corrupt it",
            ) from None
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()}")
        self._file.flush()

    def release(self) -> None:
        self._file.close()
