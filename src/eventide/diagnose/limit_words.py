"""Why rows were not admitted, in words."""

from __future__ import annotations

from collections.abc import Mapping

from eventide.admission.options import AdmissionSpec
from eventide.admission.sla import StreamSlaConfig
from eventide.eventtime.durations import format_duration


def limit_lines(limits: Mapping[str, AdmissionSpec | None], admission: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What limits and load have cost the sources of a stream, by name."""
    return [
        line
        for name, figures in admission.items()
        if (spec := limits.get(name)) is not None
        for line in (*_rejected(name, spec.sla, figures), *_shed(name, spec, int(figures.get("shed", 0))))
    ]


def _rejected(source: str, limits: StreamSlaConfig, figures: Mapping[str, float]) -> list[str]:
    counts = {reason: int(figures.get(f"rejected_{reason}", 0)) for reason in ("lag", "jitter", "rate")}
    return [
        f"{_rows(count)} rejected: {_limit(reason, source, limits, figures.get('tokens_left', 0))}."
        for reason, count in counts.items()
        if count
    ]


def _shed(source: str, spec: AdmissionSpec, count: int) -> list[str]:
    if not count or spec.shed is None:
        return []
    target = format_duration(spec.shed.target_latency)
    return [
        f"{_rows(count)} shed: more came of source {source} than batches of {target} can take (shed.target_latency)."
    ]


def _rows(count: int) -> str:
    return f"{count:,} {'row is' if count == 1 else 'rows are'}"


def _limit(reason: str, source: str, limits: StreamSlaConfig, tokens: float) -> str:
    """What was asked of a row that was rejected for `reason`."""
    if reason == "lag":
        lag = format_duration(limits.max_lag or 0)
        return f"a row of source {source} may come at most {lag} after its time (sla.max_lag)"
    if reason == "jitter":
        budget = format_duration(limits.jitter_budget or 0)
        return f"source {source} was silent for more than {budget} (sla.jitter_budget)"
    if limits.bucket is None:
        return f"source {source} had a rate then, and has none now"
    bucket = limits.bucket
    cost, burst, rate = (float(each) for each in (bucket.token_cost, bucket.burst, bucket.tokens_per_sec))
    return (
        f"source {source} has used its {burst:g} tokens; {rate:g} come back per second. A row costs {cost:g}, and "
        f"{tokens:g} were left after the last batch (sla.max_events_per_sec)"
    )
