"""How the commands read a checkpoint: without Spark or changing anything, even while another process has it open."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.errors import OptionError

if TYPE_CHECKING:
    from eventide.plan.logical import Stream
    from eventide.sql.catalog import Catalog
    from eventide.storage.layout import Layout
    from eventide.storage.results import Account, Results


def layout_of(checkpoint: str | Path) -> Layout:
    from eventide.storage.layout import Layout
    from eventide.storage.opening import checkpoint_path

    layout = Layout(checkpoint_path(checkpoint))
    if not layout.catalog.exists():
        raise OptionError(
            f"{checkpoint} is not an Eventide checkpoint",
            help="give the folder that `eventide run --checkpoint DIR` used",
        )
    return layout


def catalog_of(layout: Layout) -> Catalog:
    from eventide.sql.catalog import Catalog
    from eventide.storage.atomic import read_json

    return Catalog.from_texts(read_json(layout.catalog), allow_jvm_calls=True)  # nothing of it is run


@dataclass(frozen=True)
class Kept:
    """What a checkpoint holds about one stream; `results` is None before its first run."""

    layout: Layout
    stream: Stream
    results: Results | None

    @property
    def account(self) -> Account | None:
        return None if self.results is None else self.results.latest()

    @property
    def watermark(self) -> int | None:
        from eventide.storage.atomic import read_json

        told: int | None = read_json(self.layout.stream(self.stream.name) / "watermark.json")
        return told if told is not None else self.account.watermark if self.account else None


def open_late(checkpoint: str | Path, name: str) -> Kept:
    """The stream, or that of its inner streams, in which the late rows of a stream are."""
    from eventide.sql.catalog import LATE_SUFFIX

    catalog = catalog_of(layout_of(checkpoint))
    return open_stream(checkpoint, catalog.late_names[f"{catalog.stream(name).name}{LATE_SUFFIX}"])


def open_stream(checkpoint: str | Path, name: str) -> Kept:
    from eventide.storage.results import Results

    layout = layout_of(checkpoint)
    stream = catalog_of(layout).stream(name)
    folder = layout.results(stream.name)
    return Kept(layout, stream, Results(folder) if folder.exists() else None)
