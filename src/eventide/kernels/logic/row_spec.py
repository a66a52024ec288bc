"""What specs have in common whose main rows are rows of their inputs, and not groups of them."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

from eventide.kernels.contract import InputSpec
from eventide.kernels.side_rows import SideRows
from eventide.kernels.state.past import Past, StateLayout


class RowSpec:
    """The fields are those of the spec: the user's names with packed columns, and the names of the inputs."""

    originals: tuple[tuple[str, str], ...]
    sources: tuple[str, ...]

    @property
    def inputs(self) -> tuple[InputSpec, ...]:
        return tuple(InputSpec(source, (), self.originals) for source in self.sources)

    @property
    def side_rows(self) -> SideRows:
        return SideRows(self.inputs)

    @property
    def tick_every(self) -> int | None:
        return None


class AlikeUnderEveryText(RowSpec):
    """A spec whose state another text of the stream reads as it is, or not at all."""

    @abstractmethod
    def fingerprint(self) -> str: ...

    @property
    def layout(self) -> StateLayout:
        return StateLayout(self.fingerprint(), shared=self.fingerprint())

    def continuing(self, past: Past) -> Self:
        return self
