#!/usr/bin/env bash
# Install what looks at Eventide in the tests, if it is not there and can be had without asking: a browser for the dashboard,
# and promtool for the metrics. Otherwise it is not an error: tests that need one are skipped, and the command is shown.
set -euo pipefail
. "$(dirname "$0")/packages.sh"

# The same names as tests/web/browser.py.
has_browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

if ! has_browser >/dev/null 2>&1; then
  install_any "Chromium, for the tests of the dashboard," chromium || say "the tests of the page are skipped"
fi
if ! command -v promtool >/dev/null 2>&1; then
  install_any "promtool, for the tests of the metrics," prometheus || say "promtool does not check the metrics"
fi
