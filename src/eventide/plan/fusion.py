"""Which stages of a stream run as one, without Spark between them, and why a run of them ends where it does.

    scan → filter → project → pack → fold     in the task that reads
    decode → filter → project → pack → fold   in the task that Spark hands lines to
    pack → fold                               in the task that Spark hands rows to
    operator → having → select list           in the task of a shard

Between them is the shuffle. Rows that need no operator do not cross it: of them the first three go on, instead of
folding, with forward → select list. It changes no outcome what is fused.
"""

from __future__ import annotations

from dataclasses import dataclass

from eventide.plan.logical import Filter, Lookup, Project, StreamOptions
from eventide.plan.physical import ForwardRows, Input, JoinRows, Physical

FOLD = "fold"


@dataclass(frozen=True)
class Fused:
    """What is known when Spark has told the types: what is done of each input's rows before the shuffle once they are
    packed, why the select list is left to Spark (None if it is not), and which inputs share a scan.
    """

    further: tuple[tuple[str, ...], ...]
    outputs_by_spark: str | None = None
    together: tuple[tuple[int, ...], ...] = ()

    def shares_scan(self, input: int) -> bool:
        return any(input in numbers for numbers in self.together)


def depth_of(enabled: bool | None, most: int | None) -> int | None:
    """The stages that may run as one; None: any number."""
    return 1 if enabled is False else most


def too_deep(options: StreamOptions, stages: tuple[str, ...]) -> str | None:
    """Why so many stages may not be fused; None if they may."""
    most = options.fusion_depth
    if most is None or len(stages) <= most:
        return None
    if most == 1:
        return "fusion is off"
    return f"{', '.join(stages[:-1])} and {stages[-1]} are {len(stages)} stages, and fusion.max_depth is {most}"


def scan_stages(input: Input, first: str = "scan") -> tuple[str, ...]:
    """What the task that reads does, all of it or nothing."""
    steps = [
        name
        for name, kind in (("filter", Filter), ("look up", Lookup), ("project", Project))
        if any(isinstance(s, kind) for s in input.steps)
    ]
    return (first, *steps, "pack")


def pack_stages(input: Input) -> tuple[str, ...]:
    """What is done before the shuffle without Spark in between."""
    if input.fusion is not None:
        return scan_stages(input)
    return ("pack",) if input.decoding is None else scan_stages(input, "decode")


def output_stages(physical: Physical) -> tuple[str, ...]:
    """What the task of a shard does with what the operator gives."""
    match physical.operator:
        case ForwardRows():
            operator = "forward"
        case JoinRows():
            operator = "join"
        case _:
            operator = "window"
    return (operator, *(() if physical.having is None else ("having",)), "select list")


def may_fold(physical: Physical, input: Input) -> bool:
    return too_deep(physical.options, (*pack_stages(input), FOLD)) is None


def may_forward(physical: Physical, input: Input) -> bool:
    return too_deep(physical.options, (*pack_stages(input), *output_stages(physical))) is None


def chain(stages: tuple[str, ...]) -> str:
    """
    >>> chain(("scan", "pack"))
    'scan → pack'
    """
    return " → ".join(stages)
