#!/usr/bin/env bash
# Measures from a key to a changed pixel in the page, for a served program beside TigerVNC with noVNC and beside Xpra, where they are
# installed (Debian: tigervnc-standalone-server novnc websockify xpra); takes about two minutes. docs/results/programs.md says how.
set -euo pipefail
cd "$(dirname "$0")/.."
export NEARLIGHT_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/release/nearlight"
[ -x "$NEARLIGHT_BIN" ] || { echo "bench-programs: build first: make build" >&2; exit 1; }
bench=(node web/tests/program-bench.mjs "$@")
# In a network namespace of its own, nobody else's bytes are counted.
if [ "$(id -u)" = 0 ] && unshare --net true 2>/dev/null; then
  exec unshare --net sh -c 'ip link set lo up && exec "$@"' sh "${bench[@]}"
fi
exec "${bench[@]}"
