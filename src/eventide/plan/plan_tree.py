"""EXPLAIN as a tree of values, with the figures of each stage, for those who draw it themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eventide.plan.explain import Known, Node, explained
from eventide.plan.physical import Physical

Figures = Mapping[str, list[tuple[str, Any]]]  # by stage: what is known of it, named


def plan_tree(physical: Physical, known: Known, figures: Callable[[str], Figures]) -> dict[str, Any]:
    """`figures` gives those of a stream by its name."""
    return _tree(explained(physical, known=known), figures, {})


def _tree(node: Node, figures: Callable[[str], Figures], of_stream: Figures) -> dict[str, Any]:
    if node.stream is not None:
        of_stream = figures(node.stream)
    return {
        "title": node.title,
        "stage": node.stage,
        "facts": [list(fact) for fact in node.facts],
        "figures": [list(figure) for figure in of_stream.get(node.stage or "", [])],
        "inputs": [_tree(input, figures, of_stream) for input in node.inputs],
    }
