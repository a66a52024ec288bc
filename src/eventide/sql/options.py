"""WITH options: which exist, for what, and how their values read. The tables are the documentation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from eventide.admission.options import (
    ADMISSION_OPTIONS,
    AdmissionSpec,
    parse_admission,
)
from eventide.connectors.declaration import FORMAT, Family, LooksUp, Option, Reads, Writes
from eventide.connectors.registry import SOURCES
from eventide.errors import OptionError, SqlError, suggest
from eventide.eventtime.durations import parse_duration
from eventide.plan.positions import parse_position
from eventide.plan.side_output import KINDS, parse_rate
from eventide.plan.sizes import parse_size
from eventide.plan.trigger import parse_trigger
from eventide.secrets import HELP, PLACEHOLDER, secret_places
from eventide.sql.cursor import Cursor
from eventide.sql.tokens import error_at, word

MOST_SHARDS = 4096
KEEP_WORDS = {"all": None, "none": 0}
_PARSERS: Mapping[str, Callable[[str], object]] = {
    "position": parse_position,
    "size": parse_size,
    "trigger": parse_trigger,
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

TABLE_OPTIONS: Mapping[str, Option] = {"connector": Option(), "refresh": Option("span")}

SINK_OPTIONS: Mapping[str, Option] = {"connector": Option()}

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
    "trigger": Option("trigger"),
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


def check_options(options: Options, known: Mapping[str, Option], what: str, family: Family | None = None) -> Options:
    """The same options with values in canonical form; an error at the first that is unknown or malformed.

    The options of `family` are not ours to know.
    """
    checked: dict[str, Given] = {}
    for name, given in options.given.items():
        if family is not None and family.has(name):
            known = {**known, name: family.option(name)}
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


_Role = TypeVar("_Role", Reads, Writes, LooksUp)


def check_connector(
    options: Options, common: Mapping[str, Option], connectors: Mapping[str, _Role], at: Token
) -> tuple[str, Options]:
    """The connector's name and the checked options of it and of `common`; `at` is where a missing one is reported."""
    name = (options.text("connector") or "embedded").lower()
    if name not in connectors:
        raise options.error("connector", f"unknown connector '{name}'", suggest(name, connectors))
    connector = connectors[name]
    checked = check_options(options, {**common, **connector.options}, f"the connector '{name}'", connector.family)
    _check_required(checked, connector, name, at)
    _check_exclusive(checked, connector)
    _check_format(checked, connector)
    _check_together(checked, connector, name)
    return name, checked


def _check_required(options: Options, connector: Reads | Writes | LooksUp, name: str, at: Token) -> None:
    one_of = () if any(options.text(each) for each in connector.one_of) else connector.one_of[:1]
    for required in (*(each for each, option in connector.options.items() if option.is_required), *one_of):
        if not options.text(required):
            raise error_at(
                options.sql,
                at,
                f"the connector '{name}' needs the option '{required}'",
                f"add '{required}' = '...' to WITH (...)",
            )


def _check_format(options: Options, connector: Reads | Writes | LooksUp) -> None:
    format = options.text(FORMAT) or connector.format
    for key, given in options.given.items():
        only = connector.options[key].only_format if key in connector.options else None
        if only is not None and only != format:
            raise error_at(
                options.sql,
                given.key_token,
                f"the option '{key}' is for format '{only}', not '{format}'",
                f"set 'format' = '{only}', or leave it out",
            )


def _check_together(options: Options, connector: Reads | Writes | LooksUp, name: str) -> None:
    own = own_options(options, connector)
    try:
        connector.check(f"the connector '{name}'", own)
    except OptionError as error:
        named = [each for each in own if f"'{each}'" in error.message and each in options.given]
        if not named:
            raise
        raise error_at(options.sql, options.given[named[0]].key_token, error.message, error.help) from None


def _check_exclusive(options: Options, connector: Reads | Writes | LooksUp) -> None:
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
    if not SOURCES[connector.lower()].is_paced:
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


def own_options(options: Options, connector: Reads | Writes | LooksUp) -> dict[str, str]:
    """The options that the connector itself reads, sorted by name."""
    own = {key: given.value for key, given in options.given.items() if connector.option(key) is not None}
    if connector.format is not None:
        own.setdefault(FORMAT, connector.format)
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


def refuse_secrets(options: Mapping[str, str], connector: Reads | Writes | LooksUp, what: str) -> None:
    """An error if an option of a connector holds a password in clear: a checkpoint would keep it."""
    for name, value in options.items():
        declared = connector.option(name)
        is_clear = declared is not None and declared.is_secret and PLACEHOLDER.fullmatch(value) is None
        if is_clear or any(secret_places(f"{name}={value}")):
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
    elif option.kind in _PARSERS:
        try:
            _PARSERS[option.kind](value)
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
