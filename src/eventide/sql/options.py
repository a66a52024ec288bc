"""WITH options: which exist, for what, and how their values read. The tables are the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token, TokenType

from eventide.admission.options import (
    ADMISSION_OPTIONS,
    AdmissionSpec,
    parse_admission,
)
from eventide.errors import OptionError, SqlError, suggest
from eventide.eventtime.durations import parse_duration
from eventide.plan.positions import parse_position
from eventide.plan.side_output import KINDS, parse_rate
from eventide.plan.sizes import parse_size
from eventide.secrets import HELP, secret_places
from eventide.sql.cursor import Cursor
from eventide.sql.tokens import error_at, word


@dataclass(frozen=True)
class Option:
    """`kind`: text, character, duration, span (a duration above zero), count (a whole number above 0), flag, rate
    (10000/s), position (see `plan.positions`), keep (all, none or a duration), size
    (16 MB), or choice.

    A choice is one of `choices`, a count at most `most`. `instead_of` is another way to say the same thing, which
    excludes it; `both_say` is that thing.
    """

    kind: str = "text"
    choices: tuple[str, ...] = ()
    only_format: str | None = None
    instead_of: str | None = None
    both_say: str = "how large batches are"
    most: int = 2**31 - 1


@dataclass(frozen=True)
class Connector:
    """`family` is what the names of options begin with that are handed on as they are, to whom the connector uses.

    `metadata` are the columns that a message has beside its content, each with the types that it can be read as.
    """

    options: Mapping[str, Option]
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()  # of which one is required
    family: str | None = None
    metadata: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    columns: tuple[tuple[str, str], ...] = ()  # a schema that cannot be declared otherwise
    event_time: str | None = None


MOST_SHARDS = 4096
KEEP_WORDS = {"all": None, "none": 0}

_FORMAT = Option("choice", ("json", "csv", "parquet"))

_CSV: Mapping[str, Option] = {
    "sep": Option(only_format="csv"),
    "quote": Option("character", only_format="csv"),
    "escape": Option("character", only_format="csv"),
    "null_text": Option(only_format="csv"),
    "timestamp_format": Option(only_format="csv"),
}

SOURCE_OPTIONS: Mapping[str, Option] = {
    "connector": Option(),
    "eventtime.column": Option(),
    "eventtime.type": Option(),
    "watermark.lag": Option("duration"),
    "idle_timeout": Option("duration"),
    "max_future_skew": Option("duration"),
    "rows.keep": Option("keep"),
    "empty_rows": Option("choice", ("use", "error")),
    **{name: Option() for name in ADMISSION_OPTIONS},
}

_FILES: Mapping[str, Option] = {
    "path": Option(),
    "format": _FORMAT,
    "header": Option("flag", only_format="csv"),
    **_CSV,
    "multi_line": Option("flag", only_format="csv"),
}

SOURCE_CONNECTORS: Mapping[str, Connector] = {
    "embedded": Connector({"target_latency": Option("span")}),
    "files": Connector(
        {
            **_FILES,
            "max_files_per_batch": Option("count"),
            "target_latency": Option("span", instead_of="max_files_per_batch"),
        },
        required=("path",),
    ),
    "kafka": Connector(
        {
            "servers": Option(),
            "topic": Option(),
            "topic_pattern": Option(instead_of="topic", both_say="which topics are read"),
            "format": Option("choice", ("json", "csv", "raw")),
            **_CSV,
            "start": Option("position"),
            "end": Option("position"),
            "missing": Option("choice", ("fail", "skip")),
            "group": Option(),
            "max_messages_per_batch": Option("count"),
            "target_latency": Option("span", instead_of="max_messages_per_batch"),
        },
        required=("servers",),
        one_of=("topic", "topic_pattern"),
        family="kafka.",
        metadata={
            "topic": ("string",),
            "partition": ("int", "bigint"),
            "offset": ("bigint",),
            "timestamp": ("timestamp",),
            "key": ("string", "binary"),
            "headers": ("map<string,binary>", "map<string,string>"),
        },
    ),
    "rate": Connector(
        {"rows_per_second": Option("count")},
        columns=(("timestamp", "timestamp"), ("value", "bigint")),
        event_time="timestamp",
    ),
}

TABLE_OPTIONS: Mapping[str, Option] = {"connector": Option(), "refresh": Option("span")}

TABLE_CONNECTORS: Mapping[str, Connector] = {"files": Connector(_FILES, required=("path",))}

SINK_OPTIONS: Mapping[str, Option] = {"connector": Option()}

SINK_CONNECTORS: Mapping[str, Connector] = {
    "embedded": Connector({}),
    "console": Connector({}),
    "files": Connector({"path": Option(), "format": _FORMAT, "file_size": Option("size")}, required=("path",)),
    "delta": Connector(
        {"path": Option(), "key": Option(), "schema": Option("choice", ("fixed", "evolve"))},
        required=("path",),
        family="storage.",
    ),
    "kafka": Connector(
        {
            "servers": Option(),
            "topic": Option(),
            "key": Option(),
            "delivery": Option("choice", ("exactly_once", "at_least_once")),
            "timeout": Option("span"),
        },
        required=("servers", "topic"),
        family="kafka.",
    ),
    "postgres": Connector(
        {"url": Option(), "table": Option(), "key": Option(), "timeout": Option("count", most=1_000_000)},
        required=("url", "table"),
    ),
}

STREAM_OPTIONS: Mapping[str, Option] = {
    "late.policy": Option("choice", ("window", "strict", "reassign")),
    "late.max_lateness": Option("duration"),
    "allowed_lateness": Option("duration"),
    "max_groups": Option("count"),
    "state_ttl": Option("duration"),
    "sum.overflow": Option("choice", ("wrap", "error")),
    "shards": Option("count", most=MOST_SHARDS),
    "eventtime.enabled": Option("flag"),
    "fused_scan": Option("flag"),
    "fusion.enabled": Option("flag"),
    "fusion.max_depth": Option("count"),
    "results.keep": Option("keep"),
}


def side_option(kind: str, key: str) -> str:
    """The option that says `key` of the side output `kind`."""
    return f"{_SIDE}{kind}.{key}"


_SIDE = "side_output."
_FAMILIES = (_SIDE, "sla.", "shed.")
_ROUTE = {"sink": Option(), "include_original": Option("flag"), "rate_limit": Option("rate"), "source": Option()}
SIDE_OPTIONS: Mapping[str, Option] = {
    side_option(kind, key): option for kind in KINDS for key, option in _ROUTE.items()
}

ALIASES: Mapping[str, str] = {"eventtime.latetolerance": "watermark.lag", "delimiter": "sep"}


@dataclass(frozen=True, eq=False)
class Given:
    """An option as written: its value as text and the place of that value."""

    value: str
    key_token: Token
    value_token: Token


@dataclass(frozen=True, eq=False)
class Options:
    """The options of one statement, by canonical name."""

    sql: str
    given: Mapping[str, Given]

    def text(self, name: str) -> str | None:
        return self.given[name].value if name in self.given else None

    def duration(self, name: str) -> int | None:
        return parse_duration(self.given[name].value) if name in self.given else None

    def count(self, name: str) -> int | None:
        return int(self.given[name].value) if name in self.given else None

    def keep(self, name: str) -> int | None:
        """How long something is kept, in microseconds; None: for ever, 0: no longer than it is needed."""
        value = self.given[name].value if name in self.given else "all"
        return KEEP_WORDS[value] if value in KEEP_WORDS else parse_duration(value)

    def flag(self, name: str) -> bool | None:
        return self.given[name].value == "true" if name in self.given else None

    def place(self, name: str) -> Token:
        return self.given[name].value_token

    def error(self, name: str, message: str, help: str | None = None) -> SqlError:
        """An error about an option that was given, at its value."""
        return error_at(self.sql, self.place(name), message, help)


def read_options(cursor: Cursor, word: str = "WITH") -> Options:
    """`WITH ('key' = 'value', ...)` if it comes next; names are not checked yet."""
    given: dict[str, Given] = {}
    if not cursor.accept(word):
        return Options(cursor.sql, given)
    cursor.expect_symbol(TokenType.L_PAREN, "(", help=f"write {word} ('key' = 'value', ...)")
    while not cursor.at(TokenType.R_PAREN):
        key, key_token = _key(cursor)
        cursor.expect_symbol(TokenType.EQ, "=", help="write 'key' = 'value'")
        value, value_token = _value(cursor)
        if key in given:
            raise error_at(cursor.sql, key_token, f"the option '{key}' is given twice", "keep one of them")
        given[key] = Given(value, key_token, value_token)
        if not cursor.accept_symbol(TokenType.COMMA):
            break
    cursor.expect_symbol(TokenType.R_PAREN, ")")
    return Options(cursor.sql, given)


def check_options(options: Options, known: Mapping[str, Option], what: str, family: str | None = None) -> Options:
    """The same options with values in canonical form; an error at the first that is unknown or malformed.

    What begins with `family` is not ours to know.
    """
    checked: dict[str, Given] = {}
    for name, given in options.given.items():
        if family is not None and name.startswith(family) and len(name) > len(family):
            known = {**known, name: Option()}
        if name not in known:
            help = suggest(name, _alike(name, known))
            raise error_at(options.sql, given.key_token, f"unknown option '{name}' of {what}", help)
        checked[name] = Given(_canonical(options, name, known[name]), given.key_token, given.value_token)
    return Options(options.sql, checked)


def _alike(name: str, known: Mapping[str, Option]) -> list[str]:
    """What may have been meant by `name`: options of a large family only if it looks like one of them."""
    family = next((family for family in _FAMILIES if name.startswith(family)), None)
    return [
        other
        for other in known
        if next((each for each in _FAMILIES if other.startswith(each)), None) == family or other == f"sla.{name}"
    ]


def check_connector(
    options: Options, common: Mapping[str, Option], connectors: Mapping[str, Connector], at: Token
) -> tuple[str, Options]:
    """The connector's name and the checked options of it and of `common`; `at` is where a missing one is reported."""
    name = (options.text("connector") or "embedded").lower()
    if name not in connectors:
        raise options.error("connector", f"unknown connector '{name}'", suggest(name, connectors))
    connector = connectors[name]
    known = {**common, **connector.options}
    checked = check_options(options, known, f"the connector '{name}'", connector.family)
    one_of = () if any(checked.text(each) for each in connector.one_of) else connector.one_of[:1]
    for required in (*connector.required, *one_of):
        if not checked.text(required):
            raise error_at(
                options.sql,
                at,
                f"the connector '{name}' needs the option '{required}'",
                f"add '{required}' = '...' to WITH (...)",
            )
    _check_exclusive(checked, connector)
    format = checked.text("format") or "json"
    for key in checked.given:
        only = connector.options[key].only_format if key in connector.options else None
        if only is not None and only != format:
            raise error_at(
                options.sql,
                checked.given[key].key_token,
                f"the option '{key}' is for format '{only}', not '{format}'",
                f"set 'format' = '{only}', or leave it out",
            )
    return name, checked


