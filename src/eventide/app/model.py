"""An app file, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eventide.sql.catalog import Catalog


@dataclass(frozen=True)
class Settings:
    """What `eventide.connect` takes; None where the file says nothing."""

    checkpoint: str | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    shards: int | None = None
    local_speed: bool | None = None


@dataclass(frozen=True)
class TimeDefaults:
    """`[app] eventtime.*`: for sources and transforms that do not say otherwise. Text, as in SQL options."""

    enabled: bool = True
    column: str | None = None
    type: str | None = None
    lag: str | None = None
    max_future_skew: str | None = None
    idle_timeout: str | None = None


@dataclass(frozen=True)
class App:
    """`texts` are the equivalent statements; `catalog` is what they define."""

    settings: Settings
    texts: tuple[str, ...]
    catalog: Catalog

    @property
    def sql(self) -> str:
        """The whole app as SQL."""
        return "".join(f"{text}\n;\n" for text in self.texts)
