"""`[transforms.NAME]` as CREATE STREAM. What the SQL says takes precedence over the section."""

from __future__ import annotations

from collections.abc import Iterator

from eventide.app.model import TimeDefaults
from eventide.app.section import Section
from eventide.errors import OptionError
from eventide.eventtime.durations import parse_duration
from eventide.plan.logical import Source
from eventide.plan.names import backticked
from eventide.plan.side_output import KEYS as ROUTE_KEYS, KINDS
from eventide.sql.catalog import Catalog
from eventide.sql.fragments import Assembled, Fragment, Literal, Part, string, with_clause
from eventide.sql.joins import join_below
from eventide.sql.lookups import with_lookups
from eventide.sql.options import STREAM_OPTIONS
from eventide.sql.parser import parse_statements
from eventide.sql.statements import CreateStream
from eventide.sql.syntax import FromNode, JoinNode, QueryNode, SelectNode, SubqueryRef, TableRef, WindowTable

_OWN = ("sql", "event_time_field", "watermark_lag", "allowed_lateness", "emit", "late_to", "options", "side_output")
KEYS = (*_OWN, *(name for name in STREAM_OPTIONS if name not in _OWN))
ALIASES = {"eventtime.lateTolerance": "watermark_lag", "eventtime.field": "event_time_field"}
WHOLE = ("options", "side_output")


def create_stream(name: str, section: Section, catalog: Catalog, defaults: TimeDefaults) -> Assembled:
    """The statement; raises an error for any mistake in the section or its SQL."""
    sql = section.required("sql", 'write sql = "SELECT ... FROM ..."').strip()
    statement = _parsed(name, section, sql)
    sql = sql[: len(statement.text) - len(_prefix(name))]  # without a semicolon and anything after it
    end = statement.query.span.end - len(_prefix(name))
    body, tail = Fragment(section.place("sql"), sql[:end]), Fragment(section.place("sql"), sql[end:])
    return Assembled(
        section.path,
        "CREATE STREAM ",
        Fragment(section.path, backticked(name)),
        *with_clause(_options(section, statement, defaults)),
        " AS ",
        body,
        *_watermark(section, statement, catalog, defaults),
        tail,
        *_tail(section, statement),
    )


def _prefix(name: str) -> str:
    return f"CREATE STREAM {backticked(name)} AS "


def _parsed(name: str, section: Section, sql: str) -> CreateStream:
    text = Assembled(section.path, _prefix(name), Fragment(section.place("sql"), sql))
    if sql.split(None, 1)[0].upper() == "CREATE":
        raise OptionError(
            f"{section.place('sql')} must be the SELECT of the stream {name}", help="leave out CREATE STREAM ... AS"
        )
    with text.errors():
        statements = parse_statements(text.text)
        if len(statements) != 1 or not isinstance(statements[0], CreateStream):
            raise OptionError("sql must be one SELECT", help="give each further stream its own [transforms.NAME]")
    return statements[0]


def _options(section: Section, statement: CreateStream, defaults: TimeDefaults) -> dict[str, Literal]:
    given = section.literals(STREAM_OPTIONS)
    table = Section(section.place("options"), section.table("options"), STREAM_OPTIONS)
    for key, value in table.literals(STREAM_OPTIONS).items():
        if key in given:
            raise OptionError(f"{table.place(key)}: the same as {section.place(key)}", help="keep one of them")
        given[key] = value
    given.update(_side_output(section))
    if _gives_lateness(statement):
        given.pop("allowed_lateness", None)
    if not defaults.enabled and "eventtime.enabled" not in given:
        given["eventtime.enabled"] = Literal("app.eventtime.enabled", "false")
    return given


def _side_output(section: Section) -> dict[str, Literal]:
    """`[transforms.NAME.side_output]`: the keys are options of CREATE STREAM without the `side_output.` in front."""
    if "side_output" not in section:
        return {}
    keys = [f"{kind}.{key}" for kind in KINDS for key in ROUTE_KEYS]
    table = Section(section.place("side_output"), section.value("side_output"), keys)
    return {f"side_output.{key}": value for key, value in table.literals(keys).items()}


def _gives_lateness(statement: CreateStream) -> bool:
    windows = [select.window for select in statement.query.selects if select.window is not None]
    joins = [join for select in statement.query.selects if (join := join_below(select)) is not None]
    return (
        statement.emit.allowed_lateness is not None
        or any("allowed lateness" in window.durations for window in windows)
        or any(join.within is not None and join.within.grace is not None for join in joins)
    )