def _check_exclusive(options: Options, connector: Connector) -> None:
    for key, option in connector.options.items():
        other = option.instead_of
        if key in options.given and other in options.given:
            raise error_at(
                options.sql,
                options.given[key].key_token,
                f"the option '{key}' and the option '{other}' both say {option.both_say}",
                "keep one of them",
            )


def admission_of(options: Options) -> AdmissionSpec | None:
    """The limits that the options of a source set; None if there are none."""
    given = {name: options.given[name].value for name in ADMISSION_OPTIONS if name in options.given}
    try:
        spec = parse_admission(given)
    except OptionError as error:
        named = [name for name in given if name in error.message] or list(given)
        raise options.error(named[0], error.message, error.help) from None
    _check_shedding(options, spec)
    return spec if spec.is_on else None


def _check_shedding(options: Options, spec: AdmissionSpec) -> None:
    """What cannot be done is refused, and what would have no effect."""
    if spec.shed is None:
        if "sla.priority" in options.given:
            raise options.error(
                "sla.priority",
                "sla.priority says what is shed first, and nothing is shed",
                "add 'shed.policy' = 'strict'",
            )
        return
    if not spec.throttles:
        return
    connector = options.text("connector") or "embedded"
    if connector.lower() not in PACED:
        raise options.error(
            "shed.policy",
            f"the connector '{connector}' gives rows at its own pace, and cannot be throttled",
            "write 'shed.policy' = 'strict'",
        )
    for size in ("max_files_per_batch", "max_messages_per_batch"):
        if size in options.given:
            raise options.error(
                size,
                "a source that is throttled chooses itself how much a batch takes",
                f"leave {size} out, or write 'shed.policy' = 'strict'",
            )


