"""Which connectors there are: ours, and those that other packages bring by an entry point.

    [project.entry-points."eventide.connectors"]
    mine = "my_package.connector:CONNECTOR"

An entry point is loaded when its name is first asked for. One that has the name of another is ignored, with a warning.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar, cast

from eventide.connectors.console.connector import CONSOLE
from eventide.connectors.dataframe.connector import DATAFRAME
from eventide.connectors.declaration import Connector, LooksUp, Reads, Writes
from eventide.connectors.delta.connector import DELTA
from eventide.connectors.embedded.connector import EMBEDDED
from eventide.connectors.files.connector import FILES
from eventide.connectors.jdbc.connector import JDBC
from eventide.connectors.kafka.connector import KAFKA
from eventide.connectors.postgres.connector import POSTGRES
from eventide.connectors.rate.connector import RATE
from eventide.connectors.spark.connector import SPARK
from eventide.connectors.stream.connector import STREAM
from eventide.errors import EnvironmentError

GROUP = "eventide.connectors"

OURS: tuple[Connector, ...] = (CONSOLE, DELTA, EMBEDDED, FILES, JDBC, KAFKA, POSTGRES, RATE, SPARK)
WITHIN: tuple[Connector, ...] = (DATAFRAME, STREAM)  # which no statement names

_LOG = logging.getLogger("eventide")
_Role = TypeVar("_Role", Reads, Writes, LooksUp)


def connectors() -> dict[str, Connector]:
    """All that a statement can name. Raises an EnvironmentError if one cannot be loaded."""
    ours = {each.name: each for each in OURS}
    return {**ours, **{name: _loaded(point) for name, point in _others().items()}}


def connector(name: str) -> Connector:
    """The connector of this name, those included that no statement names. Raises a KeyError if there is none."""
    for each in (*OURS, *WITHIN):
        if each.name == name:
            return each
    return _loaded(_others()[name])


def reads(name: str) -> Reads:
    """How the sources of a connector are read."""
    found = connector(name).source
    if found is None:
        raise KeyError(name)
    return found


def forget_others() -> None:
    """Look for entry points anew: a package has come or gone while the process runs."""
    _others.cache_clear()
    _loaded.cache_clear()


class _Of(Mapping[str, _Role], Generic[_Role]):
    """The connectors that have a role, by name. Others' are loaded when they are asked for."""

    def __init__(self, role: str) -> None:
        self._role = role

    def __getitem__(self, name: str) -> _Role:
        found = connector(name).role(self._role)
        if found is None or name in {each.name for each in WITHIN}:
            raise KeyError(name)
        return cast(_Role, found)

    def __iter__(self) -> Iterator[str]:
        """Those that can be loaded: a package that is broken is told only to those who name its connector."""
        for name in sorted([*(each.name for each in OURS), *_others()]):
            with contextlib.suppress(KeyError, EnvironmentError):
                self[name]
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)


SOURCES: Mapping[str, Reads] = _Of[Reads]("source")
SINKS: Mapping[str, Writes] = _Of[Writes]("sink")
TABLES: Mapping[str, LooksUp] = _Of[LooksUp]("table")


@lru_cache(maxsize=1)
def _others() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        name = point.name.lower()
        if name in found or any(each.name == name for each in (*OURS, *WITHIN)):
            _LOG.warning("the connector '%s' of %s is ignored: there is one of that name", name, _package(point))
        else:
            found[name] = point
    return found


@lru_cache
def _loaded(point: EntryPoint) -> Connector:
    try:
        found = point.load()
    except Exception as error:
        raise EnvironmentError(
            f"the connector '{point.name}' of {_package(point)} cannot be loaded: {type(error).__name__}: {error}",
            help=f"mend or remove that package; it names {point.value}",
        ) from error
    if not isinstance(found, Connector):
        raise EnvironmentError(
            f"the connector '{point.name}' of {_package(point)} is a {type(found).__name__}",
            help=f"{point.value} should be a Connector of eventide.connectors.declaration",
        )
    return found


def _package(point: EntryPoint) -> str:
    return f"the package {point.dist.name}" if point.dist is not None else "an unknown package"
