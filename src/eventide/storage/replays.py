"""Corrections from replays of late rows, kept alongside a stream's results, and how far the replays have got.

    NNNNNNNNNNNN.main.arrow, NNNNNNNNNNNN.json   as for batches, with numbers of their own
    intent.json                                  a replay in progress: its number and the last batch it covers

A replay that a crash cuts short is repeated with the same bounds and the same number.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from eventide.storage.atomic import read_json, write_json
from eventide.storage.paths import AnyPath
from eventide.storage.results import Account, Results, add_counts

REPLAYED, CORRECTIONS = "late_replayed", "late_corrections"
_UPTO = "upto"


class Replays:
    def __init__(self, folder: AnyPath) -> None:
        self._folder = folder
        self._results = Results(folder)

    @property
    def upto(self) -> int:
        """The last batch whose late payloads have been replayed."""
        latest = self._results.latest()
        return -1 if latest is None else latest.gauges[_UPTO]

    def totals(self) -> dict[str, int]:
        """How many late rows have been replayed, and how many corrections resulted."""
        latest = self._results.latest()
        return {name: 0 if latest is None else latest.totals.get(name, 0) for name in (REPLAYED, CORRECTIONS)}

    def begin(self, upto: int) -> tuple[int, int]:
        """The number of the next replay and the last batch it covers; both are those of a replay that was cut short, if
        any.
        """
        latest = self._results.latest()
        number = 0 if latest is None else latest.batch + 1
        intent = read_json(self._folder / "intent.json")
        if intent is None or intent["number"] != number:
            intent = {"number": number, _UPTO: upto}
            write_json(self._folder / "intent.json", intent)
        return number, intent[_UPTO]

    def finish(self, number: int, upto: int, rows: pa.Table, replayed: int) -> None:
        """Keep the corrections; from here on the payloads count as replayed."""
        nothing = rows.slice(0, 0)
        counts = {REPLAYED: replayed, CORRECTIONS: rows.num_rows}
        totals = add_counts(self.totals(), counts)
        self._results.write(rows, nothing, Account(number, counts, totals, gauges={_UPTO: upto}))

    def read(self, schema: pa.Schema) -> pa.Table:
        return self._results.read("main", schema)


def replay_totals(folder: AnyPath) -> dict[str, int]:
    """The totals of the replays in a folder, which need not exist."""
    return Replays(folder).totals() if folder.exists() else {REPLAYED: 0, CORRECTIONS: 0}


def late_payloads(results: Results, after: int = -1) -> dict[int, pa.Table]:
    """The payloads of kind `late` of all batches later than `after`, by batch; batches without any are left out."""
    found = {batch: results.side(batch) for batch in results.batches(after)}
    late = {batch: side.filter(pc.equal(side["kind"], "late")) for batch, side in found.items() if side is not None}
    return {batch: payloads for batch, payloads in late.items() if payloads.num_rows}
