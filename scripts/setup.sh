#!/usr/bin/env bash
# Create .venv with Eventide, its pinned dependencies and the development tools. PYTHON chooses the interpreter,
# EXTRAS what else is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

VENV=${VENV:-.venv}
EXTRAS=${EXTRAS:-dev}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
  local name
  for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14 python; do
    if command -v "$name" >/dev/null 2>&1 && is_new_enough "$name"; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

python_packages() {
  case "$(package_manager || true)" in
    apt-get) echo python3.13 python3.12 python3.11 ;;
    dnf | yum) echo python3.12 python3.11 python3 ;;
    zypper) echo python312 python311 ;;
    brew) echo python@3.13 python@3.12 ;;
    *) echo python3 ;;
  esac
}

need_python() {
  local found
  found=$(for name in python3 python; do command -v "$name" >/dev/null 2>&1 && "$name" --version 2>&1; done | head -n 1) || true
  say "error: Eventide needs Python 3.11 or newer; found: ${found:-none}"
  say "  install one (package names here: $(python_packages)), or name one: make PYTHON=/path/to/python3.12 …"
  exit 1
}

make_venv() {
  "$1" -m venv "$VENV" && return 0
  # Debian and Ubuntu have venv in a separate package.
  local version
  version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  rm -rf "$VENV"
  install_any "Python's venv module" "python$version-venv" python3-venv
  "$1" -m venv "$VENV"
}

if ! { [ -x "$VENV/bin/python" ] && is_new_enough "$VENV/bin/python" && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; }; then
  python=$(find_python) || need_python
  say "creating $VENV with $("$python" --version)"
  rm -rf "$VENV"
  make_venv "$python"
fi
say "installing pinned dependencies into $VENV (the first time downloads about 600 MB, Spark mostly)"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[$EXTRAS]"
