"""How far the time of a stream has come, and whether something is due because of it.

Behind every batch that moves the watermark Spark would run one without rows, in which most often nothing happens. It is
told not to; here is found out when such a batch has something to do, and `spark.running` calls for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from eventide.spark.clock import SHIFT_MS, from_spark_ms, to_spark_ms
from eventide.spark.router import Router
from eventide.spark.shard import NEXT_CLOSE, NEXT_FORGETS
from eventide.storage.atomic import damaged, read_json, write_json
from eventide.storage.paths import AnyPath
from eventide.storage.results import Account


@dataclass(frozen=True)
class Due:
    """What shards wait for that the watermark, in Spark's milliseconds, has reached; `after` is the newest batch."""

    after: int
    watermark: int
    closes: Mapping[str, int]  # the gauges


class LastWatermark:
    """`at` is the watermark under which the stream has given all that it can, in microseconds; None before the first
    row. It is kept in a file: a database that is opened again knows it before its first batch.
    """

    def __init__(self, path: AnyPath, commits: AnyPath, router: Router) -> None:
        self._path = path
        self._commits = commits
        self._router = router
        self.at: int | None = read_json(path)
        self._read: tuple[int, int] | None = None  # a batch, and the watermark that its commit gives the next one
        self._called: Due | None = None  # for what a batch was called last
        self._expected: Due | None = None  # the same, when Spark had not committed the batch before it

    def note(self) -> Due | None:
        """Look at what Spark has committed; what is due in the next batch."""
        committed = self._committed()
        if committed is None:
            return None
        due = _due(self._router.results.latest(), *committed)
        if due is not None and not self._was_in_vain(due):
            return due
        at = from_spark_ms(committed[1])
        if at is not None and at != self.at:
            self.at = at
            write_json(self._path, at)
        return None

    def calls_for_batch(self) -> bool:
        """Whether something is due for which no batch was called yet."""
        due = self.note()
        if due is None or due.after <= self._called_after:
            return False
        self._called = due
        return True

    def awaits_batch(self) -> bool:
        """Whether a batch was called for that Spark has not committed yet."""
        committed = self._committed()
        return committed is not None and committed[0] <= self._called_after

    @property
    def _called_after(self) -> int:
        return max((each.after for each in (self._called, self._expected) if each is not None), default=-1)

    def will_call_for_batch(self) -> bool:
        """The same while a batch ends that Spark has yet to commit, by what its rows allow. That may be too much: of
        two inputs that read one source the lesser counts. So it is said once for each watermark.
        """
        account, batch = self._router.results.latest(), self._router.batch
        if account is None or batch is None:
            return False
        reached = [account.sources.get(source, {}).get("watermark") for source in self._router.sources]
        known = [at for at in reached if at is not None]
        if len(known) < len(reached):
            return False
        due = _due(account, batch, min(known) // 1000 + SHIFT_MS)
        if due is None or (self._expected is not None and due.watermark <= self._expected.watermark):
            return False
        self._expected = due
        return True

    def _was_in_vain(self, due: Due) -> bool:
        """Whether a batch was called for the same, and it is still there: of a shard that is no more."""
        called = self._called
        return (
            called is not None
            and due.after > called.after
            and (due.watermark, due.closes) == (called.watermark, called.closes)
        )

    def _committed(self) -> tuple[int, int] | None:
        """The newest batch that Spark has committed, and the watermark of the next one in its milliseconds."""
        batch = self._router.batch
        for number in () if batch is None else (batch, batch - 1):
            if self._read is not None and self._read[0] == number:
                return self._read
            path = self._commits / str(number)
            try:
                self._read = number, int(json.loads(path.read_text().splitlines()[1])["nextBatchWatermarkMs"])
            except OSError:  # the batch is not committed yet
                continue
            except (ValueError, KeyError, IndexError) as error:
                raise damaged(path, error) from None
            return self._read
        return None


def _due(account: Account | None, batch: int, watermark: int) -> Due | None:
    """What shards would give in a batch without rows. What they would only forget can wait for one with rows."""
    gauges = {} if account is None else account.gauges
    closes = {
        name: at
        for name, at in gauges.items()
        if name.startswith(f"{NEXT_CLOSE}#")
        and name.replace(NEXT_CLOSE, NEXT_FORGETS, 1) not in gauges
        and to_spark_ms(at) <= watermark
    }
    return Due(batch, watermark, closes) if closes else None
