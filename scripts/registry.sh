#!/usr/bin/env bash
# Fetch a schema registry for the tests, once: Apicurio, which answers as Confluent's does. Where it cannot be had it is
# not an error: the tests that need one are skipped. Everything goes to stderr.
set -euo pipefail
scripts=$(dirname "$0")
. "$scripts/packages.sh"

VERSION=3.0.9 # the newest that runs on Java 17
# The same place as tests/connectors/schema_registry.py.
FOLDER=${APICURIO_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/eventide/apicurio-$VERSION}

skip() {
  say "$1; the tests that need a schema registry are skipped"
  exit 0
}

if [ ! -e "$FOLDER/complete" ]; then
  command -v mvn >/dev/null 2>&1 || install_any "Maven, which fetches a schema registry for the tests," maven || skip "no Maven"
  say "fetching a schema registry for the tests (once, about 110 MB)"
  rm -rf "$FOLDER"
  mkdir -p "$FOLDER"
  mvn -q -B -Dstyle.color=never dependency:copy -Dmdep.useBaseVersion=true "-DoutputDirectory=$FOLDER" \
    "-Dartifact=io.apicurio:apicurio-registry-app:$VERSION:tar.gz:all" >&2 || skip "Maven could not fetch the registry"
  tar -xzf "$FOLDER/apicurio-registry-app-$VERSION-all.tar.gz" -C "$FOLDER" || skip "the registry could not be unpacked"
  rm "$FOLDER/apicurio-registry-app-$VERSION-all.tar.gz"
  touch "$FOLDER/complete"
fi
