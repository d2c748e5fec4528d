#!/usr/bin/env bash
# The erasure codes' kernels in WebAssembly with vectors, in node: scripts/wasi-kernels.sh [check [KERNEL]] compares and measures them.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS=-Ctarget-feature=+simd128 \
  cargo build --quiet --release --target wasm32-wasip1 -p nearlight-fec-bench
node --no-warnings scripts/wasi.mjs "${CARGO_TARGET_DIR:-target}/wasm32-wasip1/release/nearlight-fec-bench.wasm" "$@"
