"""Rows that a stream sends back to sources: durable, each batch once, no row a second time.

    NNNNNNNNNNNN.json   rows of one batch by source, and the spool items that they became or were about to become
    ledger.json         which rows were sent back and have not come round again, and counts by kind

The stream's router fills the outbox at the end of a batch; the database empties it into the sources' spools between
batches. Steps repeated after a crash do no harm: a batch's file replaces itself, and a spool item says which batch it
came from.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from eventide.storage.atomic import read_json, write_json
from eventide.storage.paths import AnyPath, listed
from eventide.storage.spool import Spool, Spools

MOST_REMEMBERED = 65_536  # rows in the ledger; the oldest are forgotten first


@dataclass(frozen=True)
class Returned:
    """A row on its way back: the source that gets it, the kind of payload that it was, and its JSON text."""

    source: str
    kind: str
    text: str


class Outbox:
    def __init__(self, folder: AnyPath, stream: str) -> None:
        self._folder = folder
        self._stream = stream
        ledger: dict[str, Any] = read_json(self._ledger_path) or {"batch": -1, "before": [{}, {}], "after": [{}, {}]}
        self._batch: int = ledger["batch"]
        self._before: list[dict[str, int]] = ledger["before"]
        self._after: list[dict[str, int]] = ledger["after"]

    def counts(self) -> dict[str, int]:
        """How many rows were sent back, dropped or stopped from looping, as `side_sent_late` and so on."""
        return dict(self._after[1])

    def put(self, batch: int, rows: list[Returned], allow: Callable[[str, int], int]) -> None:
        """Keep a batch's rows for their sources. A batch that comes again after a crash replaces itself.

        A row that was sent back before and comes round again is left out. `allow` says how many rows of a kind may
        pass.
        """
        if not rows:
            return
        if batch > self._batch:
            self._before = self._after
        seen, counts = dict(self._before[0]), Counter(self._before[1])
        sent: dict[str, list[str]] = {}
        for kind, of_kind in _by_kind(rows).items():
            fresh = [row for row in of_kind if not _came_round(seen, row)]
            passed = fresh[: allow(kind, len(fresh))]
            for row in passed:
                seen[_key(row)] = seen.get(_key(row), 0) + 1
                sent.setdefault(row.source, []).append(row.text)
            counts.update({f"side_sent_{kind}": len(passed), f"side_dropped_{kind}": len(fresh) - len(passed)})
            counts[f"side_looped_{kind}"] += len(of_kind) - len(fresh)
        self._after = [dict(list(seen.items())[-MOST_REMEMBERED:]), dict(counts)]
        self._batch = batch
        if sent:
            write_json(self._folder / f"{batch:012d}.json", {"rows": sent, "items": {}})
        write_json(self._ledger_path, {"batch": batch, "before": self._before, "after": self._after})

    def empty(self, spools: Spools, received_at: int, upto: int) -> bool:
        """Move the waiting rows of batches up to `upto` into the sources' spools; returns whether there were any."""
        found = False
        for path in self._waiting(upto):
            waiting: dict[str, Any] = read_json(path)
            origin = f"{self._stream}/{int(path.stem)}"
            for source in waiting["rows"]:
                tried: int | None = waiting["items"].get(source)
                if tried is None or spools.spool(source).origin(tried) != origin:
                    spools.append(source, partial(_append, path, waiting, source, origin, received_at))
            path.unlink()
            found = True
        return found

    def _waiting(self, upto: int) -> Iterator[AnyPath]:
        yield from (path for path in listed(self._folder, "[0-9]*.json") if int(path.stem) <= upto)

    @property
    def _ledger_path(self) -> AnyPath:
        return self._folder / "ledger.json"


def _append(
    path: AnyPath, waiting: dict[str, Any], source: str, origin: str, received_at: int, spool: Spool, number: int
) -> None:
    waiting["items"][source] = number
    write_json(path, waiting)
    spool.append_rows(waiting["rows"][source], received_at, number, origin)


def _by_kind(rows: list[Returned]) -> Mapping[str, list[Returned]]:
    kinds: dict[str, list[Returned]] = {}
    for row in rows:
        kinds.setdefault(row.kind, []).append(row)
    return kinds


def _came_round(seen: dict[str, int], row: Returned) -> bool:
    """Whether the row was sent back before; if so it is struck off, so that a new row with equal content may pass."""
    key = _key(row)
    if not seen.get(key):
        return False
    seen[key] -= 1
    if not seen[key]:
        del seen[key]
    return True


def _key(row: Returned) -> str:
    return hashlib.sha256(f"{row.source}\0{row.text}".encode()).hexdigest()[:20]
