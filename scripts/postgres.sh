#!/usr/bin/env bash
# Install a PostgreSQL server for the tests if there is none and it can be done without asking. Otherwise it is not an error:
# the tests that need one are skipped, and the command to type is shown. Everything goes to stderr.
set -euo pipefail
. "$(dirname "$0")/packages.sh"

# The same places as tests/connectors/postgres_server.py.
has_postgres() {
  local initdb
  for initdb in /usr/lib/postgresql/*/bin/initdb; do
    if [ -x "$initdb" ]; then return 0; fi
  done
  command -v initdb >/dev/null 2>&1
}

packages() {
  case "$(package_manager || true)" in
    dnf | yum | zypper) echo postgresql-server ;;
    apk) echo postgresql16 postgresql17 ;;
    brew) echo postgresql@17 postgresql@16 ;;
    *) echo postgresql ;;
  esac
}

if ! has_postgres; then
  # shellcheck disable=SC2046
  install_any "PostgreSQL, for the tests of the postgres sink," $(packages) || say "the tests that need PostgreSQL are skipped"
fi
