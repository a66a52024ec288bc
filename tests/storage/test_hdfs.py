"""HDFS as a store: what is shown while a file is written, and what is said where it cannot be reached."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from eventide.errors import EnvironmentError, OptionError
from eventide.storage.opening import checkpoint_folder
from eventide.storage.paths import RemotePath, remote_path
from eventide.storage.stores import store_of
from tests.connectors import hdfs_server
from tests.connectors.hdfs_server import HdfsServer

needs_client = pytest.mark.skipif(not hdfs_server.has_client(), reason=hdfs_server.MISSING)


@pytest.fixture
def place(hdfs: HdfsServer) -> RemotePath:
    return remote_path(hdfs.new_folder(), {})


@pytest.mark.slow
def test_a_file_is_there_when_it_is_closed_and_replaces_another(place: RemotePath) -> None:
    path = place / "x.json"
    path.write_bytes(b"old")
    file = path.create()
    file.write(b"new")
    assert path.read_bytes() == b"old" and list(place.glob("*.json")) == [path]
    file.close()
    assert path.read_bytes() == b"new" and [each.name for each in place.iterdir()] == ["x.json"]


@pytest.mark.slow
def test_a_file_that_is_dropped_is_never_there(place: RemotePath) -> None:
    file = (place / "x.json").create()
    file.write(b"new")
    del file
    assert not (place / "x.json").exists()


@pytest.mark.slow
def test_parts_of_a_large_file_are_read(place: RemotePath, tmp_path: Path) -> None:
    content = bytes(range(256)) * 40_000
    (tmp_path / "large").write_bytes(content)
    (place / "large").upload(tmp_path / "large")
    with place.store.files().open_input_file((place / "large")._place) as file:
        assert file.size() == len(content) and file.read_at(1000, 5_000_000) == content[5_000_000:5_001_000]
        assert file.read_at(1000, len(content) - 10) == content[-10:] and file.read_at(10, len(content)) == b""
    assert (place / "large").read_bytes() == content


@pytest.mark.slow
def test_errors_of_the_cluster_are_told_in_a_line(place: RemotePath) -> None:
    (place / "file").write_bytes(b"x")
    with pytest.raises(OSError) as told:
        (place / "file" / "below").write_bytes(b"y")
    assert "not a directory" in str(told.value) and "\n" not in str(told.value)


@pytest.mark.slow
@needs_client
def test_a_cluster_that_does_not_answer_is_said_soon() -> None:
    with pytest.raises(OptionError, match=r"hdfs://127.0.0.1:1/app cannot be reached: .*\n?.*the cluster is there"):
        checkpoint_folder("hdfs://127.0.0.1:1/app", {})


@needs_client
def test_a_name_that_stands_for_nothing_is_refused() -> None:
    with pytest.raises(EnvironmentError, match=r"(?s)HADOOP_CONF_DIR or spark\.hadoop\.dfs"):
        remote_path("hdfs:///app", {}).exists()


def test_without_its_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(EnvironmentError, match=r"(?s)needs the package hdfs-native.*eventide\[hdfs\]"):
        remote_path("hdfs://nobody:1/app", {}).exists()


def test_settings_of_spark_say_what_a_name_stands_for() -> None:
    settings = {
        "spark.hadoop.dfs.nameservices": "mine",
        "spark.hadoop.fs.s3a.secret.key": "hush",
        "spark.app.name": "x",
    }
    store = store_of("hdfs://mine/app", settings)
    assert dict(store.arguments) == {"dfs.nameservices": "mine"} and store.spark_settings() == {}
    told = store_of("hdfs://mine/app", {"spark.hadoop.dfs.client.failover.max.attempts": "9"})
    assert told.impatient() == told and dict(store.impatient().arguments)["dfs.client.failover.max.attempts"] == "3"
