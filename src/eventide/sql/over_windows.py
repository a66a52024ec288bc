"""Windows of running aggregates: those with a name, and several of them in one SELECT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from eventide.sql.aggregate_calls import FoundAggregate, find_aggregates
from eventide.sql.shape import aggregates, has_over, runs
from eventide.sql.syntax import QueryNode, SelectItem, SelectNode, SubqueryRef, TableRef
from eventide.sql.tokens import Span, closing, is_open, split_commas, word

_NAMED = "write what the WINDOW clause says into OVER (...)"


def with_named_windows(items: tuple[SelectItem, ...], windows: Mapping[str, Span]) -> tuple[SelectItem, ...]:
    """`OVER w` as `OVER (...)`; `windows` are in lower case, with their parentheses."""
    return tuple(
        item if item.star else replace(item, expression=_spelt_out(item.expression, windows)) for item in items
    )


def _spelt_out(span: Span, windows: Mapping[str, Span]) -> Span:
    for index, token in enumerate(span.tokens):
        if word(token) != "OVER" or index + 1 >= len(span.tokens) or is_open(span.tokens[index + 1]):
            continue
        name = span.part(index + 1, index + 2)
        known = windows.get(name.text.strip("`").lower())
        if known is None:
            help = f"write WINDOW {name.text} AS (PARTITION BY k ORDER BY ts) after FROM and WHERE"
            raise name.error(f"there is no window {name.text}", help)
        if index + 2 != len(span.tokens):
            raise name.error("a window with a name stands at the end of a select item", _NAMED)
        return Span(span.sql, (*span.tokens[: index + 1], *known.tokens))
    return span


def frames_apart(select: SelectNode) -> SelectNode:
    """A SELECT with several windows of running aggregates as one around another, each with one of them."""
    if not runs(select) or aggregates(select) or not isinstance(select.source, TableRef | SubqueryRef):
        return select
    spans = [item.expression for item in select.items if not item.star]
    spans += [] if select.qualify is None else [select.qualify]
    found = {each.span.render(): each for span in spans for each in find_aggregates(span) if each.over is not None}
    frames = list(dict.fromkeys(map(_frame, found.values())))
    if len(frames) < 2 or any(_is_mixed(span) for span in spans):
        return select
    below = [text for text, each in found.items() if _frame(each) != frames[0]]
    names = {text: f"__w{len(frames)}_{number}" for number, text in enumerate(below)}
    everything = SelectItem(select.span, star=True)
    made = [SelectItem(found[text].span, alias) for text, alias in names.items()]
    inner = SelectNode(select.span, (everything, *made), select.source, where=select.where, watermark=select.watermark)
    source, hidden = select.source, tuple(names.values())
    alias = source.alias or (source.name if isinstance(source, TableRef) else None)
    items = tuple(replace(item, excluded=(*item.excluded, *hidden)) if item.star else item for item in select.items)
    query = QueryNode(select.span, (frames_apart(inner),))
    around = SubqueryRef(query, select.span, alias=alias)
    return replace(select, items=items, source=around, where=None, watermark=None, named=names)


def _frame(found: FoundAggregate) -> tuple[str, str]:
    """What makes two frames one: what stands in OVER, and of lag how far it looks back."""
    parts = split_commas(found.call.arguments) if found.call.name == "lag" else []
    back = (parts[1].render() if len(parts) > 1 else "1") if found.call.name == "lag" else ""
    return ("" if found.over is None else found.over.render().lower(), back)


def _is_mixed(span: Span) -> bool:
    """Whether a place is asked for as well."""
    covered = [each.span for each in find_aggregates(span) if each.over is not None]
    places = [token for token in span.tokens if word(token) == "OVER"]
    return any(not any(each.covers(token.start, token.end) for each in covered) for token in places)


def named_window(span: Span) -> tuple[str, Span] | None:
    """`w AS (...)` as a name and what it stands for, parentheses included."""
    is_named = len(span.tokens) > 3 and word(span.tokens[1]) == "AS" and is_open(span.tokens[2])
    if not is_named or closing(span, 2) != len(span.tokens) - 1:
        return None
    return span.tokens[0].text.lower(), span.part(2, len(span.tokens))


def refuse_unused(windows: Mapping[str, Span], items: tuple[SelectItem, ...]) -> None:
    """A window that nothing names would be SQL that is read and ignored."""
    used = {
        item.expression.tokens[index + 1].text.strip("`").lower()
        for item in items
        if not item.star and has_over(item.expression)
        for index, token in enumerate(item.expression.tokens[:-1])
        if word(token) == "OVER"
    }
    for name, span in windows.items():
        if name not in used:
            raise span.error(f"nothing is over the window {name}", f"write OVER {name}, or leave it out")
