"""`eventide validate --against`: whether a changed file can continue from a checkpoint, before it is deployed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from eventide.cli.console import stdout

if TYPE_CHECKING:
    from eventide.cli.files import Checked
    from eventide.plan.logical import Stream
    from eventide.sql.catalog import Catalog
    from eventide.storage.layout import Layout


@dataclass(frozen=True)
class Finding:
    """What happens to one object; `stops` if it keeps the file from continuing from the checkpoint."""

    text: str
    stops: bool = False


def print_resume(program: Checked, checkpoint: Path) -> bool:
    """Print what happens to every object; returns whether the file can continue from the checkpoint."""
    console, found = stdout(), findings(program, checkpoint)
    for finding in found:
        console.print(Text(finding.text, style="red" if finding.stops else ""), soft_wrap=True)
    can = not any(finding.stops for finding in found)
    verdict = "can continue from this checkpoint" if can else "cannot continue from this checkpoint"
    console.print(Text(verdict, style="green" if can else "bold red"))
    return can


def findings(program: Checked, checkpoint: Path) -> list[Finding]:
    from eventide.cli.checkpoint import catalog_of, layout_of
    from eventide.sql.parser import parse_statements
    from eventide.sql.statements import CreateSink, CreateSource, CreateStream, Drop

    layout = layout_of(checkpoint)
    kept, new = catalog_of(layout), program.catalog
    statements = parse_statements(program.sql)
    created = [made for made in statements if isinstance(made, CreateSource | CreateStream | CreateSink)]
    for statement in statements:
        if isinstance(statement, Drop) and kept.has(statement):
            kept = kept.without(statement.name)
    replaced = {made.name.lower() for made in created if made.or_replace}
    return [*_sources_and_sinks(kept, new, replaced), *_streams(layout, kept, new, replaced), *_missing(kept, new)]


def _sources_and_sinks(kept: Catalog, new: Catalog, replaced: set[str]) -> list[Finding]:
    found = []
    pairs = (("source", kept.sources, new.sources), ("sink", kept.sinks, new.sinks))
    for kind, old, given in pairs:
        for name, definition in given.items():
            if name in old and old[name] != definition and name.lower() not in replaced:
                price = ", which discards rows that were written to it" if kind == "source" else ""
                how = f"write CREATE OR REPLACE {kind.upper()} {name}{price}"
                found.append(
                    Finding(f"the {kind} {name} is in the checkpoint with another definition; {how}", stops=True)
                )
    return found


def _streams(layout: Layout, kept: Catalog, new: Catalog, replaced: set[str]) -> list[Finding]:
    from eventide.plan.difference import canonical, difference
    from eventide.storage.atomic import read_json

    found = []
    for name, stream in new.streams.items():
        settings = read_json(layout.plan(name)) if name in kept.streams else None
        if settings is None:
            found.append(Finding(f"{name}: new, starts without state"))
            continue
        old = "\n".join(_kept_text(layout, part) for part in kept.parts(name))
        given = "\n".join(map(canonical, new.parts(name)))
        if name.lower() in replaced:
            found.append(Finding(f"{name}: CREATE OR REPLACE discards its state and its results", stops=True))
        elif old != given:
            found.append(Finding(f"{name}: another query\n{difference(old, given)}", stops=True))
        elif stream.options.shards not in (None, settings["shards"]):
            said = f"'shards' = '{stream.options.shards}', but the checkpoint has {settings['shards']}, which are fixed"
            found.append(Finding(f"{name}: {said}", stops=True))
        else:
            found.append(Finding(f"{name}: continues"))
    return found


def _kept_text(layout: Layout, stream: Stream) -> str:
    """What a stream meant when it first ran. For one that reads streams this has types, which only Spark knows."""
    from eventide.plan.difference import canonical
    from eventide.plan.reads import sources_of
    from eventide.plan.stream_source import is_stream
    from eventide.storage.atomic import read_json

    settings = read_json(layout.plan(stream.name))
    if settings is None or any(is_stream(source) for source in sources_of(stream.query)):
        return canonical(stream)
    text: str = settings["plan"]
    return text


def _missing(kept: Catalog, new: Catalog) -> list[Finding]:
    """A stream that the file no longer has is still in the checkpoint, and keeps running."""
    gone = [name for name in kept.streams if name not in new.streams]
    return [
        Finding(f"{name}: not in the file, but in the checkpoint; it keeps running until DROP STREAM {name}")
        for name in gone
    ]
