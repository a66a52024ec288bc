"""The account of a batch, put together from what each call of a shard tells."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import Any

from eventide.admission.gate import TOKENS_LEFT
from eventide.admission.lags import aged
from eventide.errors import EngineError
from eventide.eventtime.lanes import add_lanes
from eventide.kernels.contract import SIDE_KINDS, USED
from eventide.storage.results import Account, add_counts

ROWS_IN = "rows_in"
_LONG = 1_000_000  # microseconds: who takes less keeps nobody waiting
_TIMES = {
    "watermarks": "watermark",
    "judged": "judged_watermark",
    "tops": "max_timestamp_seen",
    "flushes": "flushed",
    "offered": "offered",
}


class BatchAccount:
    """Goes on from the account `before`. `sources` are those of the inputs, by number."""

    def __init__(self, stream: str, batch: int, sources: Sequence[str], before: Account | None) -> None:
        self._stream, self._batch, self._sources = stream, batch, sources
        self._before = Account(batch, {}, {}) if before is None else before
        self.heard: set[str] = set()  # sources that gave rows
        self.heard_lanes: set[tuple[str, str]] = set()  # the same of partitions, each with its source
        self.events: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self._gauges: dict[int, Mapping[str, int]] = {}
        self._watermark: int | None = None
        self._began: int | None = None
        self._of_sources = copy.deepcopy(self._before.sources)
        self._admission = copy.deepcopy(self._before.admission)
        self._judged: set[str] = set()
        self._lanes = copy.deepcopy(self._before.lanes)
        self._taken = self._before.taken
        self._busiest = self._before.busiest
        self._spent: Counter[int] = Counter()  # microseconds, by shard

    def add(self, text: str) -> None:
        """What one call of a shard tells, as JSON."""
        one: Mapping[str, Any] = json.loads(text)
        self._check_balance(one)
        self._taken = max(self._taken, one["taken"])
        self._counts.update({ROWS_IN: one["rows_in"], **one["counts"]})
        self.events.update(one["events"])
        if one["gauges"] is not None:
            self._gauges[one["shard"]] = one["gauges"]
        self._watermark, self._began = one["watermark"], one["now"]
        self._spent[one["shard"]] += one.get("spent", 0)
        self._add_times(one)
        self._add_admission(one["admission"])
        self._add_lanes(one["lanes"])
        if "busiest" in one:  # only where many rows came
            others = {shard: known for shard, known in self._busiest.items() if shard != str(one["shard"])}
            self._busiest = others if one["busiest"] is None else {**others, str(one["shard"]): one["busiest"]}

    def _check_balance(self, one: Mapping[str, Any]) -> None:
        accounted = sum(one["counts"].get(kind, 0) for kind in (USED, *SIDE_KINDS))
        if accounted != one["rows_in"]:
            raise EngineError(
                f"stream {self._stream}, batch {self._batch}, shard {one['shard']}: {one['rows_in']} rows came in and "
                f"{accounted} are accounted "
                f"for ({one['counts']}); the batch is refused",
                help="this is a bug in Eventide; the checkpoint is unharmed",
            )

    def _add_times(self, one: Mapping[str, Any]) -> None:
        for told, name in _TIMES.items():
            for number, value in one[told].items():
                kept = self._of_sources.setdefault(self._source(number), {})
                kept[name] = max(value, kept.get(name, value))
        for number, rows in one["rows"].items():
            kept = self._of_sources.setdefault(self._source(number), {})
            kept["rows"] = kept.get("rows", 0) + rows
        self.heard.update(map(self._source, one["tops"]))

    def _add_admission(self, told: Mapping[str, Mapping[str, float]]) -> None:
        """Rows add up over batches and shards; what is left in the bucket is the same in every shard."""
        for number, figures in told.items():
            name = self._source(number)
            if name not in self._judged:
                self._judged.add(name)
                self._admission[name] = aged(self._admission.get(name, {}))
            so_far = self._admission[name]
            for figure, value in figures.items():
                so_far[figure] = value if figure == TOKENS_LEFT else so_far.get(figure, 0) + value

    def _add_lanes(self, told: Mapping[str, Mapping[str, Mapping[str, int]]]) -> None:
        for number, found in told.items():
            name = self._source(number)
            add_lanes(self._lanes.setdefault(name, {}), found)
            self.heard_lanes.update((name, lane) for lane in found if "watermark" in found[lane])

    def _source(self, number: str) -> str:
        return self._sources[int(number)]

    def account(self) -> Account:
        """Gauges are kept per shard, as `name#shard`: a shard that was silent keeps its last value."""
        kept = {
            name: value for name, value in self._before.gauges.items() if int(name.split("#")[1]) not in self._gauges
        }
        told = {f"{name}#{shard}": value for shard, values in self._gauges.items() for name, value in values.items()}
        return Account(
            batch=self._batch,
            counts=dict(self._counts),
            totals=add_counts(self._before.totals, self._counts, self.events),
            events=dict(self.events),
            gauges={**kept, **told},
            watermark=self._watermark,
            sources=self._of_sources,
            admission=self._admission,
            began=self._began,
            lanes=self._lanes,
            taken=self._taken,
            busiest=self._busiest,
            straggler=self._straggler(),
        )

    def _straggler(self) -> dict[str, int]:
        """The shard for which the others had to wait, if one took far longer than they did."""
        if len(self._spent) < 2:
            return {}
        shard, most = self._spent.most_common(1)[0]
        usual = median_low(self._spent.values())
        return {"shard": shard, "spent": most, "usual": usual} if most > max(_LONG, 3 * usual) else {}
