"""SQL and app files: reading them, and checking and explaining them without Spark."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eventide.errors import CatalogError, OptionError, suggest

if TYPE_CHECKING:
    from eventide.app.model import Settings
    from eventide.plan.physical import Physical
    from eventide.sql.catalog import Catalog


def read_text(file: Path) -> str:
    """The text of a file; `-` is standard input."""
    if str(file) == "-":
        return sys.stdin.read()
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise OptionError(f"no such file: {file}") from None
    except IsADirectoryError:
        raise OptionError(f"{file} is a folder, not a SQL or app file") from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{file} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}") from None
    except OSError as error:
        raise OptionError(f"cannot read {file}: {error.strerror}") from None
    if not text.strip():
        raise OptionError(f"{file} is empty")
    return text


@dataclass(frozen=True)
class Checked:
    """A SQL text that parses, whose names resolve, and whose streams have a plan."""

    sql: str
    catalog: Catalog
    plans: dict[str, Physical]
    settings: Settings | None = None  # only for an app file

    def summary(self) -> str:
        counts = (("source", self.catalog.sources), ("stream", self.catalog.streams), ("sink", self.catalog.sinks))
        return ", ".join(f"{len(names)} {kind}{'' if len(names) == 1 else 's'}" for kind, names in counts)

    def explain(self, stream: str | None) -> str:
        from eventide.plan.explain import Known, explain

        if stream is None:
            return "\n\n".join(self.explain(name) for name in self.catalog.streams)
        if stream not in self.plans:
            raise CatalogError(f"no stream {stream}", help=suggest(stream, self.catalog.streams))
        return explain(self.plans[stream], known=Known(self.plans.get))


def read_program(file: Path, allow_jvm_calls: bool = False, checkpoint: str | Path | None = None) -> Checked:
    """A SQL file, or an app file if its name ends with .toml, checked as far as possible without Spark.

    With a `checkpoint` the file may drop what is there.
    """
    text = read_text(file)
    if file.suffix.lower() == ".toml":
        return check_app(text, allow_jvm_calls)
    return check(text, allow_jvm_calls, checkpoint)


def check_functions(program: Checked, others: Collection[str] = ()) -> None:
    """Raise for the first function that neither Spark nor `others` have."""
    from eventide.sql.functions import check_known
    from eventide.sql.parser import parse_statements
    from eventide.sql.statements import CreateSink, CreateSource, CreateStream

    for statement in parse_statements(program.sql):
        if isinstance(statement, CreateSource | CreateStream | CreateSink):
            check_known(statement, others)


def check_app(toml: str, allow_jvm_calls: bool = False) -> Checked:
    """Raises every error in an app file that can be found without Spark."""
    from eventide.app.reader import load_app
    from eventide.plan.planner import plan

    app = load_app(toml, allow_jvm_calls)
    return Checked(
        app.sql, app.catalog, {name: plan(stream) for name, stream in app.catalog.graph().items()}, app.settings
    )


def check(sql: str, allow_jvm_calls: bool = False, checkpoint: str | Path | None = None) -> Checked:
    """Raises every error in a SQL text that can be found without Spark."""
    from eventide.cli.checkpoint import catalog_of
    from eventide.plan.planner import plan
    from eventide.sql.catalog import Catalog
    from eventide.sql.parser import parse_statements
    from eventide.sql.statements import Drop
    from eventide.storage.layout import Layout
    from eventide.storage.opening import checkpoint_path

    catalog = Catalog(allow_jvm_calls)
    layout = None if checkpoint is None else Layout(checkpoint_path(checkpoint))
    kept = catalog_of(layout) if layout is not None and layout.catalog.exists() else Catalog()
    for statement in parse_statements(sql):
        if isinstance(statement, Drop) and kept.has(statement) and not catalog.has(statement):
            kept = kept.without(statement.name)
        else:
            catalog.apply(statement)
    return Checked(sql, catalog, {name: plan(stream) for name, stream in catalog.graph().items()})
