#!/usr/bin/env bash
# All tests that are not slow, in two runs side by side: Spark leaves a core idle now and then. Reports come one after the other.
# Called by make, with PYTHON and PURE_TESTS, the folders that need no Spark; arguments go to the run with Spark.
set -uo pipefail
cd "$(dirname "$0")/.."

report=$(mktemp)
trap 'rm -f "$report"' EXIT
read -ra pure <<<"$PURE_TESTS"
"$PYTHON" -m pytest "${pure[@]/#/--ignore=}" "$@" >"$report" 2>&1 &
with_spark=$!

status=0
make --no-print-directory test-pure || status=$?

tail -n +1 -f "$report" &
shown=$!
wait "$with_spark" || status=$?
sleep 1
kill "$shown"
exit "$status"
