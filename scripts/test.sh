#!/usr/bin/env bash
# The tests, with the seconds of each step. It runs all steps, whatever fails, then prints a table and one line: N passed, N failed, N skipped.
#
#   scripts/test.sh          what `make test` runs: every Rust suite, the page in Chromium, the Python package
#   scripts/test.sh further  what `make test-all` adds: other browsers, aarch64, Ray, NATS, the manifests, BPF, WebAssembly, fuzz targets
#
# TEST_DEADLINE, seconds since 1970, leaves out each step that would begin after it, and says so. `scripts/setup.sh test` (or test-all) has
# installed what this needs.
set -uo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export NEARLIGHT_BIN=$target/checked/nearlight
# One configuration for everything: crates are built once.
profile=checked
export PATH=$HOME/.cargo/bin:$PATH
cargo nextest --version >/dev/null 2>&1 || { echo "test.sh: there is no cargo-nextest: run scripts/setup.sh test" >&2; exit 1; }
logs=$target/test-logs
mkdir -p "$logs"

names=() seconds=() results=()
passed=0 failed=0 skipped=0

# The sum of the numbers in column 1 of standard input.
sum() { awk '{ total += $1 } END { print total + 0 }'; }
matches() { grep -oE "$1" | grep -oE '[0-9]+' | sum; }

# Adds what runners' closing lines count: nextest, cargo test, node's runner and Python's unittest. A step without such a line counts as one.
count() {
  local log=$1 status=$2 ran=0 bad=0 left=0 nextest_line
  nextest_line=$(grep -E '^ +Summary \[' "$log" | tail -n 1)
  ran=$(($(matches '[0-9]+ passed' <<<"$nextest_line") + $(grep -E '^test result: ' "$log" | matches '[0-9]+ passed')))
  ran=$((ran + $(grep -E '^(# |ℹ )pass ' "$log" | matches '[0-9]+')))
  bad=$(($(matches '[0-9]+ (failed|timed out)' <<<"$nextest_line") + $(grep -E '^test result: ' "$log" | matches '[0-9]+ failed')))
  bad=$((bad + $(grep -E '^(# |ℹ )fail ' "$log" | matches '[0-9]+')))
  left=$(($(grep -E '^test result: ' "$log" | matches '[0-9]+ ignored') + $(grep -E '^(# |ℹ )skipped ' "$log" | matches '[0-9]+')))
  if grep -qE '^Ran [0-9]+ tests? in' "$log"; then
    local all wrong
    all=$(grep -E '^Ran [0-9]+ tests? in' "$log" | matches '^Ran [0-9]+')
    wrong=$(grep -E '^FAILED \(' "$log" | matches '(failures|errors)=[0-9]+')
    left=$((left + $(grep -E '^(OK|FAILED) \(' "$log" | matches 'skipped=[0-9]+')))
    ran=$((ran + all - wrong)) bad=$((bad + wrong))
  fi
  if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
  if [ "$status" = 0 ] && [ "$ran" = 0 ]; then ran=1; fi
  passed=$((passed + ran)) failed=$((failed + bad)) skipped=$((skipped + left))
}

# step TITLE COMMAND [ARGUMENT ...]
step() {
  local title=$1 began log status
  shift
  names+=("$title")
  if [ -n "${TEST_DEADLINE:-}" ] && [ "$(date +%s)" -ge "$TEST_DEADLINE" ]; then
    printf '\n== %s: left out, the time for this run is used up\n' "$title"
    seconds+=(0) results+=("left out") skipped=$((skipped + 1))
    return
  fi
  printf '\n== %s\n' "$title"
  began=$(date +%s)
  log=$logs/${#names[@]}.log
  "$@" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  count "$log" "$status"
  seconds+=($(($(date +%s) - began)))
  results+=("$([ "$status" = 0 ] && echo passed || echo FAILED)")
}

run_nextest() {
  # Three slots a processor: a computing test takes three of them (.config/nextest.toml).
  cargo nextest run --cargo-profile "$profile" --color never --no-tests fail --test-threads $(($(nproc) * 3)) "$@"
}

# A step selects the whole workspace and filters its tests: for a selection of crates cargo would build libraries with other features. (The kernel's
# feature changes libraries of many crates, so its step does select.)
workspace=(--workspace --exclude nearlight-xtask)
# With --lib, because the library for `nearlight hook` is put beside the commands only when it is asked for.
rust_build() {
  cargo build --quiet --profile "$profile" "${workspace[@]}" --lib --bins --tests
}
doc_examples() {
  cargo test --quiet --profile "$profile" --doc "${workspace[@]}"
}
# page CONCURRENCY FILE...
page() {
  (cd web && timeout 1800 node --test --test-concurrency="$1" "${@:2}")
}
# Files that judge what is heard, or have many pages at once, run alone, the others side by side.
timed_page_files=(tests/sound.test.mjs tests/program.test.mjs tests/room.test.mjs)
other_page_files() {
  local file
  for file in web/tests/*.test.mjs; do
    file=${file#web/}
    case " ${timed_page_files[*]} tests/firefox.test.mjs tests/webkit.test.mjs tests/fleet.test.mjs tests/nearest.test.mjs " in
      *" $file "*) ;;
      *) echo "$file" ;;
    esac
  done
}

case ${1:-} in
  "")
    step "building the Rust suites" rust_build
    step "every Rust suite" run_nextest "${workspace[@]}"
    step "examples in the documentation" doc_examples
    mapfile -t files < <(other_page_files)
    step "the page in Chromium, side by side" page "$(nproc)" "${files[@]}"
    step "the page in Chromium, one after another" page 1 "${timed_page_files[@]}"
    step "the Python package, installed from its wheel" scripts/python.sh test
    step "installing into a folder, and removing" scripts/test-install.sh "$target/$profile"
    ;;
  further)
    step "Kubernetes' manifests" deploy/kubernetes/check.sh
    step "a NATS server for the tests" scripts/go-program.sh nats-server
    step "rooms and fronts that share NATS" run_nextest --profile all "${workspace[@]}" -E 'package(nearlight-cli) and test(/^(fleet|front)::/)'
    step "the page in Firefox and WebKit, and at a fleet" page 1 tests/firefox.test.mjs tests/webkit.test.mjs tests/fleet.test.mjs tests/nearest.test.mjs
    step "congestion control in the kernel" run_nextest -p nearlight-kernel --features bpf
    step "erasure codes' kernels in WebAssembly against the plain one" scripts/wasi-kernels.sh check simd128
    step "fuzz targets build and run" scripts/fuzz.sh 2
    step "the receiving library for aarch64, under QEMU" scripts/test-aarch64.sh
    step "packages on a bare system, if make dist has made them" scripts/test-dist.sh
    step "a sweep of the lab over a Ray cluster, of which a node dies" env NEARLIGHT_BIN="$target/checked/nearlight-lab" deploy/sweeps/test.sh
    ;;
  *)
    echo "usage: scripts/test.sh [further]" >&2
    exit 2
    ;;
esac

printf '\n%7s  %-8s  %s\n' seconds result step
for index in "${!names[@]}"; do
  printf '%7d  %-8s  %s\n' "${seconds[index]}" "${results[index]}" "${names[index]}"
done
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
