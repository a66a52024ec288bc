"""Keeps what a stream has stored small: batches are put together, and what is not kept any longer is left out.

Batches that everybody has read are put together, 32 at a time, and again 32 of those, so that the number of files grows
with the logarithm of the number of batches. Small files of rows become one; large ones stay as they are, and only their
names move. Rows whose time is over leave with that, and so do those of which nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from eventide.storage.atomic import read_arrow
from eventide.storage.parts import Part
from eventide.storage.results import KINDS, Results, Unit

TOGETHER = 32
_AT_ONCE = 32  # times that units are put together in one call
_SMALL = 8 << 20  # bytes: a file that is rewritten when others are put together with it


@dataclass(frozen=True)
class Keep:
    """How long rows are kept that everybody has read, in microseconds. None: for ever; 0: no longer than that."""

    micros: int | None = None

    def is_over(self, began: int | None, now: int) -> bool:
        """Whether it is, for rows of a batch that began then."""
        return self.micros is not None and (self.micros == 0 or (began is not None and began < now - self.micros))


def compact(results: Results, keep: Mapping[str, Keep], upto: float, now: int, fences: Iterable[int] = ()) -> int:
    """Put batches up to `upto` together and leave out what is not kept; returns how many units were replaced.

    Somebody has come as far as each of the `fences`: batches up to one are not put together with later ones. The newest
    batches stay as they are. What takes long, as with the first start on a checkpoint of 0.2, is left to further calls.
    """
    replaced = 0
    for _ in range(_AT_ONCE):
        due = _due(results, upto, sorted(set(fences)))
        if due is None:
            break
        _put_together(results, due, keep, now)
        replaced += len(due)
    return replaced + _expire(results, keep, upto, now)


def _due(results: Results, upto: float, fences: Sequence[int]) -> list[Unit] | None:
    """Consecutive units of one level, enough to be put together."""
    run: list[Unit] = []
    for unit in results.units()[:-TOGETHER]:
        if unit.last > upto:
            break
        if run and (unit.level != run[-1].level or _is_between(fences, run[-1], unit)):
            run = []
        run.append(unit)
        if len(run) == TOGETHER:
            return run
    return None


def _is_between(fences: Sequence[int], one: Unit, next: Unit) -> bool:
    return any(one.last <= fence < next.last for fence in fences)


def _put_together(results: Results, units: Sequence[Unit], keep: Mapping[str, Keep], now: int) -> None:
    new = Unit(units[-1].last, units[0].first, units[0].level + 1)
    files = {}
    for kind in KINDS:
        kept = [unit for unit in units if not keep[kind].is_over(_began(results, unit, keep[kind]), now)]
        parts = [part for unit in kept for part in results.parts(unit.last, kind)]
        files[kind] = _merged(results, parts, f"{new.last:012d}-{new.first:012d}-{new.level}.{kind}")
    results.replace(units, new, files)


def _began(results: Results, unit: Unit, keep: Keep) -> int | None:
    """When its last batch did, if it matters."""
    return results.account(unit.last).began if keep.micros else None


def _merged(results: Results, parts: Sequence[Part], name: str) -> list[Part]:
    """The same rows in the same order, small files that have the same columns in one."""
    found: list[Part] = []
    run: list[tuple[Part, pa.Table]] = []

    def end_run() -> None:
        if len(run) == 1:
            found.append(run[0][0])
        elif run:
            rows = pa.concat_tables([table for _, table in run]).combine_chunks()
            found.append(results.write_table(f"{name}.{len(found)}.arrow", rows))
        run.clear()

    for part in parts:
        if part.bytes >= _SMALL:
            end_run()
            found.append(part)
            continue
        table = read_arrow(results.folder / part.name)
        if run and (table.schema != run[0][1].schema or sum(each.bytes for each, _ in run) >= _SMALL):
            end_run()
        run.append((part, table))
    end_run()
    return found


def _expire(results: Results, keep: Mapping[str, Keep], upto: float, now: int) -> int:
    """Leave out what is too old, oldest first."""
    replaced = 0
    for unit in results.units()[:-TOGETHER] if any(each.micros is not None for each in keep.values()) else ():
        if unit.last > upto:
            break
        files = {kind: results.parts(unit.last, kind) for kind in KINDS}
        kinds = [kind for kind in KINDS if keep[kind].micros is not None and files[kind]]
        over = [kind for kind in kinds if keep[kind].is_over(_began(results, unit, keep[kind]), now)]
        if kinds and not over:
            break
        if over:
            results.replace([unit], unit, {kind: [] if kind in over else files[kind] for kind in KINDS})
            replaced += 1
    return replaced
