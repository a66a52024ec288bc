"""An S3 server for the tests: moto's, in memory, on the loopback; scripts/s3.sh fetches it, and the jars for Spark."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from pyarrow import fs

MISSING = "no S3 server: scripts/s3.sh fetches one, and hadoop-aws, with pip and Maven"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "eventide"
PLACE = Path(os.environ.get("S3_FOR_TESTS") or _CACHE / "s3-hadoop-3.5.0-moto-5.2.5")
KEY, SECRET, REGION = "a-key-of-tests", "a-secret-of-tests", "us-east-1"  # moto takes any


def is_there() -> bool:
    """Whether a server can be started here."""
    return (PLACE / "complete").exists()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class S3Server:
    """What was stored is gone when the server ends."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self.address = f"127.0.0.1:{_free_port()}"
        self.endpoint = f"http://{self.address}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        host, port = self.address.split(":")
        command = [str(PLACE / "server" / "bin" / "moto_server"), "-H", host, "-p", port]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        for _ in range(1200):
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 0.2):
                return
            time.sleep(0.05)
        raise RuntimeError(f"the S3 server did not start:\n{self._log.read_text()[-2000:]}")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def requests(self) -> int:
        """How many it has answered so far."""
        return len(re.findall(r'"[A-Z]+ /[^"]* HTTP/1', self._log.read_text()))

    @property
    def files(self) -> fs.S3FileSystem:
        """Its objects, `bucket/key`, as Arrow sees them."""
        return fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            endpoint_override=self.endpoint,
            region=REGION,
            allow_bucket_creation=True,
        )

    def new_bucket(self) -> str:
        name = f"b{uuid.uuid4().hex[:12]}"
        self.files.create_dir(name)
        return name

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach it, in the variables that Amazon's own tools read."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL_S3": self.endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def spark_settings(self) -> dict[str, str]:
        """What Spark needs to reach it under s3a://, and the jars."""
        return {
            "spark.jars": ",".join(sorted(map(str, (PLACE / "jars").glob("*.jar")))),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": KEY,
            "spark.hadoop.fs.s3a.secret.key": SECRET,
            # moto's server says 100 (continue) in a way that the client behind this takes for the answer
            "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
        }


@contextlib.contextmanager
def running_s3(log: Path) -> Iterator[S3Server]:
    server = S3Server(log)
    try:
        server.start()
        yield server
    finally:
        server.stop()
