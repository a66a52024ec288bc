"""A user names a folder or a URI; what cannot be reached is told in words, and without credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.cli.checkpoint import layout_of
from eventide.errors import OptionError
from eventide.storage.atomic import write_json
from eventide.storage.opening import checkpoint_folder, checkpoint_path
from eventide.storage.paths import RemotePath
from tests.connectors.s3_server import SECRET, S3Server


def test_a_folder_is_made_and_a_uri_is_not_taken_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checkpoint_folder("app/one", {}) == tmp_path / "app" / "one"
    assert (tmp_path / "app" / "one").is_dir()
    assert isinstance(checkpoint_path("s3a://bucket/app"), RemotePath)
    assert [path.name for path in tmp_path.iterdir()] == ["app"]


def test_a_bucket_that_is_not_there_is_named(s3: S3Server) -> None:
    with pytest.raises(OptionError, match=r"the checkpoint s3a://no-such-bucket/app cannot be reached") as told:
        checkpoint_folder("s3a://no-such-bucket/app", s3.spark_settings)
    assert SECRET not in str(told.value)


def test_commands_without_spark_find_a_store_by_the_environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    place = f"s3a://{s3.new_bucket()}/app"
    with pytest.raises(OptionError, match="is not an Eventide checkpoint"):
        layout_of(place)
    write_json(checkpoint_path(place) / "catalog.json", [])
    assert str(layout_of(place).catalog) == f"{place}/catalog.json"
