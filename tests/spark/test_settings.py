"""The settings of a Spark that is started here, by where it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.spark.settings import (
    JAVA_OPTIONS,
    default_shards,
    is_local,
    started_environment,
    started_settings,
    streaming_settings,
)

LOCAL = ("local", "local[*]", "local[2]", "local[*,4]")
ELSEWHERE = ("spark://host:7077", "yarn", "k8s://https://host:443", "local-cluster[2,1,1024]")
ADDRESSES = {"spark.driver.host", "spark.driver.bindAddress"}


@pytest.mark.parametrize("master", LOCAL)
def test_a_local_spark_is_reached_from_this_machine_only(master: str) -> None:
    assert is_local(master)
    made = started_settings(master, Path("/tmp/s"))
    assert {made[name] for name in ADDRESSES} == {"127.0.0.1"}
    assert started_environment(master) == {"SPARK_LOCAL_IP": "127.0.0.1"}


@pytest.mark.parametrize("master", ELSEWHERE)
def test_workers_on_other_machines_can_reach_the_driver(master: str) -> None:
    assert not is_local(master)
    made = started_settings(master, Path("/tmp/s"))
    assert not ADDRESSES & set(made) and "127.0.0.1" not in " ".join(made.values())
    assert started_environment(master) == {}


def test_the_settings_differ_in_nothing_else() -> None:
    here, there = (started_settings(master, Path("/tmp/s")) for master in ("local[*]", "spark://host:7077"))
    assert {key: value for key, value in here.items() if key not in ADDRESSES} == there
    assert "/tmp/s" in there[JAVA_OPTIONS]


@pytest.mark.parametrize(("scratch", "expected"), [("/tmp/s", "true"), ("/tmp/" + "long" * 20, "false")])
def test_sockets_are_files_where_their_names_fit(scratch: str, expected: str) -> None:
    assert started_settings("local[*]", Path(scratch))["spark.python.unix.domain.socket.enabled"] == expected


def test_only_on_a_local_disk_spark_writes_no_checksums_of_its_own() -> None:
    here, there = streaming_settings("local[*]"), streaming_settings("spark://host:7077")
    assert set(here.items()) - set(there.items()) == {
        ("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false"),
    }
    assert set(there) < set(here)


@pytest.mark.parametrize(("master", "shards"), [("local", 1), ("local[3]", 3), ("local[3,4]", 3), ("yarn", 64)])
def test_shards_are_as_many_as_cores_locally(master: str, shards: int) -> None:
    assert default_shards(master) == shards
