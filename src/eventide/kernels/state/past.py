"""What a kernel must know of the texts that a stream had before: how they laid out the state, and how far time came.

State is read blob by blob as it was written, and written as the present text wants it. So nothing is converted ahead,
and what one text did not know of a blob's rows is known to be unknown.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Part:
    """The columns of an aggregate's state, or a column of rows that wait. Equal identities mean the same.

    `begun_late`: the last column says whether rows came before the aggregate was known.
    """

    identity: str
    types: tuple[pa.DataType, ...]
    begun_late: bool = False


@dataclass(frozen=True)
class StateLayout:
    """How one text of a stream lays out its state; what two texts that go on from each other share is left out."""

    fingerprint: str
    shared: str = ""  # what all texts must have alike, such as the types of the keys
    parts: tuple[Part, ...] = ()
    keeps_groups: bool = False

    def to_json(self) -> dict[str, Any]:
        fields = [pa.field(str(number), kind) for number, part in enumerate(self.parts) for kind in part.types]
        return {
            "fingerprint": self.fingerprint,
            "shared": self.shared,
            "parts": [[part.identity, len(part.types), part.begun_late] for part in self.parts],
            "types": base64.b64encode(pa.schema(fields).serialize()).decode(),
            "keeps_groups": self.keeps_groups,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> StateLayout:
        types = list(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(value["types"]))).types)
        parts = []
        for identity, count, begun_late in value["parts"]:
            parts.append(Part(identity, tuple(types[:count]), begun_late))
            del types[:count]
        return cls(value["fingerprint"], value["shared"], tuple(parts), value["keeps_groups"])


@dataclass(frozen=True)
class Past:
    """`layouts` are those of earlier texts, first to last. `passed`: under them, what ended by then has closed."""

    layouts: tuple[StateLayout, ...] = ()
    passed: int | None = None

    @property
    def keeps_groups(self) -> bool:
        """Whether the value of every open window has been at hand: it stays so, whatever the emit mode."""
        return bool(self.layouts) and self.layouts[-1].keeps_groups

    @property
    def suffix(self) -> str:
        """What tells the fingerprint of this text from those of earlier ones."""
        return suffix(len(self.layouts))

    def followed_by(self, layout: StateLayout, passed: int | None) -> Past:
        """The past of the next text, when this one has laid out the state so and closed what ended by `passed`."""
        known = [moment for moment in (self.passed, passed) if moment is not None]
        return Past((*self.layouts, layout), max(known, default=None))

    def reached(self, watermark: int, lateness: int) -> int:
        """What ended by then has closed: allowed more lateness, a stream opens nothing again."""
        return watermark - lateness if self.passed is None else max(watermark - lateness, self.passed)

    def knows(self, part: Part) -> bool:
        """Whether every earlier text has kept this part from the first row on."""
        return all(
            any(part.identity == other.identity and not other.begun_late for other in layout.parts)
            for layout in self.layouts
        )

    def with_part(self, part: Part) -> Past:
        """The same, of a kernel that keeps one part more in every text."""
        layouts = tuple(replace(layout, parts=(*layout.parts, part)) for layout in self.layouts)
        return replace(self, layouts=layouts)


def suffix(texts: int) -> str:
    return f";text={texts}" if texts else ""


NO_PAST = Past()  # of a stream that has one text
