#!/usr/bin/env bash
# All tests that are not slow, in four runs: most of tests/spark, those that kill processes and most of those of connectors, the
# others with Spark, and those without. They run side by side, since one Spark on small batches leaves a core idle half of the time;
# those with Spark take about the same time. All that need a Kafka broker are among the others, and share it. Reports are shown one
# after the other, those of the runs with Spark with their slowest tests.
# Called by make, with PYTHON and PURE_TESTS, the folders that need no Spark; arguments go to the runs with Spark.
set -uo pipefail
cd "$(dirname "$0")/.."

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
read -ra pure <<<"$PURE_TESTS"
most_of_spark=(tests/spark/test_*.py)
mapfile -t connectors < <(printf "%s\n" tests/connectors/test_*.py | grep -v test_kit)

"$PYTHON" -m pytest --durations=12 "${most_of_spark[@]}" "$@" >"$reports/spark" 2>&1 &
of_spark=$!
"$PYTHON" -m pytest --durations=12 tests/recovery "${connectors[@]}" "$@" >"$reports/recovery" 2>&1 &
of_recovery=$!
"$PYTHON" -m pytest --durations=12 "${most_of_spark[@]/#/--ignore=}" "${pure[@]/#/--ignore=}" \
    --ignore=tests/recovery "${connectors[@]/#/--ignore=}" "$@" >"$reports/others" 2>&1 &
of_others=$!

status=0
make --no-print-directory test-pure | tee "$reports/pure" || status=$?

# Shows what a run has written so far, then the rest as it comes, until the run ends.
show() {
    tail -n +1 -f "$1" &
    local shown=$!
    wait "$2" || status=$?
    sleep 1
    kill "$shown"
}
show "$reports/spark" "$of_spark"
show "$reports/recovery" "$of_recovery"
show "$reports/others" "$of_others"

# What libraries say when a process ends comes behind pytest's closing line: so all closing lines once more.
echo
for run in pure spark recovery others; do
    grep -E '^=+ .*(passed|failed|error).* =+$' "$reports/$run" | tail -n 1
done
exit "$status"
