"""The settings of a Spark that is started here, by where it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventide.spark.settings import (
    JAVA_OPTIONS,
    is_local,
    local_cores,
    promised_cores,
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


def test_executors_are_told_of_no_folder_of_the_drivers_machine() -> None:
    """Settings reach executors as well: their disks, and the sockets to their Pythons, are none of the driver's."""
    here, there = (started_settings(master, Path("/tmp/s")) for master in ("local[*]", "spark://host:7077"))
    only_here = {
        "spark.ui.enabled",
        "spark.local.dir",
        "spark.python.unix.domain.socket.enabled",
        "spark.buffer.pageSize",
    }
    of_the_page = {name for name in here if ".retained" in name}
    assert set(here) - set(there) == ADDRESSES | only_here | of_the_page and set(there) < set(here)
    assert {key for key, value in there.items() if "/tmp/s" in value} == {JAVA_OPTIONS, "spark.sql.warehouse.dir"}
    assert JAVA_OPTIONS == "spark.driver.extraJavaOptions"


def test_streams_share_the_cores() -> None:
    for master in ("local[*]", "yarn"):
        assert started_settings(master, Path("/tmp/s"))["spark.scheduler.mode"] == "FAIR"


def test_columns_do_not_carry_the_line_that_made_them() -> None:
    for master in ("local[*]", "yarn"):
        assert started_settings(master, Path("/tmp/s"))["spark.python.sql.dataFrameDebugging.enabled"] == "false"


@pytest.mark.parametrize(("scratch", "expected"), [("/tmp/s", "true"), ("/tmp/" + "long" * 20, "false")])
def test_sockets_are_files_where_their_names_fit(scratch: str, expected: str) -> None:
    assert started_settings("local[*]", Path(scratch))["spark.python.unix.domain.socket.enabled"] == expected


def test_only_on_a_local_disk_spark_writes_no_checksums_of_its_own() -> None:
    here, there = streaming_settings("local[*]"), streaming_settings("spark://host:7077")
    assert set(here.items()) - set(there.items()) == {
        ("spark.sql.streaming.checkpoint.fileChecksum.enabled", "false"),
    }
    assert set(there) < set(here)


@pytest.mark.parametrize(("master", "cores"), [("local", 1), ("local[3]", 3), ("local[3,4]", 3), ("yarn", None)])
def test_the_cores_of_a_local_spark_are_in_its_master(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


@pytest.mark.parametrize(
    ("conf", "cores"),
    [
        ({}, None),
        ({"cores.max": "12", "executor.cores": "4"}, 12),
        ({"executor.instances": "5", "executor.cores": "3"}, 15),
        ({"executor.instances": "5"}, 5),
        ({"dynamicAllocation.enabled": "true", "executor.instances": "2", "executor.cores": "4"}, None),
        ({"dynamicAllocation.enabled": "true", "dynamicAllocation.maxExecutors": "7", "executor.cores": "2"}, 14),
        ({"default.parallelism": "9", "cores.max": "12"}, 9),
    ],
)
def test_settings_promise_cores(conf: dict[str, str], cores: int | None) -> None:
    assert promised_cores({f"spark.{key}": value for key, value in conf.items()}) == cores
