#!/usr/bin/env bash
# The C examples of server and viewer under valgrind: no invalid access, no decision by memory that was never written, no leak. What the tests
# cannot see with the C compiler's sanitizers is the library's own memory: it is built without them.
#
#   scripts/check-memory.sh              builds the library; needs valgrind, and takes a minute
#
# NEARLIGHT_LIBRARY names a static library that was built before. Reports that are no faults are in scripts/valgrind.supp, each with its reason.
# VALGRIND has further options, such as --gen-suppressions=all --track-origins=yes.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "check-memory: there is no valgrind: apt install valgrind" >&2; exit 1; }

work=$(mktemp -d)
trap 'for id in $(jobs -p); do kill "$id" 2>/dev/null || true; done; wait; rm -rf "$work"' EXIT
scripts/install-library.sh "$work" >/dev/null
export LD_LIBRARY_PATH=$work/lib
fail() { echo "check-memory: $*" >&2; exit 1; }

for name in five_calls viewer openuvr_device; do
  cc -std=c99 -D_DEFAULT_SOURCE -O1 -g -I "$work/include" "library/examples/$name.c" -L "$work/lib" -lnearlight -o "$work/$name"
done
c++ -std=c++17 -O1 -g -I "$work/include" library/examples/five_calls.cpp -L "$work/lib" -lnearlight -o "$work/five_calls_cpp"

# Valgrind runs one thread at a time; with its fair lock no thread waits for seconds.
read -ra more <<<"${VALGRIND:-}"
checked=(valgrind -q --fair-sched=yes --error-exitcode=9 --num-callers=40 --leak-check=full --show-leak-kinds=definite,indirect
  --errors-for-leak-kinds=definite,indirect --suppressions=scripts/valgrind.supp ${more[@]+"${more[@]}"})

# The first link that a program prints.
link_in() {
  for _ in $(seq 600); do
    sed -n 's/.*\(https\{0,1\}:[^ "]*#[^ "]*\).*/\1/p' "$1" | head -n 1 | grep . && return
    sleep 0.1
  done
  return 1
}

# A server that is not checked, for the viewers.
"$work/five_calls" >"$work/links" &
plain=$!
link=$(link_in "$work/links") || fail "five_calls prints no link"

# Under valgrind it may take longer to connect than the library waits.
receives() {
  local name=$1
  shift
  for _ in 1 2 3; do
    "${checked[@]}" "$work/$name" "$@" >"$work/out" 2>&1 && { echo "$name: clean"; return; }
    grep -q "no server answered" "$work/out" || break
  done
  fail "$name: $(cat "$work/out")"
}
receives viewer "$link" 6 "$work/picture.ppm"
[ -s "$work/picture.ppm" ] || fail "viewer has seen no picture"
mkfifo "$work/mouse" "$work/keyboard"
sleep 1000 >"$work/mouse" &
sleep 1000 >"$work/keyboard" &
receives openuvr_device "$link" 6 "$work/device.ppm" "$work/mouse" "$work/keyboard"
[ -s "$work/device.ppm" ] || fail "openuvr_device has seen no picture"
kill "$plain"

for name in five_calls five_calls_cpp; do
  "${checked[@]}" "$work/$name" >"$work/printed" 2>"$work/out" &
  server=$!
  link=$(link_in "$work/printed") || fail "$name: $(cat "$work/out")"
  rm -f "$work/picture.ppm"
  "$work/viewer" "$link" 8 "$work/picture.ppm" >"$work/seen" 2>&1 || fail "$name is not seen: $(cat "$work/seen")"
  [ -s "$work/picture.ppm" ] || fail "$name shows no picture: $(cat "$work/out")"
  kill "$server"
  wait "$server" || fail "$name: $(cat "$work/out")"
  echo "$name: clean"
done
