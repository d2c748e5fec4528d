#!/usr/bin/env bash
# The receiving library for aarch64 (a Raspberry Pi, say): compiled, linked into library/examples/viewer.c, and run under QEMU against a server of this
# machine, until it has decoded a picture. Left out, in words, where a tool is missing.
#
#   scripts/test-aarch64.sh       after `cargo build --release` or `cargo test --release`; NEARLIGHT_BIN names another server
set -euo pipefail
cd "$(dirname "$0")/.."
triple=aarch64-unknown-linux-gnu
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
nearlight=${NEARLIGHT_BIN:-$target/release/nearlight}

leave_out() {
  echo "test-aarch64: left out: $*" >&2
  exit 0
}
for tool in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++; do
  command -v "$tool" >/dev/null || leave_out "there is no $tool (apt install g++-aarch64-linux-gnu)"
done
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || leave_out "there is no qemu-aarch64 (apt install qemu-user-static)"
[ -d "$(rustc --print sysroot)/lib/rustlib/$triple/lib" ] || leave_out "Rust's library for $triple is not installed (rustup target add $triple)"

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
# The static library alone, compiled fast rather than to run fast: the emulator is slow anyway.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cargo rustc --quiet --release -p nearlight-capi --lib --crate-type staticlib --no-default-features --target "$triple"

work=$(mktemp -d)
server=
trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi; rm -rf "$work"' EXIT
aarch64-linux-gnu-gcc -std=c99 -D_DEFAULT_SOURCE -Wall -Wextra -O1 -I library/include library/examples/viewer.c \
  "$target/$triple/release/libnearlight.a" -lstdc++ -lm -lpthread -ldl -o "$work/viewer"

"$nearlight" serve --json --port 0 --test-card --size 320x192 --fps 10 --sound off >"$work/links" 2>"$work/log" &
server=$!
for _ in $(seq 100); do
  grep -qs url "$work/links" && break
  kill -0 "$server" || { cat "$work/log" >&2; exit 1; }
  sleep 0.1
done
link=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' "$work/links")
timeout 120 "$qemu" -L /usr/aarch64-linux-gnu "$work/viewer" "$link" 8 "$work/picture.ppm"
head -c 15 "$work/picture.ppm" | grep -aqx 'P6 320 192 255' || { echo "test-aarch64: no picture of 320x192 was decoded" >&2; exit 1; }
# Not of one colour.
colours=$(tail -c +16 "$work/picture.ppm" | od -An -v -tx1 -w3 | sort -u | wc -l)
[ "$colours" -gt 10 ] || { echo "test-aarch64: the decoded picture has $colours colours" >&2; exit 1; }
echo "test-aarch64: a viewer for aarch64 has decoded a picture with $colours colours"
