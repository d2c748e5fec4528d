#!/usr/bin/env bash
# Clients of every kind come and go at a server for hours while things go wrong: scripts/soak.sh HOURS. Run `make build` first; `scripts/soak.sh --help`
# lists the options, scripts/soak.py says what happens.
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 scripts/soak.py "$@"
