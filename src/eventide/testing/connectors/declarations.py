"""Bad options: what a declaration must refuse, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eventide.connectors.declaration import FORMAT, Connector, LooksUp, Option, Reads, Writes
from eventide.errors import EventideError, OptionError, SqlError
from eventide.plan.difference import canonical
from eventide.secrets import PLACEHOLDER
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.testing.connectors.statements import create_sql, expect

_MALFORMED = {
    "count": ("none", "0", "-1"),
    "flag": ("maybe",),
    "choice": ("neither of them",),
    "duration": ("soon",),
    "span": ("soon", "0 seconds"),
    "position": ("somewhere",),
    "size": ("0 MB", "large"),
    "character": ("ab",),
    "rate": ("often",),
    "text": ("", "${env:NAME"),
}
_SECRET = "correct-horse-battery"


def check_declaration(
    connector: Connector, role: str, options: Mapping[str, str], columns: str = "id BIGINT, name STRING"
) -> None:
    """`options` are ones with which a source, a sink or a table of the connector can be made; `role` says which."""
    declared: Reads | Writes | LooksUp | None = connector.role(role)
    if declared is None:
        raise AssertionError(f"{connector.name} is no {role}")
    trial = _Trial(connector, role, columns)
    trial.accepts(options)
    for name, option in {**declared.options, **_handed_on(declared, options)}.items():
        _check_words(name, option, is_ours=name in declared.options)
        for value in _MALFORMED[option.kind]:
            given = _with_format(options, option) | {name: value}
            trial.refuses(_without(given, option.instead_of), name, f"the value {value!r} of '{name}' is refused")
        if option.is_required:
            trial.refuses(_without(options, name), name, f"that '{name}' is missing is told")
        if option.is_secret:
            trial.refuses({**options, name: _SECRET}, name, f"'{name}' in clear is refused")
        if option.identifies and role != "sink" and name in options and PLACEHOLDER.search(options[name]) is None:
            expect(
                trial.meaning(options) != trial.meaning({**options, name: f"{options[name]}_other"}),
                f"another '{name}' under the same checkpoint is noticed",
            )
    for name in declared.options:
        if len(name) > 3:
            told = trial.refuses({**options, f"{name[:-1]}": "1"}, name[:-1], f"the misspelt '{name[:-1]}' is refused")
            expect("did you mean" in told, f"for '{name[:-1]}' a better name is suggested: {told}")


class _Trial:
    def __init__(self, connector: Connector, role: str, columns: str) -> None:
        self._connector, self._role, self._columns = connector, role, columns

    def accepts(self, options: Mapping[str, str]) -> None:
        try:
            self._catalog(options)
        except EventideError as error:
            raise AssertionError(f"these options should be accepted: {error}") from error

    def refuses(self, options: Mapping[str, str], name: str, promise: str) -> str:
        """What is told, its help included."""
        try:
            self._catalog(options)
        except (SqlError, OptionError) as error:
            told = f"{error}\n{error.help}"
            expect(name in error.message, f"{promise}, and the error names it: {error.message}")
            expect(_SECRET not in told, f"{promise}, and does not show it")
            return told
        raise AssertionError(promise)

    def meaning(self, options: Mapping[str, str]) -> str:
        catalog = self._catalog(options)
        query = "SELECT * FROM x" if self._role == "source" else "SELECT e.v FROM e JOIN x ON e.v = x.id"
        for statement in parse_statements(f"CREATE SOURCE e (v BIGINT); CREATE STREAM y AS {query}"):
            catalog.apply(statement)
        return canonical(catalog.stream("y"))

    def _catalog(self, options: Mapping[str, str]) -> Catalog:
        catalog = Catalog()
        streams = "CREATE SOURCE s (id BIGINT); CREATE STREAM o AS SELECT id FROM s; " if self._role == "sink" else ""
        made = create_sql(self._connector, self._role, "x", self._columns, options)
        for statement in parse_statements(f"{streams}{made}"):
            catalog.apply(statement)
        return catalog


def _handed_on(declared: Reads | Writes | LooksUp, options: Mapping[str, str]) -> dict[str, Option]:
    """Options of the connector's family, of which nothing is known but whether they are secret."""
    found = ((name, declared.option(name)) for name in options if name not in declared.options)
    return {name: option for name, option in found if option is not None}


def _check_words(name: str, option: Option, is_ours: bool) -> None:
    expect(name == name.lower(), f"the option '{name}' has a name in lower case")
    expect(not is_ours or bool(option.doc), f"the option '{name}' is documented")
    expect(option.default is None or not option.is_required, f"'{name}' is required or has a default, not both")


def _with_format(options: Mapping[str, str], option: Option) -> dict[str, str]:
    return {**options, FORMAT: option.only_format} if option.only_format is not None else dict(options)


def _without(options: Mapping[str, str], name: str | None) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != name}


def all_roles(connector: Connector) -> Iterator[str]:
    """The roles that a connector has."""
    return (role for role in ("source", "sink", "table") if connector.role(role) is not None)
