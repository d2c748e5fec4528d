#!/usr/bin/env bash
# Runs every fuzz target for some seconds (default 60): scripts/fuzz.sh [SECONDS]
#
# The targets are built by the pinned toolchain: coverage comes from its own sanitizer pass, which only needs unstable flags to be
# allowed. A crash leaves its input in fuzz/artifacts and prints the command that replays it.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions=on -Coverflow-checks=on -Ccodegen-units=1"
target=${CARGO_TARGET_DIR:-target}
host=$(rustc -vV | sed -n 's/^host: //p')
cargo build --quiet --release --target "$host"
for source in fuzz_targets/*.rs; do
  name=$(basename "$source" .rs)
  mkdir -p "corpus/$name" "artifacts/$name"
  printf 'fuzz %-12s %s s ... ' "$name" "$seconds"
  log=$(mktemp)
  if "$target/$host/release/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
      -artifact_prefix="artifacts/$name/" "corpus/$name" >"$log" 2>&1; then
    grep -o 'Done [0-9]* runs' "$log" || echo done
    rm -f "$log"
  else
    echo "FAILED"
    tail -40 "$log"
    echo "replay: cd fuzz && $target/$host/release/$name artifacts/$name/<the newest file>"
    exit 1
  fi
done
