#!/usr/bin/env bash
# Measures: what the parts cost, then the whole path with its published plan (docs/results/live.md): 1280x720 at 30 frames a second,
# server and headless client on this machine, clean and with 2 % loss, then headless Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."
nearlight="$(realpath "${CARGO_TARGET_DIR:-target}")/release/nearlight"
seconds=${SECONDS_EACH:-20}

printf '== parts (criterion medians)\n'
cargo bench --quiet -p nearlight-session -p nearlight-rate -p nearlight-codec --bench packet --bench feedback --bench codec -- \
  --quick --discard-baseline | grep -vE '^$|thrpt:'

printf '\n== a program with the server in its process: what submitting costs, from picture to packet, both modes, and from packet to decoder\n'
cargo bench --quiet -p nearlight-embed --bench submit -- --quick --discard-baseline | grep -vE '^$|thrpt:'
cargo bench --quiet -p nearlight-embed --bench datapath
cargo bench --quiet -p nearlight-embed --bench arrival

printf '\n== pictures of OpenGL: where they become planes\n'
cargo bench --quiet -p nearlight-embed --features graphics --bench gl

printf '\n== erasure codes, ours and others (microseconds by sources+repairs of 1,200 bytes)\n'
cargo run --quiet --release -p nearlight-fec-bench

printf '\n== erasure codes in WebAssembly (node)\n'
scripts/wasi-kernels.sh

whole_path() {
  local title=$1; shift
  local out server url
  out=$(mktemp)
  "$nearlight" serve --json --port 0 --size 1280x720 --fps 30 "$@" >"$out" 2>/dev/null &
  server=$!
  while ! grep -q url "$out"; do sleep 0.1; kill -0 "$server"; done
  url=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' "$out")
  printf '\n== whole path: %s\n' "$title"
  "$nearlight" view "$url" --headless --seconds "$seconds"
  kill -INT "$server"
  wait "$server" || true
}
whole_path "1280x720 at 30 fps, clean"
whole_path "1280x720 at 30 fps, 2 % loss each way" --drop 2%
whole_path "1280x720 at 30 fps, VP8" --codec vp8

printf '\n== viewers of the same pictures: --test-card at 1280x720, 30 frames a second, encoded once and for each viewer\n'
cargo build --quiet --release -p nearlight-client --example many_viewers
watched() {
  local shared=$1 viewers=$2 out server url began ended from
  out=$(mktemp)
  "$nearlight" serve --json --port 0 --test-card --size 1280x720 --fps 30 --sound off --max-clients 64 --shared-encodes "$shared" \
    >"$out" 2>/dev/null &
  server=$!
  while ! grep -q url "$out"; do sleep 0.1; kill -0 "$server"; done
  url=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' "$out")
  cpu_ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; }
  # The arrival of each viewer takes a quarter of a second and is not measured.
  "$(dirname "$nearlight")/examples/many_viewers" "$url" "$viewers" $((seconds + viewers / 4 + 4)) &
  sleep $((viewers / 4 + 2))
  from=$(cpu_ticks) began=$(date +%s%N)
  sleep "$seconds"
  ended=$(date +%s%N)
  printf 'shared %s, %s viewers: the server takes %s %% of a core\n' "$shared" "$viewers" \
    $((($(cpu_ticks) - from) * 100000000000 / $(getconf CLK_TCK) / (ended - began)))
  wait $!
  kill -INT "$server"
  wait "$server" || true
}
for viewers in 1 5 20; do watched on "$viewers"; done
for viewers in 1 5; do watched off "$viewers"; done

if [ -d web/node_modules ]; then
  printf '\n== headless Chromium\n'
  (cd web && NEARLIGHT_BIN="$nearlight" node tests/bench.mjs "$seconds")
fi

printf '\n== Ethernet frames and UDP between two network namespaces\n'
scripts/bench-ethernet.sh

printf '\n== OpenUVR, one optimisation after another\n'
if [ "$(id -u)" = 0 ]; then
  "$nearlight" lab ladder
else
  echo "needs root for network namespaces; left out" >&2
fi
