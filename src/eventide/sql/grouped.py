"""GROUP BY with a window: keys, aggregates, pseudo columns and what is selected of them."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from eventide.errors import SqlError, suggest
from eventide.plan.column_roles import LAST_MOMENT, WINDOW_END, WINDOW_START
from eventide.plan.logical import AggregateCall, Named, WindowAggregate
from eventide.plan.modes import EmitMode
from eventide.plan.names import quoted
from eventide.plan.shedding import SHED_RATIO, SHED_WEIGHT
from eventide.plan.stream_source import WINDOW_TIME
from eventide.plan.windows import Slide, Unbounded, Window
from eventide.sql.aggregate_calls import find_aggregates, to_plan, unregistered
from eventide.sql.change_logs import check_window_of_changes, refuse_op, refuse_what_cannot_retract
from eventide.sql.conjuncts import conjunction
from eventide.sql.dialect import parse_scalar, tokenize
from eventide.sql.event_times import carried_time, time_of
from eventide.sql.grouping import Grouping, Key, read_grouping, whole_call
from eventide.sql.grouping_sets import FUNCTIONS as SET_FUNCTIONS
from eventide.sql.naming import output_name
from eventide.sql.relations import ADD_WINDOW, PSEUDO_COLUMNS, UNBOUNDED, star_columns
from eventide.sql.scope import (
    Reference,
    Scope,
    ScopeColumn,
    check_scalar,
    columns_of,
    duplicate,
    references,
    refuse_quoted_columns,
    resolve,
    rewrite,
    single_reference,
    unknown_column,
)
from eventide.sql.syntax import EmitNode, SelectItem, SelectNode
from eventide.sql.tokens import Edit, Span, calls, split_commas, word
from eventide.sql.window_functions import (
    BOUND_FUNCTIONS,
    UNSUPPORTED_BOUNDS,
    WINDOW_FUNCTIONS,
    WindowCall,
    window_of_call,
)
from eventide.sql.window_tables import without_made

STRUCT = "named_struct('start', window_start, 'end', window_end)"


def lower_grouped(select: SelectNode, scope: Scope, emit: EmitNode, state_ttl: int | None) -> WindowAggregate:
    """The query as a window aggregation. Without a window, groups are emitted again whenever they change, and kept
    for `state_ttl`.
    """
    of_windows, table = scope.where, scope.window
    grouping = read_grouping(select, without_made(scope), table)
    scope = without_made(scope)
    window, time = _window_and_time(grouping, scope, select)
    mode = emit.mode or (EmitMode.CHANGES if emit.is_inner and window is None else EmitMode.ON_WINDOW_CLOSE)
    if window is None and mode not in (EmitMode.ON_UPDATE, EmitMode.CHANGES):
        raise _no_window(select)
    window = window or Unbounded(state_ttl)
    if scope.op is not None:
        check_window_of_changes(window, scope.op, grouping.window.span if grouping.window else select.span)
    lowering = _Lowering(select, scope, grouping, window, time, mode)
    outputs = lowering.outputs()
    having = conjunction([each for each in (of_windows, lowering.having(outputs)) if each is not None])
    relation, columns = scope.relation, scope.logical_columns()
    keys = tuple(Named(key.name, key.sql) for key in grouping.keys)
    if grouping.sets is not None:
        relation, columns, keys = (
            grouping.sets.relation(relation),
            grouping.sets.columns(columns),
            grouping.sets.keys(keys),
        )
    return WindowAggregate(
        relation,
        columns,
        window,
        keys,
        tuple(lowering.aggregates),
        tuple(outputs),
        having,
        time,
        scope.changes,
    )


def _window_and_time(grouping: Grouping, scope: Scope, select: SelectNode) -> tuple[Window | None, str | None]:
    """The window of a query, or the one in whose columns it groups, if any; and what overrides the event time."""
    if grouping.window is not None:
        return grouping.window.window, time_of(grouping.window, scope)
    start, end = (grouping.bounds.get(which) for which in (WINDOW_START, WINDOW_END))
    if start is None or end is None or start.bound is None or end.bound is None:
        return None, carried_time(scope)
    if start.bound.window != end.bound.window:
        raise (select.group_span or select.span).error(
            f"{start.called} and {end.called} are of different windows", "group by the start and the end of one window"
        )
    inside = None if end.bound.is_rowtime or end.bound.pane == end.bound.window else quoted(end.name)
    return end.bound.pane, None if inside is None else f"timestampadd(MICROSECOND, -1, {inside})"


def _no_window(select: SelectNode) -> SqlError:
    place = select.group_span
    if select.distinct is not None:
        is_union = word(select.distinct.tokens[0]) == "UNION"
        instead = "write UNION ALL" if is_union else "select window_start, window_end of a window table, too"
        raise select.distinct.error(
            f"there is no window, and {UNBOUNDED}", f"{instead}, or add EMIT ON UPDATE to be told once of every row"
        )
    if place is None:
        found = [found for item in select.items if not item.star for found in find_aggregates(item.expression)]
        place = found[0].span if found else select.having or select.span
    return place.error(f"there is no window, and {UNBOUNDED}", ADD_WINDOW)


class _Lowering:
    """The expressions above the grouping; collects the aggregates that they need."""

    def __init__(
        self, select: SelectNode, scope: Scope, grouping: Grouping, window: Window, time: str | None, mode: EmitMode
    ) -> None:
        self.select, self.scope, self.keys, self.is_by_columns = select, scope, grouping.keys, grouping.is_by_columns
        self.sets = grouping.sets
        self.window, self.time, self.mode = window, time, mode
        self.aggregates: list[AggregateCall] = []

    def outputs(self) -> list[Named]:
        outputs: list[Named] = []
        for item in self.select.items:
            if item.star and self.select.distinct is not None:
                outputs += self._all(item)
                continue
            if item.star:
                raise item.expression.error(
                    "* cannot be used in a query with a window",
                    "name the keys, the aggregates and window_start or window_end",
                )
            if item.generated is not None:
                help = "write LATERAL VIEW explode(array) AS name after FROM source"
                raise item.expression.error("a query with a window explodes in FROM", help)
            outputs.append(
                Named(item.alias or self._name(item), self._lower(item.expression, outputs, aliases_first=False))
            )
            twice = duplicate([output.name for output in outputs])
            if twice is not None:
                raise item.expression.error(f"two columns are called {twice}", "give one of them another name with AS")
        return outputs

    def _all(self, item: SelectItem) -> list[Named]:
        """SELECT DISTINCT *: what there is, and the bounds of a window table, are keys."""
        numbers = {key.column: number for number, key in enumerate(self.keys)}
        found = [Named(column.called, f"__k{numbers[column.name]}") for column in star_columns(self.scope, item)]
        has_bounds = not self.is_by_columns and not isinstance(self.window, Unbounded)
        return found + [Named(which, which) for which in (WINDOW_START, WINDOW_END) if has_bounds]

    def having(self, outputs: list[Named]) -> str | None:
        if self.select.having is None:
            return None
        return self._lower(self.select.having, outputs, aliases_first=True)

    def _name(self, item: SelectItem) -> str:
        whole = whole_call(item.expression)
        if whole is not None and whole.name in BOUND_FUNCTIONS:
            return BOUND_FUNCTIONS[whole.name][1]
        if whole is not None and whole.name in WINDOW_FUNCTIONS:
            return "session_window" if whole.name == "session_window" else "window"
        reference = single_reference(item.expression)
        found = resolve(self.scope, reference) if reference is not None else None
        if found is not None and reference is not None and found[1] == len(reference.parts):
            return found[0].called
        return output_name(item.expression, self.scope)

    def _lower(self, span: Span, outputs: list[Named], aliases_first: bool) -> str:
        """An expression over keys, aggregates and pseudo columns."""
        check_scalar(span, allow_star=True)
        refuse_quoted_columns(self.scope, span)
        edits = self._aggregate_edits(span) + self._window_edits(span) + self._set_edits(span)
        edits += self._key_edits(span, edits)
        for reference in references(span):
            start, end = reference.places[0][0], reference.places[-1][1]
            if not any(edit.start <= start and end <= edit.end for edit in edits):
                edits.append(self._reference(reference, outputs, aliases_first, unregistered(span, start, end)))
        return span.render(edits)

    def _aggregate_edits(self, span: Span) -> list[Edit]:
        edits = []
        for found in find_aggregates(span):
            if found.call.name in SET_FUNCTIONS:
                continue
            planned = to_plan(found, f"__a{len(self.aggregates)}", self._input)
            if self.scope.op is not None:
                refuse_what_cannot_retract(planned, found)
            edits.append(Edit(found.span.start, found.span.end, self._named(planned)))
        return edits

    def _input(self, span: Span) -> str:
        """The SQL of an aggregate's input, over the columns of FROM."""
        for call in calls(span):
            if call.name in WINDOW_FUNCTIONS or call.name in BOUND_FUNCTIONS:
                raise call.span.error("the window is not known inside an aggregate", "use the time column")
        refuse_op(span, self.scope)
        return rewrite(span, columns_of(self.scope, _pseudo_in_aggregate))

    def _window_edits(self, span: Span) -> list[Edit]:
        edits = []
        for call in calls(span):
            if call.name in UNSUPPORTED_BOUNDS:
                raise call.span.error(f"{call.name} is not supported", "write window_time")
            if call.name in BOUND_FUNCTIONS:
                function, text = BOUND_FUNCTIONS[call.name]
                self._check_same_window(window_of_call(call, function))
            elif call.name in WINDOW_FUNCTIONS:
                text = STRUCT
                self._check_same_window(window_of_call(call))
            else:
                continue
            edits.append(Edit(call.span.start, call.span.end, text))
        return edits

    def _set_edits(self, span: Span) -> list[Edit]:
        """grouping(key) and grouping_id(): which keys the set of a group has."""
        edits = []
        for call in (call for call in calls(span) if call.name in SET_FUNCTIONS):
            if self.sets is None:
                raise call.span.error(
                    f"{call.name} tells sets of keys apart, and here is only one",
                    "write GROUP BY with GROUPING SETS, ROLLUP or CUBE, or leave it out",
                )
            keys = tuple(self._key_of(argument) for argument in split_commas(call.arguments))
            if call.name == "grouping" and len(keys) != 1:
                raise call.span.error(f"grouping takes 1 argument, not {len(keys)}", "write grouping(key)")
            text = (
                self.sets.grouping(keys[0])
                if call.name == "grouping"
                else self.sets.grouping_id(keys or self._all_keys)
            )
            edits.append(Edit(call.span.start, call.span.end, text))
        return edits

    @property
    def _all_keys(self) -> tuple[int, ...]:
        return tuple(range(len(self.keys)))

    def _key_of(self, span: Span) -> int:
        sql = rewrite(span, columns_of(self.scope))
        found = next((number for number, key in enumerate(self.keys) if key.sql == sql), None)
        if found is None:
            names = ", ".join(key.name for key in self.keys)
            raise span.error(f"{span.render()} is not a key of GROUP BY", f"the keys are {names}")
        return found

    def _check_same_window(self, call: WindowCall) -> None:
        if call.window != self.window or time_of(call, self.scope) != self.time:
            raise call.span.error(
                "this is not the window of GROUP BY",
                "repeat the arguments of the GROUP BY window, or use window_start and window_end",
            )

    def _key_edits(self, span: Span, covered: list[Edit]) -> list[Edit]:
        """The places where a key that is an expression stands inside a selected one."""
        edits: list[Edit] = []
        for number, key in enumerate(self.keys):
            if key.column is None:
                edits += self._places_of(key, f"__k{number}", span, covered + edits)
        return edits

    def _places_of(self, key: Key, text: str, span: Span, covered: list[Edit]) -> list[Edit]:
        """Where the tokens of a key stand; only if the tree has it as often, so that a + b is not found in a + b *
        2.
        """
        wanted = _pieces(key.span, self.scope, [])
        have = _pieces(span, self.scope, covered)
        texts = [piece.text for piece in have]
        length = len(wanted)
        places = [i for i in range(len(have) - length + 1) if texts[i : i + length] == [piece.text for piece in wanted]]
        if not places:
            return []
        if len(places) != _occurrences(_tree(key.sql), _tree(" ".join(texts))):
            return []
        return [Edit(have[i].start, have[i + length - 1].end, text) for i in places]

    def _reference(self, reference: Reference, outputs: list[Named], aliases_first: bool, within: str | None) -> Edit:
        found = resolve(self.scope, reference)
        if found is not None and found[0].changes is not None:
            return self._pseudo(reference, outputs)  # of what comes out, not of what came in
        is_pseudo = (
            found is not None and found[1] == 1 and _is_pseudo(reference, self.mode) and not self._is_key(found[0])
        )
        if isinstance(self.window, Unbounded) and found is None and _names_a_window(reference):
            raise reference.error(f"without a window there is no {reference.parts[0]}", ADD_WINDOW)
        if found is not None and is_pseudo and found[0].of_stream:
            found = None if not isinstance(self.window, Unbounded) else found
        elif is_pseudo:
            help = (
                f"write {self.scope.qualifier or 's'}.{reference.parts[0]} for the column, or rename it in a subquery"
            )
            raise reference.error(f"{reference.parts[0]} is a column of the input and of the window", help)
        if found is not None:
            for number, key in enumerate(self.keys):
                if key.column == found[0].name:
                    return reference.upto(found[1], f"__k{number}")
        if found is None or aliases_first:
            for output in outputs:
                if output.name.lower() == reference.parts[0].lower():
                    return reference.upto(1, f"({output.sql})")
        if found is not None:
            help = f"add {found[0].called} to GROUP BY, or aggregate it, as in max({found[0].called})"
            if within is not None:
                help += (
                    f"; if {within} is an aggregate of yours, register it first: "
                    f"eventide.aggregates.register('{within}', ...)"
                )
            raise reference.error(f"{found[0].called} is neither a group key nor aggregated", help)
        return self._pseudo(reference, outputs)

    def _is_key(self, column: ScopeColumn) -> bool:
        """Whether a column is one of the bounds of the window that make up the group."""
        return self.is_by_columns and any(key.column == column.name for key in self.keys)

    def _pseudo(self, reference: Reference, outputs: list[Named]) -> Edit:
        parts = [part.lower() for part in reference.parts]
        qualified = len(parts) > 1 and self.scope.qualifier is not None and parts[0] == self.scope.qualifier.lower()
        skip = 1 if qualified else 0
        name, rest = parts[skip], parts[skip + 1 :]
        if name in ("window", "session_window"):
            if rest and rest[0] in ("start", "end"):
                return reference.upto(skip + 2, f"window_{rest[0]}")
            return reference.upto(skip + 1, STRUCT)
        if name == "op" and self.mode is not EmitMode.CHANGES:
            raise reference.error("op exists only in a change log", "add EMIT CHANGES, or leave op out")
        if name in PSEUDO_COLUMNS:
            return reference.upto(skip + 1, name)
        if name == WINDOW_TIME and not isinstance(self.window, Slide | Unbounded):
            return reference.upto(skip + 1, LAST_MOMENT)
        if name == SHED_RATIO:
            return reference.upto(skip + 1, self._shed_ratio())
        names = [
            *(column.called for column in self.scope.columns),
            *(output.name for output in outputs),
            *PSEUDO_COLUMNS[:4],
            SHED_RATIO,
        ]
        raise unknown_column(self.scope, reference, suggest(reference.parts[-1], set(names)))

    def _shed_ratio(self) -> str:
        """Rows that were kept, against those that they stand for."""
        kept, stood_for = (self._aggregate(*call) for call in (("count", ()), ("sum", (SHED_WEIGHT,))))
        return f"(1e0 - {kept} / {stood_for})"

    def _aggregate(self, function: str, inputs: tuple[str, ...]) -> str:
        """The name of an aggregate, which is computed once however often it is wanted."""
        return self._named(AggregateCall(f"__a{len(self.aggregates)}", function, inputs))

    def _named(self, planned: AggregateCall) -> str:
        same = [known for known in self.aggregates if replace(known, name=planned.name) == planned]
        if not same:
            self.aggregates.append(planned)
        return same[0].name if same else planned.name


