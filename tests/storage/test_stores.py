"""How a store is reached is known from Spark's settings and from the environment, and is not shown."""

from __future__ import annotations

import pytest

from eventide.errors import OptionError
from eventide.storage.paths import path_in, remote_path
from eventide.storage.stores import store_of

HADOOP = "spark.hadoop.fs.s3a"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


def test_settings_of_spark_say_where_it_is_and_those_of_a_bucket_come_first() -> None:
    settings = {
        f"{HADOOP}.endpoint": "minio:9000",
        f"{HADOOP}.connection.ssl.enabled": "false",
        f"{HADOOP}.access.key": "for all",
        f"{HADOOP}.bucket.mine.access.key": "for mine",
        f"{HADOOP}.secret.key": "hush",
    }
    found = store_of("s3a://mine/app", settings)
    assert dict(found.arguments) == {
        "endpoint_override": "http://minio:9000", "access_key": "for mine", "secret_key": "hush",
    }  # fmt: skip
    assert dict(store_of("s3a://other/app", settings).arguments)["access_key"] == "for all"
    assert "hush" not in repr(found) and "for mine" not in repr(found)
    assert found.spark_settings() == {
        f"{HADOOP}.endpoint": "http://minio:9000", f"{HADOOP}.path.style.access": "true",
    }  # fmt: skip


def test_the_environment_says_it_where_settings_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://all.example")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.example")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    known = dict(store_of("s3a://b/app", {}).arguments)
    assert known == {"endpoint_override": "https://s3.example", "region": "eu-central-1"}
    told = dict(store_of("s3a://b/app", {f"{HADOOP}.endpoint": "other.example"}).arguments)
    assert told["endpoint_override"] == "https://other.example"


def test_amazons_own_store_needs_to_be_told_nothing() -> None:
    assert store_of("s3a://b/app", {}).arguments == () and store_of("s3a://b/app", {}).spark_settings() == {}


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s3://b/app", "s3a://"),
        ("gs://b/app", "a folder, or a URI of s3a:// or hdfs://"),
        ("s3a:///app", "s3a://bucket/folder"),
        ("s3a://key:hush@b/app", "environment variables"),
    ],
)
def test_what_is_not_known_is_refused_with_what_to_write_instead(uri: str, words: str) -> None:
    with pytest.raises(OptionError) as refused:
        store_of(uri, {})
    assert words in str(refused.value) and "hush" not in str(refused.value)


def test_a_path_is_what_its_text_says() -> None:
    path = remote_path("s3a://b/a folder/x$1/", {}) / "y#2?.json"
    assert str(path) == "s3a://b/a folder/x$1/y#2?.json" and path_in(str(path), path.store) == path
    assert str(remote_path("hdfs://name:8020/app", {}) / "x") == "hdfs://name:8020/app/x"
    assert str(path.parent) == "s3a://b/a folder/x$1" and str(remote_path("s3a://b", {}) / "x") == "s3a://b/x"
