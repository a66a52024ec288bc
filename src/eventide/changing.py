"""From one catalog to another while the streams of both keep their state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eventide.errors import CheckpointError
from eventide.plan.changes import all_differences, refused
from eventide.plan.logical import Stream
from eventide.plan.planner import plan_id
from eventide.plan.verdicts import Difference
from eventide.sql.catalog import Catalog
from eventide.storage.atomic import read_json
from eventide.storage.layout import Layout

if TYPE_CHECKING:
    from eventide.spark.engine import Engine


@dataclass(frozen=True)
class Change:
    """A stream that both catalogs have, with other words."""

    stream: str
    parts: tuple[tuple[Stream, Stream], ...]  # old and new; without pairs that differ in number
    differences: tuple[Difference, ...]


def changes_between(old: Catalog, new: Catalog, fused: Mapping[str, Sequence[bool]] | None = None) -> list[Change]:
    """All streams that differ, each behind those that it reads. `fused` says of the inputs of streams and inner
    streams whether tasks read their files, where that is known.
    """
    found = []
    for name in sorted((name for name in new.streams if name in old.streams), key=new.level):
        before, after = old.parts(name), new.parts(name)
        if before != after:
            pairs = zip(before, after, strict=False)
            found.append(Change(name, tuple(pairs), tuple(all_differences(before, after, fused))))
    return found


@dataclass(frozen=True)
class Switch:
    """From one catalog to another: what differs, and in which order streams are stopped and opened."""

    old: Catalog
    new: Catalog
    changes: list[Change]

    @classmethod
    def between(cls, old: Catalog, new: Catalog, layout: Layout) -> Switch:
        """Raises why streams cannot go on from what `layout` has, if any cannot."""
        changes = changes_between(old, new, fused_in(layout, old))
        check_changes(changes)
        return cls(old, new, changes)

    @property
    def changed(self) -> list[str]:
        """Streams and inner streams that mean something else now. They must be open before it is carried out."""
        return [before.name for before, _, _ in with_other_plans(self.changes)]

    @property
    def reopened(self) -> list[str]:
        """Streams to open anew, each behind those that it reads."""
        return self.new.with_readers(part.name for change in self.changes for _, part in change.parts)

    def carry_out(self, engine: Engine, open: Callable[[str], object]) -> None:
        """Stop every stream that is concerned, keep its new text, and `open` it. Nothing has begun under it yet."""
        changed = {after.name: (before, after, said) for before, after, said in with_other_plans(self.changes)}
        for name in self.reopened:
            if name in changed:
                before, after, differences = changed[name]
                engine.change(before, after, self.new.text(name), differences)
            else:
                engine.forget(name)
            open(name)

    def undo(self, engine: Engine) -> None:
        """Stop the streams; under which text they begin again, the catalog says."""
        for name in reversed(self.reopened):
            engine.forget(name)

    def lines(self) -> list[str]:
        return [f"{change.stream}: {difference}" for change in self.changes for difference in change.differences]


def fused_in(layout: Layout, catalog: Catalog) -> dict[str, Sequence[bool]]:
    """Of the streams that have run, whether tasks read the files of each input."""
    kept = {name: read_json(layout.plan(name)) for name in catalog.graph()}
    return {name: settings["fused"] for name, settings in kept.items() if settings and "fused" in settings}


def check_changes(changes: Iterable[Change]) -> None:
    """Raise what keeps streams from going on, all of it."""
    for change in changes:
        stopped = refused(change.differences)
        if stopped:
            listed = "\n".join(f"  {difference.what}\n    {difference.reason}" for difference in stopped)
            raise CheckpointError(
                f"stream {change.stream} cannot go on from its checkpoint under the new text:\n{listed}",
                help=f"eventide migrate replays it from its sources; CREATE OR REPLACE STREAM {change.stream} without "
                "KEEP STATE starts it anew; or use another checkpoint folder",
            )


def with_other_plans(changes: Iterable[Change]) -> list[tuple[Stream, Stream, list[str]]]:
    """The parts that mean something else now, with what of their stream differs."""
    return [
        (before, after, list(map(str, change.differences)))
        for change in changes
        for before, after in change.parts
        if plan_id(before) != plan_id(after)
    ]