def _is_pseudo(reference: Reference, mode: EmitMode) -> bool:
    name = reference.parts[0].lower()
    if name == "window":
        return len(reference.parts) > 1 and reference.parts[1].lower() in ("start", "end")
    return name in PSEUDO_COLUMNS and (name != "op" or mode is EmitMode.CHANGES)


def _names_a_window(reference: Reference) -> bool:
    return reference.parts[0].lower() in ("window_start", "window_end", "window_id", "window")


def _pseudo_in_aggregate(reference: Reference) -> str | None:
    if reference.parts[0].lower() in (*PSEUDO_COLUMNS, "window"):
        return f"{reference.parts[0]} is made by the window and is not known inside an aggregate"
    return None


def _pieces(span: Span, scope: Scope, covered: list[Edit]) -> list[Edit]:
    """The tokens as texts that can be compared: columns by their declared names, words without regard to case."""
    named = {}
    for reference in references(span):
        found = resolve(scope, reference)
        if found is not None:
            edit = reference.upto(found[1], quoted(found[0].name))
            named[edit.start] = edit
    named.update({edit.start: edit for edit in covered})
    pieces: list[Edit] = []
    skip_to = -1
    for token in span.tokens:
        if token.start < skip_to:
            continue
        known = named.get(token.start)
        text = span.sql[token.start : token.end + 1]
        literal = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER, TokenType.RAW_STRING)
        piece = known or Edit(token.start, token.end + 1, text if literal else text.upper())
        skip_to = piece.end
        pieces.append(piece)
    return pieces


def _tree(sql: str) -> exp.Expr:
    return parse_scalar(tokenize(sql), sql)


def _occurrences(wanted: exp.Expr, tree: exp.Expr) -> int:
    key = _folded(wanted.unnest())
    return sum(1 for node in _folded(tree).walk() if node == key)


def _folded(tree: exp.Expr) -> exp.Expr:
    """A copy in which names of functions and columns differ only if they mean different things."""
    copy = tree.copy()
    for node in copy.walk():
        if isinstance(node, exp.Anonymous):
            node.set("this", node.name.lower())
        elif isinstance(node, exp.Identifier):
            node.set("this", node.this.lower())
            node.set("quoted", False)
    return copy