PACED = ("embedded", "files", "kafka")  # connectors of which a batch can take as much as it wants


def own_options(options: Options, connector: Connector) -> dict[str, str]:
    """The options that the connector itself reads, sorted by name."""
    own = {
        key: given.value
        for key, given in options.given.items()
        if key in connector.options or (connector.family is not None and key.startswith(connector.family))
    }
    if "format" in connector.options:
        own.setdefault("format", "json")
    return dict(sorted(own.items()))


def _key(cursor: Cursor) -> tuple[str, Token]:
    token = cursor.next()
    key = token.text
    if token.token_type != TokenType.STRING:
        while cursor.accept_symbol(TokenType.DOT):
            key += "." + cursor.next().text
    lowered = key.lower()
    return ALIASES.get(lowered, lowered), token


def _value(cursor: Cursor) -> tuple[str, Token]:
    token = cursor.next()
    if token.token_type in (TokenType.STRING, TokenType.NUMBER) or word(token) in ("TRUE", "FALSE"):
        return token.text, token
    cursor.position -= 1
    raise cursor.expected("a value in quotes", "write 'key' = 'value'")


def refuse_secrets(options: Mapping[str, str], what: str) -> None:
    """An error if an option of a connector holds a password in clear: a checkpoint would keep it."""
    for name, value in options.items():
        if any(secret_places(f"{name}={value}")):
            raise OptionError(f"{what} has a password in its option '{name}', which a checkpoint would keep", help=HELP)


