"""What a connector says of itself, once: its options, what it can do, and the functions that do it.

Validation, identity, DESCRIBE, EXPLAIN and the tables of `docs/connectors/` come from here. A declaration imports
neither Spark nor the client of whatever it connects to: the functions that it names import these when they are called.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from eventide.connectors.contract import SourceContext
    from eventide.connectors.sink import Sink
    from eventide.plan.logical import Source, Table

FORMAT = "format"


@dataclass(frozen=True)
class Option:
    """`kind`: text, character, duration, span (a duration above zero), count (a whole number above 0), flag, rate
    (10000/s), position (see `plan.positions`), keep (all, none or a duration), size (16 MB), or
    choice.

    A choice is one of `choices`, a count at most `most`. `instead_of` is another way to say the same thing, which
    excludes it; `both_say` is that thing. `identifies`: with another value it is other data, so that a checkpoint does
    not go on with it. `is_secret`: it is never written in clear, only as the place where it is to be found. `default`
    is what counts where the option is not given; `doc` says what it means, in Markdown.
    """

    kind: str = "text"
    choices: tuple[str, ...] = ()
    doc: str = ""
    default: str | None = None
    is_required: bool = False
    identifies: bool = False
    is_secret: bool = False
    only_format: str | None = None
    instead_of: str | None = None
    both_say: str = "how large batches are"
    most: int = 2**31 - 1


@dataclass(frozen=True)
class Family:
    """Options that begin with `prefix` and are handed on as they are, to whom the connector uses.

    `secrets` is a regular expression for the names, without the prefix, of those that are secret.
    """

    prefix: str
    doc: str
    secrets: str = r".*(password|secret|token).*"

    def has(self, name: str) -> bool:
        return name.startswith(self.prefix) and len(name) > len(self.prefix)

    def option(self, name: str) -> Option:
        return Option(is_secret=re.fullmatch(self.secrets, name.removeprefix(self.prefix)) is not None)


class Promise(Enum):
    """What becomes of a batch that a sink is given twice, after a crash."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


@dataclass(frozen=True, kw_only=True)
class _Role:
    """`one_of` are options of which one is required. `check` looks at all options together, and raises an OptionError
    for what does not fit; it is called when the statement is read, so placeholders of secrets are not filled in.
    """

    options: Mapping[str, Option] = field(default_factory=dict)
    family: Family | None = None
    one_of: tuple[str, ...] = ()
    check: Callable[[str, Mapping[str, str]], None] = lambda what, options: None

    def option(self, name: str) -> Option | None:
        """What is declared of an option of this name; None if there is none."""
        if name in self.options:
            return self.options[name]
        return self.family.option(name) if self.family is not None and self.family.has(name) else None

    @property
    def identifying(self) -> tuple[str, ...]:
        """The names of the options that say which data it is."""
        return tuple(name for name, option in self.options.items() if option.identifies)

    @property
    def format(self) -> str | None:
        """The format where none is given; None if the connector has no formats."""
        return self.options[FORMAT].default if FORMAT in self.options else None


@dataclass(frozen=True, kw_only=True)
class Reads(_Role):
    """How a connector is a source.

    `load` gives a streaming DataFrame with the source's columns. Beside them it may have those of
    `connectors.contract`: when a row was received, and what of it did not decode. It is told which columns are used. A
    connector without `load` is read in a way of its own.

    `ready` raises what keeps the source from being read, before a stream starts. `decoded_in_tasks` are the formats
    that a fused scan decodes. `metadata` are the columns that a message has beside its content, each with the types
    that it can be read as. `columns` is a schema that cannot be declared otherwise, `event_time` its event time.
    `infer` gives the columns, as (name, type), of a source with these options that declares none and says 'schema' =
    'infer'; it has an option 'schema' for that.
    """

    load: Callable[[SourceContext, Source, Collection[str]], DataFrame] | None = None
    ready: Callable[[Source], None] = lambda source: None
    decoded_in_tasks: tuple[str, ...] = ()
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    columns: tuple[tuple[str, str], ...] = ()
    event_time: str | None = None
    is_paced: bool = False  # whether a batch can take as much as it wants
    has_partitions: bool = False  # whether rows are in order only within a partition, each with a watermark of its own
    infer: Callable[[Mapping[str, str]], tuple[tuple[str, str], ...]] | None = None


@dataclass(frozen=True)
class Opening:
    """A sink that is to be opened. `options` have the secrets in them, and `hide` takes these out of a text again.

    `identity` is the stream's in its checkpoint: with the number of a batch it says which rows these are.
    `json_columns` hold JSON as text.
    """

    name: str
    options: Mapping[str, str]
    identity: str
    json_columns: tuple[str, ...]
    hide: Callable[[str], str]


@dataclass(frozen=True, kw_only=True)
class Writes(_Role):
    """How a connector is a sink. `promise` is what it keeps with the default options. Without `open` the rows stay
    where they are: with the stream.
    """

    promise: Promise
    open: Callable[[Opening], Sink] | None = None


@dataclass(frozen=True, kw_only=True)
class LooksUp(_Role):
    """How a connector is a table. `read` gives all its rows as they are now, with the declared columns; `mark` gives
    something that changes when they do, or None if only reading them tells.
    """

    read: Callable[[SparkSession, Table], pa.Table]
    mark: Callable[[Table], str | None] = lambda table: None


@dataclass(frozen=True, kw_only=True)
class Connector:
    """One folder, or one package of somebody else's. A role that it lacks is None."""

    name: str
    doc: str
    source: Reads | None = None
    sink: Writes | None = None
    table: LooksUp | None = None

    def role(self, role: str) -> Any:
        return getattr(self, role)
