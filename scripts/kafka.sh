#!/usr/bin/env bash
# Fetch the jars of a Kafka broker for the tests, once, with Maven, which is installed if that can be done without asking.
# Where it cannot be had it is not an error: the tests that need a broker are skipped. Everything goes to stderr.
set -euo pipefail
scripts=$(dirname "$0")
. "$scripts/packages.sh"

# The same place as tests/connectors/kafka_broker.py.
JARS=${KAFKA_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/eventide/kafka-4.3.1}

skip() {
  say "$1; the tests that need a Kafka broker are skipped"
  exit 0
}

if [ ! -e "$JARS/complete" ]; then
  command -v mvn >/dev/null 2>&1 || install_any "Maven, which fetches a Kafka broker for the tests," maven || skip "no Maven"
  say "fetching a Kafka broker for the tests (once, about 45 MB)"
  rm -rf "$JARS"
  mvn -q -B -Dstyle.color=never -f "$scripts/kafka-broker.xml" dependency:copy-dependencies \
    -DincludeScope=runtime "-DoutputDirectory=$JARS" >&2 || skip "Maven could not fetch the broker"
  touch "$JARS/complete"
fi