def _check_placeholders(options: Options, name: str, value: str) -> None:
    for number, part in enumerate(value.split("${")):
        kind, colon, rest = part.partition(":")
        if number and (kind not in ("env", "file") or not colon or rest.find("}") < 1):
            raise options.error(name, f"option '{name}': '${{{part}' is not finished", HELP)


def _canonical(options: Options, name: str, option: Option) -> str:
    value = options.given[name].value
    if option.kind in ("duration", "span", "rate"):
        try:
            parsed = parse_rate(value) if option.kind == "rate" else parse_duration(value)
        except OptionError as error:
            raise options.error(name, f"option '{name}': {error.message}", error.help) from None
        if option.kind == "span" and parsed == 0:
            raise options.error(name, f"option '{name}' is a duration above zero", f"write '{name}' = '2 seconds'")
    elif option.kind in ("position", "size"):
        try:
            parse_size(value) if option.kind == "size" else parse_position(value)
        except OptionError as error:
            raise options.error(name, f"option '{name}': {error.message}", error.help) from None
    elif option.kind == "count":
        digits = value.strip()
        if not digits.isdecimal() or not digits.strip("0"):
            raise options.error(
                name, f"option '{name}' is a whole number above 0, not '{value}'", f"write '{name}' = '100'"
            )
        if len(digits.lstrip("0")) > 12 or int(value) > option.most:
            raise options.error(
                name, f"option '{name}' is at most {option.most}, not {digits}", f"write '{name}' = '{option.most}'"
            )
        return str(int(value))
    elif option.kind == "keep":
        if value.lower() in KEEP_WORDS:
            return value.lower()
        try:
            kept = parse_duration(value)
        except OptionError:
            kept = 0
        if kept == 0:
            raise options.error(
                name, f"option '{name}' is all, none or a duration, not '{value}'", f"write '{name}' = '7 days'"
            )
    elif option.kind == "flag":
        if value.lower() not in ("true", "false"):
            raise options.error(name, f"option '{name}' is true or false, not '{value}'", f"write '{name}' = 'true'")
        return value.lower()
    elif option.kind == "choice":
        if value.lower() not in option.choices:
            raise options.error(name, f"option '{name}' cannot be '{value}'", suggest(value.lower(), option.choices))
        return value.lower()
    elif option.kind == "character" and not (len(value) == 1 and value.isascii() and value not in "\r\n"):
        raise options.error(name, f"option '{name}' is one ASCII character, not '{value}'", f"write '{name}' = '\"'")
    elif value == "":
        raise options.error(name, f"option '{name}' is empty", "give it a value, or leave it out")
    else:
        _check_placeholders(options, name, value)
    return value
