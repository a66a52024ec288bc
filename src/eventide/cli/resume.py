"""`eventide validate --against`: whether a changed file can continue from a checkpoint, before it is deployed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from eventide.cli.console import stdout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eventide.cli.files import Checked
    from eventide.plan.logical import Stream
    from eventide.plan.verdicts import Difference
    from eventide.sql.catalog import Catalog
    from eventide.sql.statements import CreateSink, CreateSource, CreateStream
    from eventide.storage.layout import Layout


@dataclass(frozen=True)
class Finding:
    """What happens to one object; `stops` if it keeps the file from continuing from the checkpoint."""

    text: str
    stops: bool = False


def print_resume(program: Checked, checkpoint: str | Path) -> bool:
    """Print what happens to every object; returns whether the file can continue from the checkpoint."""
    console, found = stdout(), findings(program, checkpoint)
    for finding in found:
        console.print(Text(finding.text, style="red" if finding.stops else ""), soft_wrap=True)
    can = not any(finding.stops for finding in found)
    verdict = "can continue from this checkpoint"
    if not can:
        verdict = "cannot continue from this checkpoint; eventide migrate begins anew what cannot"
    console.print(Text(verdict, style="green" if can else "bold red"))
    return can


def findings(program: Checked, checkpoint: str | Path) -> list[Finding]:
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
    replaced = {made.name.lower() for made in created if made.or_replace and not _keeps_state(made)}
    return [*_sinks(kept, new), *_streams(layout, kept, new, replaced), *_missing(kept, new)]


def _keeps_state(made: CreateSource | CreateStream | CreateSink) -> bool:
    from eventide.sql.statements import CreateSink

    return not isinstance(made, CreateSink) and made.keep_state


def _sinks(kept: Catalog, new: Catalog) -> list[Finding]:
    return [
        Finding(f"the sink {name}: goes on; from the next batch on as the file says")
        for name, sink in new.sinks.items()
        if name in kept.sinks and kept.sinks[name] != sink
    ]


def _streams(layout: Layout, kept: Catalog, new: Catalog, replaced: set[str]) -> list[Finding]:
    from eventide.changing import changes_between, fused_in
    from eventide.plan.difference import difference
    from eventide.storage.atomic import read_json

    changes = {change.stream: change.differences for change in changes_between(kept, new, fused_in(layout, kept))}
    found = []
    for name, stream in new.streams.items():
        settings = read_json(layout.plan(name)) if name in kept.streams else None
        if settings is None:
            found.append(Finding(f"{name}: new, starts without state"))
            continue
        ran, known = ("\n".join(texts) for texts in _texts(layout, kept.parts(name)))
        if name.lower() in replaced:
            found.append(Finding(f"{name}: CREATE OR REPLACE without KEEP STATE discards its state", stops=True))
        elif ran != known:
            found.append(Finding(f"{name}: another release read its text as\n{difference(ran, known)}", stops=True))
        elif stream.options.shards not in (None, settings["shards"]):
            said = f"'shards' = '{stream.options.shards}', but the checkpoint has {settings['shards']}, which are fixed"
            found.append(Finding(f"{name}: {said}", stops=True))
        else:
            found += _differences(name, changes.get(name, ()))
    return found


def _differences(name: str, found: Sequence[Difference]) -> list[Finding]:
    """What becomes of a stream, difference by difference."""
    from eventide.plan.verdicts import Verdict

    if not found:
        return [Finding(f"{name}: continues")]
    return [Finding(f"{name}: {difference}", difference.verdict is Verdict.CANNOT) for difference in found]


def _texts(layout: Layout, parts: list[Stream]) -> tuple[list[str], list[str]]:
    """What the parts of a stream meant when they last ran, and what they mean to this release."""
    from eventide.plan.difference import canonical

    return [_kept_text(layout, part) for part in parts], [canonical(part) for part in parts]


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
