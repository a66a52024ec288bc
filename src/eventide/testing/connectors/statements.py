"""CREATE statements for what is tried out, and how a broken promise is told."""

from __future__ import annotations

from collections.abc import Mapping

from eventide.connectors.declaration import Connector


def create_sql(connector: Connector, role: str, name: str, columns: str, options: Mapping[str, str]) -> str:
    given = {"connector": connector.name, **options}
    listed = ", ".join(f"'{key}' = '{value.replace(chr(39), chr(39) * 2)}'" for key, value in given.items())
    between = " FROM o" if role == "sink" else f" ({columns})" if columns else ""
    return f"CREATE {role.upper()} {name}{between} WITH ({listed})"


def expect(holds: bool, promise: str) -> None:
    if not holds:
        raise AssertionError(promise)
