"""`%%eventide`: a cell of SQL. `%load_ext eventide` makes it known.

%%eventide [NAME]      statements; NAME is the variable that holds the database, `db` unless told otherwise
%eventide SHOW STREAMS one statement, on `db`
"""

from __future__ import annotations

from typing import Any

from eventide.errors import EventideError, OptionError
from eventide.result import Result

_DEFAULT = "db"


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext eventide` calls."""

    def eventide(line: str, cell: str | None = None) -> Result | None:
        if cell is None:
            return _run(shell, _DEFAULT, line)
        return _run(shell, line.strip() or _DEFAULT, cell)

    shell.register_magic_function(eventide, "line_cell", "eventide")


def _run(shell: Any, name: str, sql: str) -> Result | None:
    """The last statement's result. The first cell makes a database if there is none. Errors come without a trace."""
    try:
        return _executed(shell, name, sql)
    except EventideError as error:
        print(f"{type(error).__name__}: {error.render()}")
        return None


def _executed(shell: Any, name: str, sql: str) -> Result | None:
    from eventide.database import Database, connect

    if not name.isidentifier():
        raise OptionError(f"%%eventide takes the name of a variable, not {name!r}", help="%%eventide db")
    db = shell.user_ns.get(name)
    if db is None:
        db = shell.user_ns[name] = connect()
    if not isinstance(db, Database):
        raise OptionError(f"{name} is a {type(db).__name__}, not a database", help=f"{name} = eventide.connect()")
    result = db.execute(sql)
    return result if len(result) else None
