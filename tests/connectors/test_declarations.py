"""Options are declared once: the kit's bad options for all connectors, the pages, entry points, DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from eventide.connectors.pages import with_tables
from eventide.connectors.registry import OURS, SINKS, SOURCES, connector, connectors
from eventide.diagnose.describe import describe_object, with_connector
from eventide.errors import EnvironmentError, OptionError, SqlError
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.testing.connectors import check_declaration
from eventide.testing.connectors.declarations import all_roles
from tests.markdown import ROOT

PAGES = sorted((ROOT / "docs" / "connectors").glob("*.md"))
SAMPLES = {
    ("console", "sink"): {},
    ("delta", "sink"): {"path": "p", "storage.aws_secret_access_key": "${env:KEY}"},
    ("delta", "source"): {"path": "p"},
    ("delta", "table"): {"path": "p"},
    ("embedded", "sink"): {},
    ("embedded", "source"): {},
    ("files", "sink"): {"path": "p"},
    ("files", "source"): {"path": "p"},
    ("files", "table"): {"path": "p"},
    ("jdbc", "table"): {"url": "jdbc:derby:memory:x", "table": "t", "password": "${env:KEY}"},
    ("kafka", "sink"): {"servers": "h:1", "topic": "t", "kafka.sasl.password": "${env:KEY}"},
    ("kafka", "source"): {"servers": "h:1", "topic": "t", "kafka.ssl.key.password": "${file:/key}"},
    ("postgres", "sink"): {"url": "postgresql://u@h/d", "table": "t"},
    ("postgres", "table"): {"url": "postgresql://u@h/d", "table": "t"},
    ("rate", "source"): {},
    ("spark", "sink"): {"format": "orc", "path": "p"},
    ("spark", "source"): {"format": "orc", "path": "p", "option.password": "${env:KEY}"},
    ("spark", "table"): {"format": "orc", "path": "p"},
}


@pytest.mark.parametrize(
    ("name", "role"), [(each.name, role) for each in OURS for role in all_roles(each)], ids=lambda part: str(part)
)
def test_bad_options_are_refused_in_clear_words(name: str, role: str) -> None:
    check_declaration(connector(name), role, SAMPLES[name, role], "" if name == "rate" else "id BIGINT, name STRING")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_the_declaration(page: object) -> None:
    text = page.read_text(encoding="utf-8")  # type: ignore[attr-defined]
    assert text == with_tables(text), "run: python -m eventide.connectors.pages docs/connectors/*.md"


def test_every_role_of_every_connector_has_its_table_on_a_page() -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for each in OURS:
        for role in all_roles(each):
            assert not each.role(role).options or f"<!-- options: {each.name} {role} -->" in pages


def test_the_connector_of_another_package_is_known_by_its_entry_point(tiny: None) -> None:
    assert {"tiny", "files"} <= set(SOURCES) and "tiny" in SINKS
    for role, options in (("source", {"folder": "f"}), ("sink", {"file": "f"}), ("table", {"file": "f"})):
        check_declaration(connector("tiny"), role, options)
    with pytest.raises(SqlError, match="unknown option 'foldr'") as raised:
        parse_statements("CREATE SOURCE s (id BIGINT) WITH ('connector' = 'tiny', 'foldr' = 'x')")
    assert "did you mean folder?" in (raised.value.help or "")


def test_an_entry_point_that_cannot_be_loaded_is_an_error_for_those_who_name_it(install: Callable[[str], None]) -> None:
    install("broken = nowhere.to_be_found:X")
    install("wrong = json:dumps")
    assert SOURCES["files"] and "files" in list(SOURCES) and "broken" not in list(SOURCES)
    with pytest.raises(EnvironmentError, match="'broken' of the package broken-package cannot be loaded: ModuleNot"):
        connector("broken")
    with pytest.raises(EnvironmentError, match="'wrong' of the package wrong-package is a function"):
        connector("wrong")


def test_nobody_takes_the_name_of_one_of_ours(install: Callable[[str], None], caplog: pytest.LogCaptureFixture) -> None:
    install("kafka = tiny_connector:TINY")
    assert connectors()["kafka"] is connector("kafka") and connector("kafka").name == "kafka"
    assert "the connector 'kafka' of the package kafka-package is ignored" in caplog.text


def test_describe_extended_shows_what_counts_and_no_secret() -> None:
    catalog = Catalog()
    for statement in parse_statements("""
        CREATE SOURCE s (k STRING) WITH ('connector' = 'kafka', 'servers' = 'h:1', 'topic' = 't',
            'kafka.sasl.password' = '${env:KEY}')"""):
        catalog.apply(statement)
    source = catalog.source("s")
    shown = {row["column"]: (row["type"], row["role"]) for row in with_connector(describe_object(source), source)}
    assert shown["k"] == ("string", "") and shown["# connector"] == ("kafka", "")
    assert shown["topic"] == ("t", "given") and shown["start"] == ("earliest", "default")
    assert shown["kafka.sasl.password"] == ("${env:KEY}", "given") and "sep" not in shown


def test_a_secret_by_declaration_is_refused_in_clear_whatever_it_is_called() -> None:
    (statement,) = parse_statements("""
        CREATE SOURCE s (k STRING) WITH ('connector' = 'kafka', 'servers' = 'h:1', 'topic' = 't',
            'kafka.ssl.key.pem' = 'abc')""")
    with pytest.raises(OptionError, match=r"a password in its option 'kafka.ssl.key.pem'"):
        Catalog().apply(statement)


def test_a_setting_that_is_ours_to_decide_is_refused_where_it_stands() -> None:
    with pytest.raises(SqlError, match=r"'kafka.group.id' is set by Eventide") as raised:
        parse_statements("""
            CREATE SOURCE s (k STRING) WITH ('connector' = 'kafka', 'servers' = 'h:1', 'topic' = 't',
                'kafka.group.id' = 'g')""")
    assert raised.value.help == "use 'group' instead"
