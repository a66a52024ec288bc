"""Views: named queries that take the place of their names wherever these are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from eventide.sql.syntax import FromNode, JoinNode, QueryNode, SelectNode, SubqueryRef, TableRef, WindowTable


def expanded(query: QueryNode, views: Mapping[str, QueryNode]) -> QueryNode:
    """The query with the views in place of their names; `views` are by lower-case name."""
    return replace(query, selects=tuple(_select(select, views) for select in query.selects))


def mentioned(query: QueryNode) -> Iterator[str]:
    """The names that a query reads, at any depth, in lower case."""
    for select in query.selects:
        yield from _mentioned(select.source)


def _select(select: SelectNode, views: Mapping[str, QueryNode]) -> SelectNode:
    return replace(select, source=_source(select.source, views))


def _source(node: FromNode, views: Mapping[str, QueryNode]) -> FromNode:
    match node:
        case TableRef() | SubqueryRef():
            return _input(node, views)
        case WindowTable():
            return replace(node, input=_input(node.input, views))
        case JoinNode():
            return replace(node, left=_source(node.left, views), right=_source(node.right, views))


def _input(node: TableRef | SubqueryRef, views: Mapping[str, QueryNode]) -> TableRef | SubqueryRef:
    if isinstance(node, SubqueryRef):
        return replace(node, query=expanded(node.query, views))
    view = views.get(node.name.lower())
    if view is None:
        return node
    return SubqueryRef(expanded(view, views), node.span, node.alias or node.name, node.watermark, node.steps)


def _mentioned(node: FromNode) -> Iterator[str]:
    match node:
        case TableRef():
            yield node.name.lower()
        case SubqueryRef():
            yield from mentioned(node.query)
        case WindowTable():
            yield from _mentioned(node.input)
        case JoinNode():
            yield from _mentioned(node.left)
            yield from _mentioned(node.right)
