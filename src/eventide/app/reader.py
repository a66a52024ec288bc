"""`app.toml` to statements: an app file means the same as its SQL.

    [app]               where it runs, and defaults
    [sources.NAME]      CREATE SOURCE
    [tables.NAME]       CREATE TABLE
    [transforms.NAME]   CREATE STREAM
    [sinks.NAME]        CREATE SINK

Every mistake that can be found without Spark is an error that names the key's path.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from eventide.app import transform
from eventide.app.model import App, Settings, TimeDefaults
from eventide.app.section import Section, scalar
from eventide.connectors.declaration import LooksUp, Reads, Writes
from eventide.connectors.registry import SINKS, SOURCES, TABLES
from eventide.errors import EngineError, OptionError, suggest
from eventide.plan.logical import Source
from eventide.plan.names import backticked
from eventide.plan.side_output import METRICS_ONLY, REINJECT
from eventide.sql.catalog import Catalog
from eventide.sql.fragments import Assembled, Fragment, Literal, Part, with_clause
from eventide.sql.inferring import with_columns
from eventide.sql.lower_source import lower_source
from eventide.sql.options import (
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    TABLE_OPTIONS,
)
from eventide.sql.parser import parse_statements
from eventide.sql.statements import CreateSource

_Role = TypeVar("_Role", Reads, Writes, LooksUp)
_TABLES = ("app", "sources", "tables", "transforms", "sinks")
_APP = (
    *("checkpoint", "master", "conf", "shards", "local_speed", "eventtime.enabled", "eventtime.column"),
    *("eventtime.type", "eventtime.lateTolerance", "eventtime.max_future_skew", "eventtime.idle_timeout"),
)
_LAG = {"watermark_lag": "watermark.lag", "eventtime.lateTolerance": "watermark.lag"}


def load_app(text: str, allow_jvm_calls: bool = False) -> App:
    """An app file as statements and settings; raises an error for any mistake in it."""
    tables = _tables(text)
    settings, defaults = _read_app_section(tables["app"])
    catalog = Catalog(allow_jvm_calls)
    texts: list[str] = []
    for name, values in tables["sources"].items():
        texts.append(_apply(catalog, _source(name, values, defaults)))
    for name, values in tables["tables"].items():
        texts.append(_apply(catalog, _table(name, values)))
    sinks = {name: _sink_section(name, values) for name, values in tables["sinks"].items()}
    for name, section in sinks.items():
        if "from" not in section:
            texts.append(_apply(catalog, _sink(name, section)))
    for name, values in tables["transforms"].items():
        section = Section(f"transforms.{name}", values, transform.KEYS, transform.WHOLE, transform.ALIASES)
        texts.append(_apply(catalog, transform.create_stream(name, section, catalog, defaults)))
    for name, section in sinks.items():
        if "from" in section:
            texts.append(_apply(catalog, _sink(name, section)))
        elif not any(catalog.routers(name)):
            raise OptionError(
                f"nothing is sent to {section.path}", help='add from = "a stream", or name it in a side_output'
            )
    return App(settings, tuple(texts), catalog)


def _tables(text: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(
            f"this is not TOML: {error}", help="put text in quotes and table names in [brackets]"
        ) from None
    for name, table in found.items():
        if name not in _TABLES:
            raise OptionError(f"{name}: there is no such table", help=suggest(name, _TABLES))
        if not isinstance(table, dict):
            raise OptionError(f"{name} must be a table, not {table!r}", help=f"write [{name}]")
    if not found.get("transforms"):
        raise OptionError(
            "the app has no transform, so it would do nothing", help='add [transforms.NAME] with sql = "SELECT ..."'
        )
    return {name: found.get(name, {}) for name in _TABLES}


def _apply(catalog: Catalog, statement: Assembled) -> str:
    with statement.errors():
        for parsed in parse_statements(statement.text):
            catalog.apply(parsed)
    return statement.text


def _read_app_section(values: Any) -> tuple[Settings, TimeDefaults]:
    section = Section("app", values, _APP, ("conf",), {"eventtime.watermark_lag": "eventtime.lateTolerance"})
    conf = {key: scalar(f"app.conf.{key}", value) for key, value in _flat_conf(section.table("conf")).items()}
    settings = Settings(
        section.text("checkpoint"), section.text("master"), conf, section.count("shards"), section.flag("local_speed")
    )
    keys = ("column", "type", "lateTolerance", "max_future_skew", "idle_timeout")
    defaults = TimeDefaults(
        section.flag("eventtime.enabled") is not False, *(section.text(f"eventtime.{key}") for key in keys)
    )
    return settings, defaults


def _flat_conf(values: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Spark settings have dots in their names, which TOML may have read as tables."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat.update(_flat_conf(value, f"{before}{key}.") if isinstance(value, dict) else {f"{before}{key}": value})
    return flat


def _source(name: str, values: Any, defaults: TimeDefaults) -> Assembled:
    path = f"sources.{name}"
    connector = _connector(path, values, SOURCES)
    known = ["columns", "dedup.by", "dedup.within", *SOURCE_OPTIONS, *connector.options]
    section = Section(path, values, known, ("columns",), _LAG, connector.family)
    inside: list[Part] = []
    for column in _columns(section):
        inside += [", " if inside else " (", column]
    inside += [*_dedup(section), "\n)"] if inside else []
    options = section.literals({*SOURCE_OPTIONS, *connector.options})
    head = ["CREATE SOURCE ", Fragment(path, backticked(name)), *inside]
    declared = _parse_source(Assembled(path, *head, *with_clause(options)))
    return Assembled(path, *head, *with_clause({**options, **_defaults(declared, options, defaults)}))


def _table(name: str, values: Any) -> Assembled:
    path = f"tables.{name}"
    if isinstance(values, dict) and "connector" not in values:
        raise OptionError(f"{path} has no connector", help=suggest("", TABLES))
    connector = _connector(path, values, TABLES)
    section = Section(
        path, values, ["columns", *TABLE_OPTIONS, *connector.options], ("columns",), family=connector.family
    )
    inside: list[Part] = []
    for column in _columns(section):
        inside += [", " if inside else " (", column]
    inside += ["\n)"] if inside else []
    options = section.literals({*TABLE_OPTIONS, *connector.options})
    return Assembled(path, "CREATE TABLE ", Fragment(path, backticked(name)), *inside, *with_clause(options))


def _parse_source(text: Assembled) -> Source:
    with text.errors():
        (statement,) = parse_statements(text.text)
        if not isinstance(statement, CreateSource):
            raise EngineError(f"{text.text} is not a CREATE SOURCE")
        return lower_source(with_columns(statement, None))


def _connector(path: str, values: Any, connectors: Mapping[str, _Role]) -> _Role:
    name = values.get("connector", "embedded") if isinstance(values, dict) else "embedded"
    if not isinstance(name, str) or name.lower() not in connectors:
        raise OptionError(f"{path}.connector: there is no connector {name!r}", help=suggest(str(name), connectors))
    return connectors[name.lower()]


def _columns(section: Section) -> list[Fragment]:
    """`columns = { id = "STRING" }`, or the same as SQL: `columns = "id STRING, ts BIGINT"`."""
    value = section.value("columns")
    if isinstance(value, str):
        return [Fragment(section.place("columns"), value)]
    table = section.table("columns")
    places = {name: f"{section.place('columns')}.{name}" for name in table}
    return [Fragment(places[name], f"{backticked(name)} {scalar(places[name], type)}") for name, type in table.items()]


def _dedup(section: Section) -> list[Part]:
    columns, within = section.texts("dedup.by"), section.text("dedup.within")
    if not columns and within is None:
        return []
    if not columns or within is None:
        raise OptionError(
            f"{section.path}.dedup needs by and within", help='write dedup.by = "id" and dedup.within = "10 minutes"'
        )
    names = ", ".join(backticked(column) for column in columns)
    by, length = Fragment(section.place("dedup.by"), names), Literal(section.place("dedup.within"), within)
    return [", DEDUPLICATE BY ", by, " WITHIN ", length]


def _defaults(declared: Source, options: Collection[str], defaults: TimeDefaults) -> dict[str, Literal]:
    """Defaults from [app] that apply to this source and that it does not set itself."""
    added: dict[str, Literal] = {}
    names = [column.name.lower() for column in declared.columns]
    if declared.event_time is None and defaults.column is not None and defaults.column.lower() in names:
        added["eventtime.column"] = Literal("app.eventtime.column", defaults.column)
        if defaults.type is not None:
            added["eventtime.type"] = Literal("app.eventtime.type", defaults.type)
    has_time = declared.event_time is not None or bool(added)
    if has_time and declared.watermark_lag is None and defaults.lag is not None:
        added["watermark.lag"] = Literal("app.eventtime.lateTolerance", defaults.lag)
    for key, value in (("max_future_skew", defaults.max_future_skew), ("idle_timeout", defaults.idle_timeout)):
        if value is not None and key not in options:
            added[key] = Literal(f"app.eventtime.{key}", value)
    return added


def _sink_section(name: str, values: Any) -> Section:
    path = f"sinks.{name}"
    if isinstance(values, dict) and "connector" not in values:
        raise OptionError(f"{path} has no connector", help=suggest("", SINKS))
    if name in (METRICS_ONLY, REINJECT):
        raise OptionError(f"{path}: the name {name} has a meaning in side_output", help="choose another name")
    connector = _connector(path, values, SINKS)
    return Section(path, values, ["from", *SINK_OPTIONS, *connector.options], family=connector.family)


def _sink(name: str, section: Section) -> Assembled:
    """CREATE SINK; without `from` it is for side outputs to write to."""
    connector = SINKS[(section.text("connector") or "").lower()]
    options = section.literals({*SINK_OPTIONS, *connector.options})
    reads: list[Part] = (
        [" FROM ", Fragment(section.place("from"), backticked(section.text("from") or ""))] if "from" in section else []
    )
    made = Fragment(section.path, backticked(name))
    return Assembled(section.path, "CREATE SINK ", made, *reads, *with_clause(options))
