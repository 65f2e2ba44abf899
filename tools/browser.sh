#!/usr/bin/env bash
# Sees to a Chromium for the browser tests. Never fails: without one those tests skip and say why.
set -euo pipefail
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  if command -v "$name" >/dev/null; then exit 0; fi
done
id=$(. /etc/os-release 2>/dev/null && echo "${ID:-}" || true)
if [ "$id" = ubuntu ]; then
  # Ubuntu's chromium is a snap, which containers and CI cannot start: take the build made for Playwright.
  if compgen -G "${PLAYWRIGHT_BROWSERS_PATH:-$HOME/.cache/ms-playwright}/chromium*" >/dev/null; then exit 0; fi
  command=(.venv/bin/playwright install --with-deps chromium)
else
  command=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium)
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "no Chromium: the browser tests will be skipped; to run them: sudo ${command[*]}" >&2
  exit 0
fi
echo "installing Chromium for the browser tests" >&2
if [ "$id" != ubuntu ]; then apt-get update -qq || true; fi
"${command[@]}" >/dev/null || echo "Chromium could not be installed: the browser tests will be skipped" >&2
