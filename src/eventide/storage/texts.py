"""The texts that a stream has had, in its plan.json: which batch ran under which, and how each laid out the state.

A text under which no batch has begun counts for nothing: it is forgotten if the catalog, which is written behind it,
does not have it after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from eventide.kernels.state.past import Past, StateLayout
from eventide.storage.paths import AnyPath


@dataclass(frozen=True)
class Text:
    """One text of a stream. `layout` is None until it was first opened."""

    plan_id: str
    plan: str  # its meaning, as in plan.difference
    sql: str = ""
    from_batch: int = 0
    since: int | None = None  # microseconds
    passed: int | None = None  # what ended by then had closed when the text began
    differences: tuple[str, ...] = ()  # to the one before
    layout: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Texts:
    """All texts of a stream, the first one first. There is at least one."""

    all: tuple[Text, ...]

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Texts:
        """From a plan.json, also of a release that knew one text only."""
        kept = settings.get("texts") or [{"plan_id": settings["plan_id"], "plan": settings["plan"]}]
        return cls(tuple(Text(**{**text, "differences": tuple(text.get("differences", ()))}) for text in kept))

    def into(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The plan.json with these texts; what was there about the newest one stays up to date."""
        newest = self.all[-1]
        return {
            **settings,
            "plan_id": newest.plan_id,
            "plan": newest.plan,
            "texts": [asdict(text) for text in self.all],
        }

    @property
    def newest(self) -> Text:
        return self.all[-1]

    @property
    def past(self) -> Past:
        """What the kernels of the newest text must know of the others."""
        layouts = [StateLayout.from_json(text.layout) for text in self.all[:-1] if text.layout is not None]
        return Past(tuple(layouts), self.newest.passed)

    def followed_by(self, text: Text) -> Texts:
        """With one text more; one under which no batch has begun gives way, and so does a return to the one before."""
        unused = [old for old in self.all[1:] if old.from_batch >= text.from_batch]
        used = [old for old in self.all if old not in unused]
        if used[-1].plan_id == text.plan_id:
            return Texts(tuple(used))
        differences = [difference for old in unused for difference in old.differences]
        text = replace(text, differences=(*differences, *text.differences))
        return Texts((*used, text))

    def without_unused(self, next_batch: int) -> Texts:
        """Without the newest text if no batch has begun under it."""
        is_unused = len(self.all) > 1 and self.newest.from_batch >= next_batch
        return Texts(self.all[:-1]) if is_unused else self

    def with_layout(self, layout: StateLayout) -> Texts:
        return Texts((*self.all[:-1], replace(self.newest, layout=layout.to_json())))


def next_batch(spark: AnyPath) -> int:
    """The number of the batch that Spark will plan next, from its checkpoint folder."""
    return max((int(path.name) for path in (spark / "offsets").glob("[0-9]*")), default=-1) + 1


def is_pending(spark: AnyPath) -> bool:
    """Whether a batch was planned and not committed: Spark will run it again."""
    committed = max((int(path.name) for path in (spark / "commits").glob("[0-9]*")), default=-1)
    return next_batch(spark) - 1 > committed
