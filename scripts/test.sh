#!/usr/bin/env bash
# Every test, from fast to slow. `make test` has installed and built what this needs.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}

step() { printf '\n== %s\n' "$*"; }

# The state machines once more with overflow and debug assertions on: they are small and build in seconds.
step "state machines, with debug assertions"
cargo test --quiet -p nearlight-units -p nearlight-wire -p nearlight-events -p nearlight-rate -p nearlight-pace -p nearlight-session

step "every crate, as released"
cargo test --release --workspace --exclude nearlight-xtask

step "fuzz targets build and run"
scripts/fuzz.sh 2

step "the page against the built server, in headless Chromium"
(cd web && NEARLIGHT_BIN="$(realpath "../$target" 2>/dev/null || realpath "$target")/release/nearlight" npm test)
