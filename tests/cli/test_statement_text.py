from __future__ import annotations

import pytest

from eventide.cli.statement_text import is_blank, split_statements


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("", [], ""),
        (";;", [], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1;", ["SELECT 1"], ""),
        ("a; b; c", ["a", "b"], "c"),
        ("SELECT ';'; b", ["SELECT ';'"], "b"),
        ("SELECT 'it''s; fine';", ["SELECT 'it''s; fine'"], ""),
        (r"SELECT 'it\'s; fine';", [r"SELECT 'it\'s; fine'"], ""),
        ('SELECT ";";', ['SELECT ";"'], ""),
        ("SELECT `a;b`;", ["SELECT `a;b`"], ""),
        ("SELECT 1 -- not; here\n;", ["SELECT 1 -- not; here"], ""),
        ("SELECT 1 -- it's\n; b;", ["SELECT 1 -- it's", "b"], ""),
        ("SELECT /* ; */ 1;", ["SELECT /* ; */ 1"], ""),
        ("SELECT /* ; ", [], "SELECT /* ;"),
        ("SELECT '; ", [], "SELECT ';"),
        ("-- only a comment;\n;", [], ""),
    ],
)
def test_statements_end_at_semicolons_outside_of_quotes_and_comments(
    text: str, statements: list[str], rest: str
) -> None:
    assert split_statements(text) == (statements, rest)


@pytest.mark.parametrize(
    ("text", "blank"),
    [("", True), (" \n", True), ("-- x", True), ("/* x */ -- y\n", True), ("x", False), ("''", False)],
)
def test_comments_are_blank(text: str, blank: bool) -> None:
    assert is_blank(text) is blank
