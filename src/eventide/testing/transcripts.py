"""Transcripts: what a stream must emit, step by step, as data.

A case is a mapping with `name`, `sql` and either `fails` (text that the error must contain) or `steps`, each of them
one of

    write:     {source: [[...], ...]}    rows in column order; processed before the next step
    advance:   {source: ms}              an external watermark
    expect:    {stream: [[...], ...]}    the rows emitted since the last `expect`, in any order
    late | duplicate | error | evicted | rejected | shed: {stream: n}     payloads of that kind so far
    watermark: {stream: ms}
    accounts:  {stream: {name: n}}
    stop:      graceful | quick
    restart:   true                      close, and open again on the same checkpoint
    wait:      ms                        let time pass

The same case can be played whole, with a restart after every write, or one row at a time (unless `batching` says that
its outcome depends on where batches end).
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from eventide.errors import EventideError
from eventide.kernels.contract import SIDE_KINDS
from eventide.result import Result


class Playable(Protocol):
    """What a transcript needs from a database; `eventide.Database` and `ReferenceDatabase` provide it."""

    def execute(self, sql: str) -> Result: ...

    def write(self, source: str, rows: Any) -> int: ...

    def advance_watermark(self, source: str, ts: int | dt.datetime) -> None: ...

    def tick(self) -> None: ...

    def read(self, name: str) -> Result: ...

    def side_output(self, stream: str, kind: str | None = None) -> Result: ...

    def watermark(self, stream: str) -> int | None: ...

    def accounting(self, stream: str) -> dict[str, int]: ...

    def stop(self, graceful: bool = True) -> None: ...

    def close(self) -> None: ...


Connect = Callable[[str], Playable]


class TranscriptError(AssertionError):
    """A step did not do what the transcript says."""


def comparable(value: Any) -> Any:
    """A value as transcripts write it: times in milliseconds, floats rounded, decimals as floats."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else round(value, 6)
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return round(moment.timestamp() * 1000)
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, list | tuple):
        return tuple(comparable(item) for item in value)
    if isinstance(value, Mapping):
        return tuple((key, comparable(item)) for key, item in value.items())
    return value


@dataclass
class Player:
    """Plays one case. `connect` opens the database on a checkpoint folder."""

    case: Mapping[str, Any]
    connect: Connect
    restarting: bool = False
    one_row: bool = False
    _seen: Counter[str] = field(default_factory=Counter)

    def play(self) -> None:
        with tempfile.TemporaryDirectory(prefix="eventide-transcript-") as folder:
            self._folder = folder
            self._db = self.connect(folder)
            try:
                self._play()
            finally:
                self._db.close()

    def _play(self) -> None:
        if "fails" in self.case:
            return self._must_fail()
        self._db.execute(self.case["sql"])
        for number, step in enumerate(self.case["steps"], 1):
            ((verb, body),) = step.items()
            try:
                self._step(verb, body)
            except TranscriptError as error:
                raise TranscriptError(f"{self.case['name']}, step {number} {step}: {error}") from None

    def _must_fail(self) -> None:
        wanted = self.case["fails"]
        try:
            self._db.execute(self.case["sql"])
        except EventideError as error:
            if wanted.lower() not in str(error).lower():
                raise TranscriptError(f"{self.case['name']}: the error does not say {wanted!r}: {error}") from None
            return
        raise TranscriptError(f"{self.case['name']}: accepted, but should not have been")

    def _step(self, verb: str, body: Any) -> None:
        if verb in SIDE_KINDS:
            for stream, count in body.items():
                self._equal(f"{verb} of {stream}", len(self._db.side_output(stream, kind=verb)), count)
            return
        steps: dict[str, Callable[[Any], None]] = {
            "write": self._write,
            "advance": self._advance,
            "expect": self._expect,
            "watermark": self._watermark,
            "accounts": self._accounts,
            "stop": lambda how: self._db.stop(graceful=how == "graceful"),
            "restart": lambda _: self._restart(),
            "wait": lambda millis: time.sleep(millis / 1000),
        }
        if verb not in steps:
            raise TranscriptError(f"there is no step {verb}")
        steps[verb](body)

    def _write(self, body: Mapping[str, list[list[Any]]]) -> None:
        for source, rows in body.items():
            for chunk in [[row] for row in rows] if self.one_row else [rows]:
                self._db.write(source, [tuple(row) for row in chunk])
                self._db.tick()
        if self.restarting:
            self._restart()

    def _advance(self, body: Mapping[str, int]) -> None:
        for source, millis in body.items():
            self._db.advance_watermark(source, millis)
        self._db.tick()

    def _expect(self, body: Mapping[str, list[list[Any]]]) -> None:
        for stream, rows in body.items():
            given = [tuple(comparable(value) for value in row.values()) for row in self._db.read(stream)]
            new = given[self._seen[stream] :]
            self._seen[stream] = len(given)
            self._equal(stream, Counter(new), Counter(tuple(comparable(value) for value in row) for row in rows))

    def _watermark(self, body: Mapping[str, int | None]) -> None:
        for stream, millis in body.items():
            self._equal(f"watermark of {stream}", self._db.watermark(stream), millis)

    def _accounts(self, body: Mapping[str, Mapping[str, int]]) -> None:
        for stream, totals in body.items():
            given = self._db.accounting(stream)
            self._equal(f"account of {stream}", {name: given.get(name) for name in totals}, dict(totals))

    def _restart(self) -> None:
        self._db.close()
        self._db = self.connect(self._folder)

    @staticmethod
    def _equal(what: str, given: Any, wanted: Any) -> None:
        if given != wanted:
            raise TranscriptError(f"{what} is {given}, not {wanted}")
