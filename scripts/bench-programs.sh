#!/usr/bin/env bash
# Measures from a key to a changed pixel in the page, and new pictures a second, for a served program beside TigerVNC with noVNC, Xpra and Selkies,
# where they are installed (Debian: tigervnc-standalone-server novnc websockify xpra; pip install selkies):
# bench-programs.sh [KEYS_EACH] [SCENE [WAY]]. Takes about twenty minutes with 60 keys. SCENE: still, motion, fast or large. WAY is part of a name:
# "nearlight", "Selkies".
# bench-programs.sh parts [SECONDS_EACH] measures parts of our own way without a browser, and takes about three minutes: capture, sound, encodes.
# docs/results/programs.md says what is measured, and when figures may be published.
set -euo pipefail
cd "$(dirname "$0")/.."
export NEARLIGHT_BIN="$(realpath "${CARGO_TARGET_DIR:-target}")/release/nearlight"
fail() { echo "bench-programs: $*" >&2; exit 1; }
[ -x "$NEARLIGHT_BIN" ] || fail "build first: make build"
if [ "${1:-}" = parts ]; then
  shift
  bench=(node web/tests/program-parts.mjs "$@")
else
  bench=(node web/tests/program-bench.mjs "$@")
fi
[ -d web/node_modules/playwright-core ] || fail "the page's tools are missing: make build"
command -v cc >/dev/null || fail "a C compiler is missing (Debian: apt install gcc)"
command -v Xvfb >/dev/null || fail "Xvfb is missing (Debian: apt install xvfb)"
# In a network namespace of its own, nobody else's bytes are counted.
if [ "$(id -u)" = 0 ] && unshare --net true 2>/dev/null; then
  exec unshare --net sh -c 'ip link set lo up && exec "$@"' sh "${bench[@]}"
fi
exec "${bench[@]}"
