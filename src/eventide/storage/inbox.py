"""What enters a stream from the driver, as files that Spark logs with its offsets: decisions are data.

One manifest per publication, a JSON object per line, read by Spark's file source, so that a replay after a crash sees
the same entries in the same batch. Every manifest is one file: everything it names becomes visible at once, for all
sources of the stream.

| kind | meaning |
|---|---|
| rows | take in item `number` of the spool of `source` |
| watermark | item `number` of the spool: no row of `source` with event time <= `at` follows |
| wake | close what the watermark has passed: after a restart Spark waits for new data before it does |
| flush | emit everything that has begun by event time `at` |
| tick | processing time has reached `at` |
| manifest | the number of the manifest, `at`: accounts tell which were taken in |

A manifest is deleted when the batch that took it in has ended for good, except for the newest ones.
"""

from __future__ import annotations

import heapq
import json
import math
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from eventide.storage.atomic import damaged, write_bytes
from eventide.storage.paths import AnyPath
from eventide.storage.spool import Spool

SPARK_SCHEMA = "source string, kind string, number long, at long"
KEPT_MANIFESTS = 64
END = "end"  # the last entry of a manifest: how many come before it
MANIFEST = "manifest"
STREAM_KINDS = ("wake", "flush", "tick")  # these belong to no source, and reach all shards


@dataclass(frozen=True)
class Entry:
    kind: str
    source: str | None = None
    number: int | None = None  # of the item in the source's spool
    at: int | None = None  # microseconds


class Output(Protocol):
    """What another stream gives."""

    def entries(self, name: str, after: int) -> list[Entry]: ...

    def waiting(self, after: int) -> int: ...

    def bytes(self, number: int) -> int: ...


class Inbox:
    """What was published is taken in by the next batch that begins. `now` is always the clock, in microseconds. Several
    threads may publish and settle.
    """

    def __init__(self, folder: AnyPath) -> None:
        self.folder = folder
        self._guard = threading.RLock()
        self.folder.mkdir(parents=True, exist_ok=True)
        manifests = self._manifests()
        self.last = int(manifests[-1].stem) if manifests else 0  # the number of the newest manifest
        self._published = deque((int(path.stem), _positions(path)) for path in manifests)  # what is not settled
        self.positions: dict[str, int] = self._published[-1][1] if self._published else {}
        self.settled: dict[str, int] = {}  # the newest item of each source that no batch will ask for again
        self._kept: deque[int] = deque()  # manifests that are settled, and still there
        self._sent: deque[tuple[int, int]] = deque()  # when, and how many bytes; what no batch has taken yet

    def publish(self, entries: list[Entry]) -> None:
        """Make `entries` visible to the stream, all at once and durably."""
        if not entries:
            return
        with self._guard:
            self._publish(entries)

    def wake(self) -> None:
        """Call for a batch in which what the watermark has passed is closed."""
        self.publish([Entry("wake")])

    def _publish(self, entries: list[Entry]) -> None:
        positions = dict(self.positions)
        for entry in entries:
            if entry.source is not None and entry.number is not None:
                positions[entry.source] = max(entry.number, positions.get(entry.source, 0))
        latest = [Entry("position", source, number) for source, number in positions.items()]
        own = Entry(MANIFEST, at=self.last + 1)
        end = Entry(END, None, len(entries) + 1 + len(latest))
        lines = [json.dumps(asdict(entry)) for entry in [*entries, own, *latest, end]]
        write_bytes(self.folder / f"{self.last + 1:012d}.json", "\n".join(lines).encode())
        # only now: after a failed write, the same number must be tried again
        self.last, self.positions = self.last + 1, positions
        self._published.append((self.last, positions))

    def publish_new(
        self, spools: Mapping[str, Spool], outputs: Mapping[str, Output], now: int = 0, budget: int | None = None
    ) -> bool:
        """Make what is new visible at once: items of spools, batches of streams; says whether there was any.

        With a `budget` no more items of spools than make up so many bytes, together with what no batch has taken yet,
        and at least one.
        """
        with self._guard:
            found, size = self._of_spools(spools, budget)
            for name, output in outputs.items():
                entries = output.entries(name, self.positions.get(name, 0))
                size += sum(output.bytes(entry.number) for entry in entries if entry.kind == "rows" and entry.number)
                found += entries
            if size:
                # before anybody can see it: so what a batch took is never thought to wait
                self._sent.append((now, size))
            self.publish(found)
        return bool(found)

    def _of_spools(self, spools: Mapping[str, Spool], budget: int | None) -> tuple[list[Entry], int]:
        """Entries in the order in which they came, and their bytes."""
        waiting = [
            [(*spool.measure(number), source, number) for number in self._new(source, spool)]
            for source, spool in spools.items()
        ]
        left = math.inf if budget is None else budget - self.sent_bytes
        entries, size = [], 0
        for _, length, source, number in heapq.merge(*waiting, key=lambda item: item[0]):
            if size + length > left and (size or self._sent):
                break
            size += length
            at = spools[source].watermark(number)
            entries.append(Entry("rows" if at is None else "watermark", source, number, at))
        return entries, size

    def _new(self, source: str, spool: Spool) -> range:
        """The items that were not published. A stream that begins takes what is still there."""
        taken = self.positions.get(source)
        return range(spool.first() if taken is None else taken + 1, spool.last() + 1)

    @property
    def sent_bytes(self) -> int:
        """What was published and no batch has taken yet."""
        return sum(size for _, size in self._sent)

    def took(self, began: int) -> int:
        """A batch has ended that began at `began`: how many bytes it took."""
        taken = 0
        while self._sent and self._sent[0][0] <= began:
            taken += self._sent.popleft()[1]
        return taken

    def held(self, spools: Mapping[str, Spool]) -> dict[str, int]:
        """The bytes of what was not published yet, by source; sources of which nothing waits are left out."""
        found = {
            source: [spool.measure(number)[1] for number in self._new(source, spool)]
            for source, spool in spools.items()
        }
        return {source: sum(sizes) for source, sizes in found.items() if sizes}

    def settle_all(self) -> None:
        """The stream has taken in everything, and no batch is under way."""
        self.settle(self.last)

    def settle(self, number: int) -> None:
        """Manifests up to `number` were taken in by batches that have ended for good. Delete them but for the newest,
        which Spark looks at when the query starts again.
        """
        with self._guard:
            while self._published and self._published[0][0] <= number:
                settled, self.settled = self._published.popleft()
                self._kept.append(settled)
            while len(self._kept) + len(self._published) > KEPT_MANIFESTS and self._kept:
                (self.folder / f"{self._kept.popleft():012d}.json").unlink(missing_ok=True)

    @property
    def oldest(self) -> int:
        """The number of the oldest manifest that is still there, or of the next one."""
        return self._kept[0] if self._kept else self._published[0][0] if self._published else self.last + 1

    def _manifests(self) -> list[AnyPath]:
        return sorted(self.folder.glob("[0-9]*.json"))


def _positions(manifest: AnyPath) -> dict[str, int]:
    return {entry["source"]: entry["number"] for entry in _checked(manifest) if entry["kind"] == "position"}


def _checked(manifest: AnyPath) -> list[dict[str, Any]]:
    """The entries of a manifest; if any is missing, a CheckpointError names the file."""
    try:
        entries: list[dict[str, Any]] = [json.loads(line) for line in manifest.read_text().splitlines()]
        if not entries or entries[-1]["kind"] != END or entries[-1]["number"] != len(entries) - 1:
            raise ValueError("its end is missing")
        return entries
    except (ValueError, TypeError, KeyError, OSError) as error:
        raise damaged(manifest, error) from None
