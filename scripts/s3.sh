#!/usr/bin/env bash
# Fetch what tests of s3a:// need, once: hadoop-aws by Maven, and moto's server, which is an S3 in memory, in a Python
# environment of its own: Amazon's client, on which it builds, wants other versions than we do. Where they cannot be had it
# is not an error: the tests that need an S3 are skipped. Everything goes to stderr.
set -euo pipefail
scripts=$(dirname "$0")
. "$scripts/packages.sh"

# The same place as tests/connectors/s3_server.py.
PLACE=${S3_FOR_TESTS:-${XDG_CACHE_HOME:-$HOME/.cache}/eventide/s3-hadoop-3.5.0-moto-5.2.5}
PYTHON=${VENV:-$scripts/../.venv}/bin/python
SPARK_HAS=io.netty,org.slf4j,commons-logging,commons-codec,org.apache.httpcomponents

skip() {
  say "$1; the tests that need an S3 server are skipped"
  exit 0
}

if [ ! -e "$PLACE/complete" ]; then
  command -v mvn >/dev/null 2>&1 || install_any "Maven, which fetches hadoop-aws for the tests," maven || skip "no Maven"
  say "fetching hadoop-aws and an S3 server for the tests (once, about 35 MB)"
  rm -rf "$PLACE"
  mvn -q -B -Dstyle.color=never -f "$scripts/s3-jars.xml" dependency:copy-dependencies -DincludeScope=runtime \
    -DexcludeGroupIds=$SPARK_HAS "-DoutputDirectory=$PLACE/jars" >&2 || skip "Maven could not fetch hadoop-aws"
  "$PYTHON" -m venv "$PLACE/server" >&2 || skip "no Python environment for moto"
  "$PLACE/server/bin/python" -m pip install --quiet --disable-pip-version-check -r "$scripts/s3-server.txt" >&2 ||
    skip "pip could not fetch moto"
  touch "$PLACE/complete"
fi
