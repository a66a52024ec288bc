"""What strains a stream, in words: side sinks that fail, batches that take long, shards that others wait for or that
hold most of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eventide.eventtime.durations import SECOND, format_duration
from eventide.storage.results import Account

_LONG = 10 * SECOND  # a batch that takes longer is worth a word
_MUCH = 1_000_000  # bytes of state below which its spread does not matter
_ADVICE = {
    "plan": "Spark plans long: a folder with very many files, or very many streams on one driver, does that.",
    "compute": "More cores or shards help if the shards are even; files that cannot be split are slow.",
    "sinks": "The slowest sink decides: batches wait for it.",
    "store": "The disk of the checkpoint is slow, or the results are large.",
}


def pressure_lines(account: Account | None, figures: Mapping[str, Any]) -> list[str]:
    """What there is to say; nothing for a stream that is well. `figures` are those of its side output."""
    if account is None:
        return _sinks(figures)
    return [*_sinks(figures), *_slow(account), *_straggler(account), *_skew(account)]


def _sinks(figures: Mapping[str, Any]) -> list[str]:
    failing, waiting = figures.get("side_sinks_failing", 0), figures.get("side_waiting", 0)
    if not failing:
        return []
    who = "A side sink does" if failing == 1 else f"{failing} side sinks do"
    return [f"{who} not take payloads: {waiting:,} wait in the checkpoint and are sent when it takes them again."]


def _slow(account: Account) -> list[str]:
    took = sum(account.took.values())
    if took < _LONG:
        return []
    phase, most = max(account.took.items(), key=lambda pair: pair[1])
    whole, part = (format_duration(each // 100_000 * 100_000) for each in (took, most))
    return [f"The last batch took {whole}, {part} of it to {_doing(phase)}. {_ADVICE.get(phase, '')}".rstrip()]


def _straggler(account: Account) -> list[str]:
    late = account.straggler
    if not late:
        return []
    spent, usual = (format_duration(late[name] // 10_000 * 10_000) for name in ("spent", "usual"))
    keys = account.busiest.get(str(late["shard"]))
    why = "it may have a slow machine, or few keys have most of the rows" if keys is None else _keys(keys)
    return [f"Shard {late['shard']} took {spent} of the last batch, and the others about {usual}: {why}."]


def _doing(phase: str) -> str:
    return {"sinks": "write to sinks", "store": "store results"}.get(phase, phase)


def _skew(account: Account) -> list[str]:
    """Which shard holds most of the state, if one holds far more than its part."""
    held = {
        gauge.partition("#")[2]: value for gauge, value in account.gauges.items() if gauge.startswith("state_bytes#")
    }
    total = sum(held.values())
    if len(held) < 2 or total < _MUCH:
        return []
    shard, most = max(held.items(), key=lambda pair: pair[1])
    if most / total < max(0.5, 2 / len(held)):
        return []
    return [
        f"Shard {shard} holds {most / total:.0%} of the state ({most:,} of {total:,} bytes in {len(held)} shards): "
        f"{_keys(account.busiest.get(shard))}, and one task does most of the work. Grouping by one more column spreads "
        "them."
    ]


def _keys(busiest: Mapping[str, Any] | None) -> str:
    if busiest is None:
        return "few keys have most of the rows"
    return f"key {', '.join(busiest['key'])} has {busiest['share']:.0%} of its rows"