def _watermark(section: Section, statement: CreateStream, catalog: Catalog, defaults: TimeDefaults) -> list[Part]:
    """event_time_field and watermark_lag as a WATERMARK clause, unless the SQL has one or time is processing time."""
    field, lag = section.text("event_time_field"), section.text("watermark_lag")
    enabled = section.flag("eventtime.enabled")
    if (
        (field is None and lag is None)
        or not (defaults.enabled if enabled is None else enabled)
        or _has_watermark(statement.query)
    ):
        return []
    if len(statement.query.selects) > 1:
        place = section.place("event_time_field" if field is not None else "watermark_lag")
        raise OptionError(f"{place} is for one SELECT", help="write SELECT ... FROM (SELECT ... UNION ALL SELECT ...)")
    if join_below(with_lookups(statement.query, catalog.tables).selects[0]) is not None:
        place = section.place("event_time_field" if field is not None else "watermark_lag")
        raise OptionError(
            f"{place} is for one input, and the SQL joins two",
            help="write WATERMARK ts DELAY OF INTERVAL 10 SECONDS after an input in FROM, or set it in its source",
        )
    sources = list(_sources(statement.query, catalog))
    if not sources:
        return []  # lowering will report what is wrong with FROM
    column = field if field is not None else _declared_column(section, sources)
    chosen = lag if lag is not None else _declared_lag(section, sources)
    place = section.place("event_time_field" if field is not None else "watermark_lag")
    return [
        "\nWATERMARK(",
        Fragment(place, backticked(column)),
        ", ",
        Literal(section.place("watermark_lag"), chosen),
        ")",
    ]


def _declared_column(section: Section, sources: list[Source]) -> str:
    names = {source.event_time.column for source in sources if source.event_time is not None}
    if len(names) != 1:
        reason = (
            "its sources have no event time"
            if not names
            else f"its sources have several event times: {', '.join(sorted(names))}"
        )
        raise OptionError(
            f"{section.place('watermark_lag')}: {reason}", help=f'add event_time_field = "..." to [{section.path}]'
        )
    return names.pop()


def _declared_lag(section: Section, sources: list[Source]) -> str:
    lags = {source.watermark_lag or 0 for source in sources}
    if len(lags) > 1:
        raise OptionError(
            f"{section.place('event_time_field')}: its sources have different lags",
            help=f'add watermark_lag = "..." to [{section.path}]',
        )
    return f"{lags.pop() if lags else 0} microseconds"


def _has_watermark(query: QueryNode) -> bool:
    """Whether the SQL has a watermark of its own, at any depth."""
    return any(_select_has_watermark(select) for select in query.selects)


def _select_has_watermark(select: SelectNode) -> bool:
    if select.watermark is not None or (select.window is not None and "watermark" in select.window.durations):
        return True
    return any(
        node.watermark is not None or (isinstance(node, SubqueryRef) and _has_watermark(node.query))
        for node in _inputs(select.source)
    )


def _sources(query: QueryNode, catalog: Catalog) -> Iterator[Source]:
    for select in query.selects:
        for node in _inputs(select.source):
            if isinstance(node, SubqueryRef):
                yield from _sources(node.query, catalog)
            else:
                yield from (source for name, source in catalog.sources.items() if name.lower() == node.name.lower())


def _inputs(node: FromNode) -> Iterator[TableRef | SubqueryRef]:
    """What stands in FROM, without window tables and joins around it."""
    match node:
        case WindowTable():
            yield node.input
        case JoinNode():
            yield from _inputs(node.left)
            yield from _inputs(node.right)
        case _:
            yield node


def _tail(section: Section, statement: CreateStream) -> list[Part]:
    parts: list[Part] = []
    emit, late_to = section.text("emit"), section.text("late_to")
    for key, value, is_given in (("emit", emit, statement.emit.mode), ("late_to", late_to, statement.emit.late_to)):
        if value is not None and is_given is not None:
            raise OptionError(f"{section.place(key)}: the SQL already says this", help="keep one of them")
    if emit is not None:
        parts += ["\nEMIT ", Fragment(section.place("emit"), emit_clause(section.place("emit"), emit))]
    if late_to is not None:
        parts += ["\nLATE DATA TO ", Fragment(section.place("late_to"), late_to)]
    return parts


def emit_clause(place: str, text: str) -> str:
    """`on update`, `EMIT FINAL` or `every 5 seconds` as SQL, without the word EMIT."""
    words = text.split()
    if words and words[0].upper() == "EMIT":
        words = words[1:]
    if len(words) > 1 and words[0].upper() == "EVERY" and words[1].upper() != "INTERVAL":
        length = " ".join(words[1:]).strip("'\"")
        parse_duration(length)
        return f"EVERY {string(length)}"
    if not words:
        raise OptionError(f"{place} is empty", help='write emit = "on window close"')
    return " ".join(words)
