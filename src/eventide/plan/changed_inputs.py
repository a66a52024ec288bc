"""What two plans differ in on the way from the sources to the operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eventide.connectors.registry import reads
from eventide.eventtime.durations import format_duration
from eventide.plan.difference import explode_text, lookup_text
from eventide.plan.identity import resolved, time_identities
from eventide.plan.logical import Dedup, Explode, Filter, Lookup, Source
from eventide.plan.names import without_owner
from eventide.plan.physical import EventTimeWatermark, Input, Physical
from eventide.plan.verdicts import Difference, cannot, changed, goes_on

_READ = ("stream", "plan")  # of a source that is a stream: it has differences of its own


def changed_inputs(old: Physical, new: Physical, fused: Sequence[bool] | None) -> Iterator[Difference]:
    """`fused` says of each input of the old plan whether tasks read its files; None: as the plan has it."""
    read, reads = (tuple(without_owner(each.source.name) for each in plan.inputs) for plan in (old, new))
    if read != reads or tuple(each.side for each in old.inputs) != tuple(each.side for each in new.inputs):
        why = "Spark's log knows how far each source was read by its place in the query"
        yield cannot(changed("sources", ", ".join(read), ", ".join(reads)), why)
        return
    if time_identities(old) != time_identities(new):
        times = (", ".join(filter(None, time_identities(plan))) or None for plan in (old, new))
        yield cannot(changed("event time", *times), "rows that are kept were put into windows by the old one")
    seen: set[str] = set()
    was_fused = [each.fusion is not None for each in old.inputs] if fused is None else list(fused)
    for before, after, was in zip(old.inputs, new.inputs, was_fused, strict=True):
        name = without_owner(after.source.name)
        if name not in seen:
            yield from _source(before.source, after.source)
        seen.add(name)
        yield from _input(before, after, was)


def _source(old: Source, new: Source) -> Iterator[Difference]:
    name = without_owner(new.name)
    if old.connector != new.connector:
        yield cannot(changed(f"{name}: connector", old.connector, new.connector), "it counts what was read otherwise")
        return
    for option in sorted({*old.options, *new.options}):
        before, after = old.options.get(option), new.options.get(option)
        if before != after and option not in _READ:
            yield _option(name, option, before, after, option in reads(new.connector).identifying)
    yield from _columns(name, old, new)
    yield from _time(name, old, new)
    if old.dedup != new.dedup:
        what = changed(f"{name}: deduplicate", _dedup(old.dedup), _dedup(new.dedup))
        yield cannot(what, "ids are remembered as the old rule wants them")
    for field in ("idle_timeout", "max_future_skew"):
        before, after = getattr(old, field), getattr(new, field)
        if before != after:
            yield goes_on(
                changed(f"{name}: {field}", *(None if t is None else format_duration(t) for t in (before, after)))
            )
    if old.admission != new.admission:
        yield goes_on(f"{name}: limits of the source")


def _option(name: str, option: str, old: str | None, new: str | None, identifies: bool) -> Difference:
    what = changed(f"{name}: {option}", old, new)
    if identifies:
        return cannot(what, "what was read there is logged, and the new place would be read as if it went on")
    if option == "target_latency" and None in (old, new):
        return cannot(what, "with it, what has been read is logged in another place")
    return goes_on(what)


def _columns(name: str, old: Source, new: Source) -> Iterator[Difference]:
    before, after = ({column.name: column.type for column in source.columns} for source in (old, new))
    for column, type in after.items():
        if column not in before:
            yield goes_on(f"+ {name}: column {column} {type}".rstrip(), "rows that came before have NULL there")
        elif before[column] != type and before[column] and type:
            what = changed(f"{name}: column {column}", before[column], type)
            yield cannot(what, "what is kept of the rows so far has the old type; add a column beside it")
    for column, type in before.items():
        if column not in after:
            yield goes_on(f"- {name}: column {column} {type}".rstrip(), "from the next batch on it is not read")


def _time(name: str, old: Source, new: Source) -> Iterator[Difference]:
    before, after = ((source.messages or (source.event_time,)) for source in (old, new))
    if before != after:
        texts = (
            ", ".join(f"{time.column} as {time.type}" for time in times if time) or None for times in (before, after)
        )
        why = "rows that are kept were put into windows by the old one"
        yield cannot(changed(f"{name}: event time", *texts), why)
    if old.watermark_sql != new.watermark_sql:
        why = "from the next batch on; the watermark never goes back"
        yield goes_on(changed(f"{name}: watermark", old.watermark_sql, new.watermark_sql), why)


def _input(old: Input, new: Input, was_fused: bool) -> Iterator[Difference]:
    name = without_owner(new.source.name)
    if isinstance(old.watermark, EventTimeWatermark) and isinstance(new.watermark, EventTimeWatermark):
        lags = (old.watermark.lag, new.watermark.lag)
        if lags[0] != lags[1]:
            why = "from the next batch on; the watermark never goes back"
            yield goes_on(changed(f"{name}: watermark lag", *map(format_duration, lags)), why)
    if was_fused and new.fusion is None and new.source.connector == "files":
        reason = f"which files were read is in the log of the fused scan, and now {new.not_fused}"
        yield cannot(f"{name}: files are read by Spark", reason)
    filters = [
        [resolved(each, step.condition) for step in each.steps if isinstance(step, Filter)] for each in (old, new)
    ]
    if filters[0] != filters[1]:
        texts = (" AND ".join(found) or None for found in filters)
        why = "from the next batch on; rows that have come already were filtered as before"
        yield goes_on(changed(f"{name}: filter", *texts), why)
    if (old.changes is None) != (new.changes is None):
        kinds = ("rows that stay" if each.changes is None else "a change log" for each in (old, new))
        yield cannot(changed(f"{name} gives", *kinds), "state from which rows can be taken back is another one")
    looked_up = [[lookup_text(step) for step in each.steps if isinstance(step, Lookup)] for each in (old, new)]
    if looked_up[0] != looked_up[1]:
        texts = (", ".join(found) or None for found in looked_up)
        yield goes_on(changed(f"{name}: lookup", *texts))
    exploded = [[explode_text(step) for step in each.steps if isinstance(step, Explode)] for each in (old, new)]
    if exploded[0] != exploded[1]:
        texts = (", ".join(found) or None for found in exploded)
        yield goes_on(changed(f"{name}: explode", *texts))


def _dedup(dedup: Dedup | None) -> str | None:
    return None if dedup is None else f"by {', '.join(dedup.columns)} within {format_duration(dedup.within)}"
