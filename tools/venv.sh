#!/usr/bin/env bash
# Makes or keeps the virtual environment: tools/venv.sh DIR. Not here: what is installed into it (Makefile, *.lock).
set -euo pipefail
venv=${1:?usage: tools/venv.sh DIR}

usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

if usable "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
  exit 0
fi

python=
# PYTHON=... wins; then the newest this project is tested with, then whatever calls itself python3.
for candidate in ${PYTHON:+"$PYTHON"} python3.13 python3.12 python3.11 python3; do
  if usable "$candidate"; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
  echo "error: no Python 3.11 or newer on this machine" >&2
  echo "  → install one (Debian 12+, Ubuntu 24.04+: apt-get install python3 python3-venv), or: make PYTHON=/path/to/python3 ..." >&2
  exit 1
fi

# Debian and Ubuntu ship Python without ensurepip; `-m venv` then leaves half an environment behind.
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
  package=python3-venv
  case $python in python3.*) package=$python-venv ;; esac
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing $package (needed for python -m venv)" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
  else
    echo "error: $python cannot make virtual environments (no ensurepip)" >&2
    echo "  → sudo apt-get install $package" >&2
    exit 1
  fi
fi

"$python" -m venv --clear "$venv"
echo "made $venv with $("$venv/bin/python" --version)" >&2
