#!/usr/bin/env bash
# All tests that are not slow, in four runs: most of tests/spark, those that kill processes and most of those of connectors, the
# others with Spark, and those without. They run side by side, since one Spark on small batches leaves a core idle half of the time;
# those with Spark take about the same time. All that need a Kafka broker are among the others, and share it. Reports are shown one
# after the other, those of the runs with Spark with their slowest tests.
# With SLOW=1 the slow ones: transcripts, the rest of tests/spark, and all others.
# Called by make, with PYTHON and PURE_TESTS, the folders that need no Spark; arguments go to the runs with Spark.
set -uo pipefail
cd "$(dirname "$0")/.."

reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
read -ra pure <<<"$PURE_TESTS"
most_of_spark=(tests/spark/test_*.py)
transcripts=tests/spark/test_transcripts.py
mapfile -t rest_of_spark < <(printf "%s\n" "${most_of_spark[@]}" | grep -v "$transcripts")
mapfile -t connectors < <(printf "%s\n" tests/connectors/test_*.py | grep -v test_kit)
status=0
declare -A process

# Starts a run in the background: its name, then what pytest is told.
begin() {
    "$PYTHON" -m pytest --durations=12 "${@:2}" >"$reports/$1" 2>&1 &
    process[$1]=$!
}

# Shows what a run has written so far, then the rest as it comes, until the run ends.
show() {
    tail -n +1 -f "$reports/$1" &
    local shown=$!
    wait "${process[$1]}" || status=$?
    sleep 1
    kill "$shown"
}

if [ -n "${SLOW:-}" ]; then
    runs=(transcripts spark others)
    begin transcripts -m slow "$transcripts" "$@"
    begin spark -m slow "${rest_of_spark[@]}" "$@"
    begin others -m slow "${most_of_spark[@]/#/--ignore=}" "$@"
else
    runs=(pure spark recovery others)
    begin spark "${most_of_spark[@]}" "$@"
    begin recovery tests/recovery "${connectors[@]}" "$@"
    begin others "${most_of_spark[@]/#/--ignore=}" "${pure[@]/#/--ignore=}" \
        --ignore=tests/recovery "${connectors[@]/#/--ignore=}" "$@"
    make --no-print-directory test-pure | tee "$reports/pure" || status=$?
fi
for run in "${!process[@]}"; do
    show "$run"
done

# What libraries say when a process ends comes behind pytest's closing line: so all closing lines once more.
echo
for run in "${runs[@]}"; do
    grep -E '^=+ .*(passed|failed|error).* =+$' "$reports/$run" | tail -n 1
done
exit "$status"
