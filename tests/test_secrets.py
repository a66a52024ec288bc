"""Passwords stand in no file and in no message."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from eventide.connectors.secrets import Secrets
from eventide.errors import EnvironmentError, OptionError, SqlError
from eventide.secrets import masked, secret_places
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements
from eventide.storage.atomic import write_json
from eventide.storage.layout import Layout, Lock
from tests.sql.support import catalog

PASSWORD = "hunter2"
IN_CLEAR = [
    "postgresql://app:hunter2@db/app",
    "postgresql://app:hunter2/@db:5432/app",
    "postgresql://app:hun@ter2@db/app",
    "postgres:app:hunter2@db",
    "host=db user=app password=hunter2",
    "host=db password = 'hunter2 and more'",
    "postgresql://db/app?user=app&password=hunter2",
]


def sink(url: str) -> str:
    quoted = url.replace("'", "\\'")
    return f"CREATE SINK x WITH ('connector' = 'postgres', 'url' = '{quoted}', 'table' = 't')"


def apply(made: Catalog, sql: str) -> None:
    for statement in parse_statements(sql):
        made.apply(statement)


@pytest.mark.parametrize("url", IN_CLEAR)
def test_a_password_in_clear_is_refused_and_not_repeated(url: str) -> None:
    made = catalog()
    with pytest.raises(OptionError, match="x has a password in its option 'url'") as raised:
        apply(made, sink(url))
    assert PASSWORD not in str(raised.value) and "${env:NAME}" in str(raised.value)
    with pytest.raises(SqlError) as shown:
        apply(made, sink(url).replace("'t'", "'t', 'tabel' = 'u'"))
    assert "unknown option 'tabel'" in str(shown.value)
    assert PASSWORD not in str(shown.value) and "ter2" not in str(shown.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app@db/app",
        "postgresql://db:5432/app?application_name=a@b",
        "postgresql://app:${env:PG_PASSWORD}@db/app",
        "host=db password=${file:/run/secrets/pg}",
    ],
)
def test_what_holds_no_password_is_taken_and_kept_as_it_is(url: str) -> None:
    made = catalog()
    apply(made, sink(url))
    assert made.sinks["x"].options["url"] == url
    assert Catalog.from_texts(made.texts()).sinks["x"].options["url"] == url
    assert masked(url) == url


def test_a_checkpoint_from_before_can_still_be_opened() -> None:
    assert Catalog.from_texts([sink("postgresql://app:hunter2@db/app")]).sinks.keys() == {"x"}


@pytest.mark.parametrize("url", ["postgresql://a:${PG}@db", "postgresql://a:${env:PG@db", "postgresql://a:${env:}@db"])
def test_a_placeholder_that_is_not_one_is_an_error(url: str) -> None:
    with pytest.raises((SqlError, OptionError), match="is not finished"):
        apply(catalog(), sink(url))


def test_placeholders_are_looked_up_when_a_connector_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_PASSWORD", PASSWORD)
    (tmp_path / "user").write_text("app\n")
    options = {"url": f"postgresql://${{file:{tmp_path}/user}}:${{env:PG_PASSWORD}}@db", "table": "t"}
    found = Secrets("the sink x", options)
    assert found.options == {"url": "postgresql://app:hunter2@db", "table": "t"}
    assert found.hide("no such user app: hunter2") == "no such user ***: ***"


def test_a_secret_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PG_PASSWORD", raising=False)
    with pytest.raises(EnvironmentError, match="the sink x needs the environment variable PG_PASSWORD"):
        Secrets("the sink x", {"url": "${env:PG_PASSWORD}"})
    with pytest.raises(EnvironmentError, match="No such file"):
        Secrets("the sink x", {"url": f"${{file:{tmp_path}/nothing}}"})


def test_every_error_hides_passwords() -> None:
    error = OptionError(f"cannot reach {IN_CLEAR[0]}", help=f"try {IN_CLEAR[4]}")
    assert PASSWORD not in str(error) + error.message + (error.help or "")
    assert list(secret_places("at 12:30, mail a@b.c")) == []


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in sorted(folder.rglob("*"))}


def test_a_checkpoint_is_private_to_its_owner(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "state")
    layout.make_private()
    Lock(layout.lock).release()
    write_json(layout.catalog, [])
    write_json(layout.plan("o"), {})
    assert stat.S_IMODE(layout.root.stat().st_mode) == 0o700
    found = modes(layout.root)
    assert {found[name] for name in ("catalog.json", "lock", "streams/o/plan.json")} == {0o600}
    assert {found[name] for name in ("sources", "streams")} == {0o700}


def test_a_checkpoint_that_was_open_to_all_is_closed(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "state")
    for folder in (layout.root, layout.root / "streams"):
        folder.mkdir(mode=0o755)
    write_json(layout.catalog, [])
    layout.make_private()
    assert stat.S_IMODE(layout.root.stat().st_mode) == 0o700


def test_a_folder_with_other_things_in_it_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    (shared / "mine.txt").touch()
    Layout(shared).make_private()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o755
    assert modes(shared)["streams"] == 0o700


@pytest.mark.parametrize("text", ["a", "a:", "a://", "password=", "a:b@", "a://b:c", ":", "'", "\\'"])
def test_a_long_text_is_searched_in_time(text: str) -> None:
    masked(text * (1_000_000 // len(text)))
