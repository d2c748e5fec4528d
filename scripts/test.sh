#!/usr/bin/env bash
# Every test, from fast to slow. `make test` has installed and built what this needs.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}

step() { printf '\n== %s\n' "$*"; }

step "Kubernetes' manifests"
deploy/kubernetes/check.sh

# Two servers share rooms through it.
step "a NATS server for the tests"
scripts/go-program.sh nats-server

# With the feature, and not once without and once with it: it takes no other test away.
step "every crate, and the command end to end"
cargo test --release --workspace --exclude nearlight-xtask --features nearlight-cli/fleet

step "congestion control in the kernel"
cargo test --release -p nearlight-kernel --features bpf

step "the Python package, installed from its wheel"
scripts/python.sh test

step "the receiving library for aarch64, under QEMU"
NEARLIGHT_BIN="$(realpath "$target")/release/nearlight" scripts/test-aarch64.sh

step "a sweep of the lab over a Ray cluster, of which a node dies"
NEARLIGHT_BIN="$(realpath "$target")/release/nearlight" deploy/sweeps/test.sh

step "the erasure codes' kernel for browsers against the plain one"
scripts/wasi-kernels.sh check simd128

# They are small and build in seconds.
step "the state machines once more, with overflow and debug assertions on"
cargo test --quiet -p nearlight-units -p nearlight-wire -p nearlight-events -p nearlight-rate -p nearlight-pace -p nearlight-session

step "fuzz targets build and run"
scripts/fuzz.sh 2

step "the page against the built server, in Chromium and in Firefox"
# They take a few minutes; what takes half an hour hangs.
(cd web && NEARLIGHT_BIN="$(realpath "../$target" 2>/dev/null || realpath "$target")/release/nearlight" timeout 1800 npm test)
