"""Names in Spark SQL text, and names of inner streams."""

from __future__ import annotations

import re
from collections.abc import Iterable

from eventide.kernels.contract import ROWTIME
from eventide.plan.logical import Column

TIME_OF_PAIR = ROWTIME  # how the outputs of a join name the event time of a pair

_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that Spark could read as something other than a column: its reserved words, literals and types.
_KEYWORDS = frozenset(
    """all and anti any array as asc at authorization between both by case cast check collate column constraint create
    cross current_date current_time current_timestamp current_user date default delete desc describe distinct div drop
    else end escape except exists explode extract false fetch filter for foreign from full grant group grouping having
    if ilike in inner insert intersect interval into is join last lateral leading left like limit localtimestamp map
    minus natural not null nulls of offset on only or order outer over overlaps overlay partition position primary
    recursive references regexp right rlike row rows select semi session_user set some start struct substring sum table
    tablesample then time timestamp timestamp_ltz timestamp_ntz to trailing transform trim true try_cast union unique
    unknown unnest user using values when where window
    with within""".split()
)


_INNER = re.compile(r"(.+)(\$\d+)")


def inner_name(owner: str, number: int) -> str:
    """The name of an inner stream, which computes a part of the stream `owner`."""
    return f"{owner}${number}"


def owner_of(name: str) -> str:
    """The stream to which an inner stream belongs; another stream belongs to itself."""
    found = _INNER.fullmatch(name)
    return name if found is None else found[1]


def without_owner(name: str) -> str:
    """The name of an inner stream without that of the stream to which it belongs; other names as they are."""
    found = _INNER.fullmatch(name)
    return name if found is None else found[2]


def backticked(name: str) -> str:
    """A name as SQL, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def quoted(name: str) -> str:
    """A column name as it must stand in Spark SQL: bare if that is safe, in backticks otherwise."""
    if _SIMPLE.fullmatch(name) and name.lower() not in _KEYWORDS:
        return name
    return backticked(name)


def field_path(name: str, columns: Iterable[Column]) -> tuple[str, ...]:
    """The parts of `column.field`; a column may have a dot in its own name."""
    return (name,) if any(column.name == name for column in columns) else tuple(name.split("."))
