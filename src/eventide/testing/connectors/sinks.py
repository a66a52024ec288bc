"""What a sink promises: a batch that it is given twice takes effect once, whatever crashes when."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa

from eventide.connectors.declaration import Connector, Promise
from eventide.connectors.writers import open_sink
from eventide.plan.logical import Sink
from eventide.testing.connectors.crashes import dies_at, steps_of
from eventide.testing.connectors.statements import expect

_MOST_CRASHES = 12
_ROWS = 3  # in a batch


@dataclass(frozen=True)
class SinkCase:
    """A place that nobody else writes to. `rows` are what any reader finds there, in whatever order, with the columns
    `id` and `name`; one who reads what is committed, where that makes a difference.
    """

    options: Mapping[str, str]
    rows: Callable[[], list[dict[str, Any]]]
    promise: Promise = Promise.EXACTLY_ONCE


def check_sink(connector: Connector, case: SinkCase, most_crashes: int = _MOST_CRASHES) -> None:
    """Batches in order, none, again, after a restart, of another stream, and with a crash between every two steps; of
    very many steps `most_crashes` are tried, evenly spread.
    """
    place = _Place(Sink("out", "o", connector.name, dict(case.options)), case)
    first = place.writer("first")
    with closing(first):
        place.write(first, 0)
        first.write(1, _batch(1).slice(0, 0))
        place.write(first, 2)
        place.write(first, 2)
        place.check("a batch that comes again to the same writer")
    place.write_anew("first", 2)
    place.check("a batch that comes again after a restart")
    place.write_anew("first", 3)
    place.check("a restart")
    place.write_anew("second", 1_000)
    place.write_anew("second", 1_000)
    place.check("another stream with batch numbers of its own")
    if most_crashes:
        _check_crashes(place, most_crashes)


def _check_crashes(place: _Place, most: int) -> None:
    numbers = count(2_000)
    number = next(numbers)
    steps = steps_of(place.sink, place.identity("crashed"), number, place.expected(number))
    expect(steps > 0, "a sink takes steps that can be told apart")
    for step in sorted({1 + round(part * (steps - 1) / max(most - 1, 1)) for part in range(most)}):
        number = next(numbers)
        rows = place.expected(number)
        dies_at(step, place.sink, place.identity("crashed"), number, rows)
        place.write_anew("crashed", number)
        place.check(f"a crash at step {step} of {steps}")


class _Place:
    def __init__(self, sink: Sink, case: SinkCase) -> None:
        self.sink = sink
        self._own = uuid.uuid4().hex[:12]  # a place may have had other streams
        self._case = case
        self._wanted: Counter[tuple[Any, Any]] = Counter()
        self._known: set[int] = set()

    def identity(self, name: str) -> str:
        """Of one of the streams that write to the place."""
        return f"{self._own}{name}"

    def writer(self, name: str) -> Any:
        return open_sink(self.sink, self.identity(name))

    def expected(self, batch: int) -> pa.Table:
        """The rows of a batch, which from now on should be there."""
        rows = _batch(batch)
        if batch not in self._known:
            self._known.add(batch)
            self._wanted.update((row["id"], row["name"]) for row in rows.to_pylist())
        return rows

    def write(self, writer: Any, batch: int) -> None:
        writer.write(batch, self.expected(batch))

    def write_anew(self, name: str, batch: int) -> None:
        with closing(self.writer(name)) as writer:
            self.write(writer, batch)

    def check(self, after: str) -> None:
        found = Counter((row["id"], row["name"]) for row in self._case.rows())
        lost, more = self._wanted - found, found - self._wanted
        expect(not lost, f"no row is lost after {after}: {dict(lost)}")
        strange = (
            more if self._case.promise is Promise.EXACTLY_ONCE else {key for key in more if key not in self._wanted}
        )
        expect(not strange, f"no row is there that should not be after {after}: {dict.fromkeys(strange)}")


def _batch(number: int) -> pa.Table:
    ids = [number * _ROWS + place for place in range(_ROWS)]
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"row {id}, 'ünlike'" for id in ids]})
