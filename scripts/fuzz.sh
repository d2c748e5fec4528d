#!/usr/bin/env bash
# Runs every fuzz target for some seconds (default 60), or those that are named: scripts/fuzz.sh [SECONDS [TARGET...]]
# Keeps what reached new code, as small as it can be, for later runs and other machines: scripts/fuzz.sh --keep
#
# Each target starts from the inputs in fuzz/seeds/TARGET.tar.gz, which are in the repository and only read, and from what earlier runs have left
# in fuzz/corpus. The targets are built by the pinned toolchain: coverage comes from its own sanitizer pass, which only needs unstable
# flags to be allowed. A crash leaves its input in fuzz/artifacts and prints the command that replays it.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
# The largest size of a kept input and of all archives together, in bytes.
longest=512
most=900000
seconds=${1:-60}
shift || true
export RUSTC_BOOTSTRAP=1
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions=on -Coverflow-checks=on -Ccodegen-units=1"
target=${CARGO_TARGET_DIR:-target}
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
host=$(rustc -vV | sed -n 's/^host: //p')
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for source in fuzz_targets/*.rs; do names+=("$(basename "$source" .rs)"); done
fi
cargo build --quiet --locked --release --target "$host" "${names[@]/#/--bin=}"
failed=()
for name in "${names[@]}"; do
  mkdir -p "corpus/$name" "$seeds/$name" "artifacts/$name"
  [ ! -f "seeds/$name.tar.gz" ] || tar -xzf "seeds/$name.tar.gz" -C "$seeds/$name"
  program=$target/$host/release/$name
  log=$(mktemp)
  if [ "$seconds" = --keep ]; then
    fresh=$(mktemp -d)
    "$program" -set_cover_merge=1 -max_len=$longest -timeout=10 "$fresh" "$seeds/$name" "corpus/$name" >"$log" 2>&1 || { tail -40 "$log"; exit 1; }
    # The archive depends on the inputs alone, whose names are their hashes.
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$fresh" -cf - . | gzip -9n >"seeds/$name.tar.gz"
    kept=$(find "$fresh" -type f | wc -l)
    rm -rf "$fresh" "$log"
    printf 'seeds %-14s %s inputs\n' "$name" "$kept"
    continue
  fi
  printf 'fuzz %-14s %s s ... ' "$name" "$seconds"
  if "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 \
      -artifact_prefix="artifacts/$name/" "corpus/$name" "$seeds/$name" >"$log" 2>&1; then
    grep -o 'Done [0-9]* runs' "$log" || echo done
    rm -f "$log"
  else
    echo "FAILED"
    tail -40 "$log"
    echo "replay: cd fuzz && $program artifacts/$name/<the newest file>"
    failed+=("$name")
  fi
done
[ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
if [ "$seconds" = --keep ]; then
  size=$(find seeds -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }')
  echo "$size bytes in fuzz/seeds"
  [ "$size" -le $most ] || { echo "That is more than $most bytes: keep shorter inputs."; exit 1; }
fi
