#!/usr/bin/env bash
# Fetch the jars of HDFS's servers for the tests, once, with Maven, which is installed if that can be done without asking.
# Where they cannot be had it is not an error: the tests that need HDFS are skipped. Everything goes to stderr.
set -euo pipefail
scripts=$(dirname "$0")
. "$scripts/packages.sh"

# The same place as tests/connectors/hdfs_server.py.
JARS=${HDFS_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/eventide/hdfs-3.5.0}

skip() {
  say "$1; the tests that need HDFS are skipped"
  exit 0
}

if [ ! -e "$JARS/complete" ]; then
  command -v mvn >/dev/null 2>&1 || install_any "Maven, which fetches HDFS for the tests," maven || skip "no Maven"
  say "fetching HDFS for the tests (once, about 105 MB)"
  rm -rf "$JARS"
  mvn -q -B -Dstyle.color=never -f "$scripts/hdfs-server.xml" dependency:copy-dependencies \
    -DincludeScope=runtime "-DoutputDirectory=$JARS" >&2 || skip "Maven could not fetch HDFS"
  touch "$JARS/complete"
fi
