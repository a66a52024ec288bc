#!/usr/bin/env bash
# The core transcripts, each whole, with restarts and row by row, on other versions of Spark: by default the oldest and the
# newest that pyproject.toml allows. Each version has an environment of its own in the cache folder, with the wheel and not the
# source tree. CASES runs another command as well, in the same environment: CASES="run.py core.yaml" make test-versions
set -euo pipefail
cd "$(dirname "$0")/.."
versions=("$@")
[ ${#versions[@]} -gt 0 ] || versions=("4.1.*" "4.3.*")
PYTHON=${PYTHON:-.venv/bin/python}
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/eventide/versions

built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
"$PYTHON" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$built" .
wheel=$(echo "$built"/eventide-*.whl)
grep -v "^pyspark" constraints.txt >"$built/constraints.txt"
pip_install=(-m pip install --quiet --disable-pip-version-check --constraint "$built/constraints.txt")

status=0
for version in "${versions[@]}"; do
  env=$CACHE/${version//[^0-9.]/x}
  [ -x "$env/bin/python" ] || "$PYTHON" -m venv "$env"
  "$env/bin/python" "${pip_install[@]}" "pyspark==$version" PyYAML pytest pytest-timeout hypothesis
  "$env/bin/python" "${pip_install[@]}" --force-reinstall --no-deps "$wheel"
  "$env/bin/python" "${pip_install[@]}" "$wheel"
  echo "== pyspark $("$env/bin/python" -c 'import pyspark; print(pyspark.__version__)')"
  work=$(mktemp -d "$built/XXXXXX")
  cp -r tests "$work/" && mkdir "$work/docs" && cp docs/spark_api.md "$work/docs/"
  (
    cd "$work"
    unset PYTHONPATH PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON
    "$env/bin/python" -m pytest -q --import-mode=importlib -p no:cacheprovider \
      tests/spark/test_transcripts.py tests/spark/test_private_api.py -k "core or the_installed_spark" "-o" "markers=slow" \
      || exit 1
    if [ -n "${CASES:-}" ]; then
      # shellcheck disable=SC2086
      "$env/bin/python" $CASES || exit 1
    fi
  ) || { status=1; echo "== pyspark $version failed"; }
  rm -rf "$work"
done
exit "$status"
