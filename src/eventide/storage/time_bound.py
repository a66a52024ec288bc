"""How far a stream's time may have advanced, for the tasks that read its rows: rows behind the bound may be late.

Tasks that read files by themselves find it in one small file, rewritten with every batch before the next is planned,
and from the accounts when the stream starts; others are told (see `spark.batch_facts`). It may be ahead of the
operator's time, never behind.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from eventide.storage.paths import AnyPath, RemotePath

if TYPE_CHECKING:
    from eventide.storage.results import Account


def time_bound(account: Account | None) -> dict[str, int | None]:
    """`watermark` and `flushed`, in microseconds, from the account of the last batch."""
    figures = account.sources.values() if account is not None else []
    return {
        name: max((each[name] for each in figures if name in each), default=None) for name in ("watermark", "flushed")
    }


class TimeBoundFile:
    def __init__(self, path: AnyPath) -> None:
        self.path = path

    def draw(self, account: Account | None) -> None:
        """Write the bound from the account of the last batch. Not synced: a start writes it again."""
        if isinstance(self.path, RemotePath):
            self.path.write_bytes(json.dumps(time_bound(account)).encode())
            return
        temporary = self.path.with_suffix(".new")
        temporary.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(time_bound(account)))
        temporary.replace(self.path)

    def read(self) -> dict[str, int | None]:
        """As `time_bound` gave it."""
        found: dict[str, int | None] = json.loads(self.path.read_text())
        return found
