"""Aggregate functions: which exist, what they take, and how a call in the SQL becomes one of the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType

from eventide.plan.logical import AggregateCall
from eventide.plan.modes import FILTERED, IGNORE_NULLS
from eventide.plan.validate import USER_AGGREGATES
from eventide.sql.dialect import EventideParser
from eventide.sql.tokens import Call, Span, calls, closing, error_at, split_commas, word


@dataclass(frozen=True)
class Aggregate:
    """`inputs` are evaluated for every row, `parameters` are constants behind them; both are (least, most).

    With `takes_nulls` a NULL is a value like others, so that FILTER cannot be expressed by NULLs.
    """

    name: str
    inputs: tuple[int, int] = (1, 1)
    parameters: tuple[int, int] = (0, 0)
    aliases: tuple[str, ...] = ()
    takes_nulls: bool = False


_TABLE = (
    Aggregate("count", (1, 64)),
    Aggregate("sum"),
    Aggregate("min"),
    Aggregate("max"),
    Aggregate("avg", aliases=("mean",)),
    Aggregate("var_samp", aliases=("variance",)),
    Aggregate("var_pop"),
    Aggregate("stddev_samp", aliases=("stddev", "std")),
    Aggregate("stddev_pop"),
    Aggregate("first", parameters=(0, 1), aliases=("first_value",), takes_nulls=True),
    Aggregate("any_value", parameters=(0, 1), takes_nulls=True),
    Aggregate("last", parameters=(0, 1), aliases=("last_value",), takes_nulls=True),
    Aggregate("min_by", (2, 2)),
    Aggregate("max_by", (2, 2)),
    Aggregate("approx_count_distinct", parameters=(0, 1)),
    Aggregate("percentile", parameters=(1, 1)),
    Aggregate("median"),
    Aggregate("mode", parameters=(0, 1)),
    Aggregate("count_if"),
    Aggregate("percentile_approx", parameters=(1, 2), aliases=("approx_percentile",)),
    Aggregate("collect_list", aliases=("array_agg",)),
    Aggregate("collect_set"),
    Aggregate("bool_and", aliases=("every",)),
    Aggregate("bool_or", aliases=("some", "any")),
)
AGGREGATES = {name: aggregate for aggregate in _TABLE for name in (aggregate.name, *aggregate.aliases)}

# Aggregates of Spark that no kernel computes: known, so that they are refused rather than taken for scalars.
_OTHERS = frozenset(
    """bit_and bit_or bit_xor corr count_min_sketch covar_pop covar_samp grouping grouping_id histogram_numeric
    hll_sketch_agg hll_union_agg bitmap_construct_agg bitmap_or_agg kurtosis listagg string_agg
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy skewness
    try_avg try_sum max_min_by approx_top_k""".split()
)
HOW_TO_WRITE_OVER = (
    "write sum(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW)"
)
NO_OVER = "OVER is for items of a select list without GROUP BY"
INSTEAD_OF_OVER = "compute it in a subquery, or in a stream of its own, and read that"
AGGREGATE_NAMES = frozenset(AGGREGATES) | _OTHERS
RUNNING = frozenset({"lag", "lead"})  # functions that are there with OVER only


@dataclass(frozen=True, eq=False)
class FoundAggregate:
    """An aggregate call in an expression; `span` takes in FILTER and IGNORE NULLS behind it."""

    call: Call
    span: Span
    filter: Span | None
    ignore_nulls: bool
    over: Span | None = None  # what stands in the parentheses of OVER


def find_aggregates(span: Span) -> list[FoundAggregate]:
    """The outermost aggregate calls of an expression; one inside another is an error."""
    found: list[FoundAggregate] = []
    for call in calls(span):
        runs = call.name in RUNNING and call.after < len(span.tokens) and word(span.tokens[call.after]) == "OVER"
        if call.name not in AGGREGATE_NAMES and call.name not in USER_AGGREGATES and not runs:
            continue
        if any(outer.span.covers(call.span.start, call.span.end) for outer in found):
            raise call.span.error(
                "an aggregate cannot be used inside another one", "aggregate columns or scalar expressions"
            )
        found.append(_with_modifiers(span, call))
    return found


def unregistered(span: Span, start: int, end: int) -> str | None:
    """The innermost function around this place that Spark is not known to have: perhaps an aggregate that the user has
    not registered yet.
    """
    around = [
        call
        for call in calls(span)
        if call.span.covers(start, end) and call.name.upper() not in EventideParser.FUNCTIONS
    ]
    return min(around, key=lambda call: call.span.end - call.span.start).name if around else None


def refuse_aggregates(span: Span, where: str, help: str) -> None:
    for found in find_aggregates(span):
        if found.over is not None:
            raise found.span.error(NO_OVER, INSTEAD_OF_OVER)
        raise found.span.error(f"an aggregate cannot be used in {where}", help)


def to_plan(
    found: FoundAggregate, name: str, render: Callable[[Span], str], over_is_read: bool = False
) -> AggregateCall:
    """The call as the plan has it; `render` gives the SQL of an input over the columns of FROM."""
    call = found.call
    if found.over is not None and not over_is_read:
        raise found.over.error(NO_OVER, INSTEAD_OF_OVER)
    aggregate = _aggregate_of(found)
    arguments, distinct = call.arguments, False
    if arguments is not None and word(arguments.tokens[0]) in ("DISTINCT", "ALL"):
        distinct = word(arguments.tokens[0]) == "DISTINCT"
        if len(arguments.tokens) == 1:
            raise found.span.error(f"{call.name} has no argument", f"write {call.name}(DISTINCT column)")
        arguments = arguments.part(1, len(arguments.tokens))
    parts = split_commas(arguments)
    if aggregate.name == "count" and _counts_rows(parts, distinct, found):
        return AggregateCall(
            name, "count", () if found.filter is None else (f"CASE WHEN {render(found.filter)} THEN 1 END",)
        )
    inputs, parameters = _divide(aggregate, parts, found)
    rendered = tuple(render(part) for part in inputs)
    if aggregate.name == "count_if":
        aggregate, rendered = AGGREGATES["count"], (f"CASE WHEN {rendered[0]} THEN 1 END",)
    constants = tuple(part.render() for part in parameters) + ((IGNORE_NULLS,) if found.ignore_nulls else ())
    if found.filter is not None:
        condition = render(found.filter)
        if aggregate.takes_nulls:
            rendered, constants = (*rendered, condition), (*constants, FILTERED)
        else:
            rendered = tuple(f"CASE WHEN {condition} THEN {text} END" for text in rendered)
    returns = None if call.name in AGGREGATES else USER_AGGREGATES.resolve(call.name).returns
    return AggregateCall(name, aggregate.name, rendered, distinct, constants, returns)


def _aggregate_of(found: FoundAggregate) -> Aggregate:
    name = found.call.name
    if name in USER_AGGREGATES:
        return Aggregate(name, (1, 64), takes_nulls=True)
    aggregate = AGGREGATES.get(name)
    if aggregate is None:
        help = f"supported: {', '.join(sorted(AGGREGATES))}; or define it: eventide.aggregates.register('{name}', ...)"
        raise found.span.error(f"the aggregate {name} is not supported", help)
    return aggregate


def _counts_rows(parts: list[Span], distinct: bool, found: FoundAggregate) -> bool:
    """count(*), and count(1), which means the same."""
    if len(parts) != 1 or len(parts[0].tokens) != 1:
        return False
    kind = parts[0].tokens[0].token_type
    if kind == TokenType.STAR and distinct:
        raise found.span.error("count(DISTINCT *) is not supported", "name the columns")
    return kind == TokenType.STAR or (kind in (TokenType.NUMBER, TokenType.STRING) and not distinct)


def _divide(aggregate: Aggregate, parts: list[Span], found: FoundAggregate) -> tuple[list[Span], list[Span]]:
    """Inputs and constant parameters, counted against the table."""
    least, most = aggregate.inputs[0] + aggregate.parameters[0], aggregate.inputs[1] + aggregate.parameters[1]
    if not least <= len(parts) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise found.span.error(
            f"{found.call.name} takes {wanted} argument{'' if wanted == '1' else 's'}, not {len(parts)}",
            f"write {found.call.name}(column)",
        )
    return parts[: aggregate.inputs[1]], parts[aggregate.inputs[1] :]


def _with_over(span: Span, call: Call, at: int, condition: Span | None, ignore_nulls: bool) -> FoundAggregate:
    """OVER (...), which stands last."""
    is_open = at + 1 < len(span.tokens) and span.tokens[at + 1].token_type == TokenType.L_PAREN
    close = closing(span, at + 1) if is_open else at
    if close < at + 3:
        raise error_at(span.sql, span.tokens[at], "OVER takes an order, in parentheses", HOW_TO_WRITE_OVER)
    return FoundAggregate(call, span.part(call.index, close + 1), condition, ignore_nulls, span.part(at + 2, close))


def _with_modifiers(span: Span, call: Call) -> FoundAggregate:
    """Take in what may follow a call: FILTER (WHERE ...), IGNORE NULLS, and refuse the rest."""
    end = call.after
    condition: Span | None = None
    ignore_nulls = False
    while end < len(span.tokens):
        following = word(span.tokens[end])
        if following == "FILTER" and end + 1 < len(span.tokens) and condition is None:
            close = closing(span, end + 1)
            if close < end + 4 or word(span.tokens[end + 2]) != "WHERE":
                raise span.part(end, close + 1).error("FILTER takes a condition", "write FILTER (WHERE condition)")
            condition = span.part(end + 3, close)
            end = close + 1
        elif (
            following in ("IGNORE", "RESPECT") and end + 1 < len(span.tokens) and word(span.tokens[end + 1]) == "NULLS"
        ):
            if AGGREGATES.get(call.name, Aggregate("")).name not in ("first", "last", "any_value"):
                raise span.part(end, end + 2).error(f"{following} NULLS is for first and last", "leave it out")
            ignore_nulls = following == "IGNORE"
            end += 2
        elif following == "OVER":
            return _with_over(span, call, end, condition, ignore_nulls)
        elif following == "WITHIN":
            raise span.part(call.index, end + 1).error("WITHIN GROUP is not supported", "leave it out")
        else:
            break
    return FoundAggregate(call, span.part(call.index, end), condition, ignore_nulls)
