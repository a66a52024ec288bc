"""What GROUP BY, DISTINCT and a window table say: the keys of a group and its window."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot.tokenizer_core import TokenType

from eventide.plan.column_roles import WINDOW_END, WINDOW_START
from eventide.plan.names import quoted
from eventide.plan.stream_source import WINDOW_TIME
from eventide.plan.windows import Calendar, Cumulate, PanedWindow
from eventide.sql.aggregate_calls import refuse_aggregates
from eventide.sql.change_logs import refuse_op
from eventide.sql.grouping_sets import COLUMN, GroupingSets, is_sets, read_sets, refuse_old_spelling
from eventide.sql.naming import output_name
from eventide.sql.relations import star_columns
from eventide.sql.scope import (
    Scope,
    ScopeColumn,
    columns_of,
    references,
    refuse_quoted_columns,
    resolve,
    rewrite,
    single_reference,
)
from eventide.sql.syntax import SelectNode, WindowTable
from eventide.sql.tokens import Call, Span, calls
from eventide.sql.window_functions import (
    WINDOW_FUNCTIONS,
    WindowCall,
    window_of_call,
    window_of_clause,
    window_of_table,
)

_EVERY_SET = "write it beside the sets: GROUP BY window_start, window_end, GROUPING SETS ((a), ())"


@dataclass(frozen=True, eq=False)
class Key:
    """A group key: its SQL over the input, and the span from which the user knows it."""

    sql: str
    span: Span
    name: str
    column: str | None  # the input column that it is, if it is one


@dataclass
class Grouping:
    """`bounds` are the keys that are bounds of a window in which the input was grouped, by which of them they are;
    `sets` is there if rows are grouped by several sets of the keys.
    """

    keys: list[Key] = field(default_factory=list)
    window: WindowCall | None = None
    bounds: dict[str, ScopeColumn] = field(default_factory=dict)
    sets: GroupingSets | None = None

    @property
    def is_by_columns(self) -> bool:
        """Whether the window is the one that rows already have in columns."""
        return self.window is None


def read_grouping(select: SelectNode, scope: Scope, table: PanedWindow | Calendar | None) -> Grouping:
    """Keys and the one window of GROUP BY, of a window table in FROM, or of a WINDOW clause; `table` is the window of a
    table function in a subquery.
    """
    grouping = Grouping()
    if table is not None:
        grouping.window = WindowCall(table, None, select.source.span)
    if isinstance(select.source, WindowTable):
        grouping.window = window_of_table(select.source)
    if select.window is not None:
        _set_window(grouping, window_of_clause(select.window))
    bounds: set[str] = set()
    _read_group_items(select, scope, grouping, bounds)
    if select.distinct is not None:
        _read_distinct(select, scope, grouping, bounds, table is not None)
    if isinstance(select.source, WindowTable):
        _check_window_table(select, select.source, scope, grouping, bounds)
    if table is not None:
        _check_bounds(select, select.source.span, grouping, bounds)
    return grouping


def _read_group_items(select: SelectNode, scope: Scope, grouping: Grouping, bounds: set[str]) -> None:
    """All of GROUP BY. What stands beside sets of keys belongs to each of them."""
    several = [item for item in select.group_by if is_sets(item)]
    if not several:
        for item in select.group_by:
            _read_group_item(item, select, scope, grouping, bounds)
        return
    if scope.find(COLUMN) is not None:
        raise several[0].error(
            f"the number of a set is called {COLUMN}, and so is a column of the input", "rename it in a subquery"
        )
    sets = read_sets(list(select.group_by))
    members: dict[str, set[int]] = {}
    for span in {span.render(): span for keys in sets for span in keys}.values():
        numbers = {number for number, keys in enumerate(sets) if any(each.render() == span.render() for each in keys)}
        key = _read_group_item(span, select, scope, grouping, bounds)
        is_of_window = key is None or key.column in {column.name for column in grouping.bounds.values()}
        if is_of_window and len(numbers) < len(sets):
            raise span.error("a window belongs to every set of keys", _EVERY_SET)
        if key is not None:
            members.setdefault(key.sql, set()).update(numbers)
    grouping.sets = GroupingSets(len(sets), tuple(frozenset(members[key.sql]) for key in grouping.keys))


def _read_distinct(select: SelectNode, scope: Scope, grouping: Grouping, bounds: set[str], in_windows: bool) -> None:
    """Everything that is selected is a key."""
    for item in select.items:
        if not item.star:
            _read_group_item(item.expression, select, scope, grouping, bounds)
            continue
        if in_windows or isinstance(select.source, WindowTable):
            bounds |= {WINDOW_START, WINDOW_END}
        for column in star_columns(scope, item):
            grouping.keys.append(Key(quoted(column.name), item.expression, column.called, column.name))
            if column.bound is not None:
                grouping.bounds[column.bound.which] = column


def _read_group_item(item: Span, select: SelectNode, scope: Scope, grouping: Grouping, bounds: set[str]) -> Key | None:
    """The key that an item is; None if it says the window."""
    refuse_old_spelling(item)
    span, alias = _deref(item, select, scope)
    whole = whole_call(span)
    if whole is not None and whole.name in WINDOW_FUNCTIONS:
        _set_window(grouping, window_of_call(whole))
        return None
    for call in calls(span):
        if call.name in WINDOW_FUNCTIONS:
            raise call.span.error("the window is not a group key by itself", "write it in GROUP BY on its own")
        if call.name in ("rollup", "cube"):
            raise call.span.error(
                f"{call.name.upper()} is an item of its own", f"write GROUP BY {call.name.upper()}(a, b)"
            )
    reference = single_reference(span)
    name = reference.parts[-1].lower() if reference is not None else ""
    found = None if reference is None else resolve(scope, reference)
    of_table = isinstance(select.source, WindowTable) and found is not None and found[0].of_stream
    if name in (WINDOW_START, WINDOW_END) and (found is None or of_table):
        bounds.add(name)
        return None
    if name == WINDOW_TIME and (found is None or of_table) and grouping.window is not None:
        return None  # there is one for every window
    if name == "all" and scope.find("all") is None:
        raise span.error("GROUP BY ALL is not supported", "name the keys")
    refuse_aggregates(span, "GROUP BY", "group by columns of the input")
    refuse_op(span, scope)
    refuse_quoted_columns(scope, span)
    sql = rewrite(span, columns_of(scope))
    if found is not None and found[0].bound is not None:
        grouping.bounds[found[0].bound.which] = found[0]
    known = next((key for key in grouping.keys if key.sql == sql), None)
    if known is None:
        known = _make_key(span, sql, scope, alias, {key.name.lower() for key in grouping.keys})
        grouping.keys.append(known)
    return known


def _make_key(span: Span, sql: str, scope: Scope, alias: str | None, taken: set[str]) -> Key:
    reference = single_reference(span)
    found = resolve(scope, reference) if reference is not None else None
    is_column = found is not None and reference is not None and found[1] == len(reference.parts)
    column = found[0].name if is_column and found is not None else None
    if not references(span) and column is None:
        raise span.error("a constant cannot be a group key", "leave it out of GROUP BY")
    if is_column and found is not None and found[0].type.startswith("map<"):
        raise span.error(
            "maps cannot be compared, so none can be a group key", f"group by one of its values, as in {column}['key']"
        )
    name = alias or (found[0].called if column is not None and found is not None else output_name(span, scope))
    return Key(sql, span, sql if name.lower() in taken else name, column)


def _set_window(grouping: Grouping, call: WindowCall) -> None:
    if grouping.window is not None:
        raise call.span.error("the query has two windows", "keep one; make a second stream for the other")
    grouping.window = call


def _deref(item: Span, select: SelectNode, scope: Scope) -> tuple[Span, str | None]:
    """A select item that GROUP BY means by its number or its alias; columns of the input come first, as in Spark."""
    if len(item.tokens) == 1 and item.tokens[0].token_type == TokenType.NUMBER:
        number = item.tokens[0].text
        if not number.isdecimal() or not 1 <= int(number) <= len(select.items):
            raise item.error(f"there is no column {number} in the select list", f"it has {len(select.items)}")
        chosen = select.items[int(number) - 1]
        if chosen.star:
            raise item.error("a number cannot mean *", "name the keys")
        return chosen.expression, chosen.alias
    reference = single_reference(item)
    if reference is not None and len(reference.parts) == 1 and scope.find(reference.parts[0]) is None:
        for candidate in select.items:
            if candidate.alias is not None and candidate.alias.lower() == reference.parts[0].lower():
                return candidate.expression, candidate.alias
    same = [
        other.alias
        for other in select.items
        if not other.star and other.alias and other.expression.render() == item.render()
    ]
    return item, same[0] if same else None


def whole_call(span: Span) -> Call | None:
    return next((call for call in calls(span) if call.index == 0 and len(call.span.tokens) == len(span.tokens)), None)


def _check_window_table(
    select: SelectNode, table: WindowTable, scope: Scope, grouping: Grouping, bounds: set[str]
) -> None:
    _check_bounds(select, table.span, grouping, bounds)
    if table.function != "session":
        if table.partition:
            raise table.partition[0].error("PARTITION BY is for SESSION", "leave it out; the keys are in GROUP BY")
        return
    if grouping.sets is not None:
        raise (select.group_span or table.span).error(
            "the sessions of a table function are made per key, and these are several sets of keys",
            "write GROUP BY SESSION(ts, gap), ROLLUP(a, b): then every set has sessions of its own",
        )
    partition = {rewrite(span, columns_of(scope)) for span in table.partition}
    if partition != {key.sql for key in grouping.keys}:
        help = "write SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), gap) and GROUP BY window_start, window_end, k"
        raise table.span.error("sessions are made per key, so PARTITION BY and GROUP BY must name the same keys", help)


def _check_bounds(select: SelectNode, table: Span, grouping: Grouping, bounds: set[str]) -> None:
    """Both bounds, as Flink wants them; of what is DISTINCT one will do where it says which window is meant."""
    is_told = grouping.window is not None and not isinstance(grouping.window.window, Cumulate)
    if select.distinct is not None and bounds and is_told:
        return
    if bounds != {"window_start", "window_end"}:
        raise (select.group_span or table).error(
            "a window table needs both window_start and window_end in GROUP BY",
            "write GROUP BY window_start, window_end, ...",
        )
