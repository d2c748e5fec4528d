#!/usr/bin/env bash
# Repeats the Rust suites and the page's tests, and lists which tests failed how often: half of the runs on the machine as it is, half beside
# as many busy loops as there are processors.
#
#   scripts/flaky.sh [RUNS [quiet|busy]]     10 by default; with a second word, all runs are of that kind. After `make test`, which builds what
#                                            it needs
set -uo pipefail
cd "$(dirname "$0")/.."
runs=${1:-10}
kinds=${2:-both}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
failures=$target/test-logs/failures
mkdir -p "$(dirname "$failures")"
: >"$failures"
loops=()
stop_loops() {
  [ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2>/dev/null
  loops=()
}
trap stop_loops EXIT

for run in $(seq "$runs"); do
  kind=quiet
  [ "$run" -le $(((runs + 1) / 2)) ] || kind=busy
  [ "$kinds" = both ] || kind=$kinds
  if [ "$kind" = busy ]; then
    for _ in $(seq "$(nproc)"); do
      (while :; do :; done) &
      loops+=($!)
    done
  fi
  began=$(date +%s)
  scripts/test.sh >"$target/test-logs/run-$run.log" 2>&1
  status=$?
  stop_loops
  # nextest names a failed test in a line of its own, node's runner marks it.
  grep -hE '^ +(FAIL|TIMEOUT|SIGABRT|SIGSEGV) \[|^ *(not ok|✖) ' "$target/test-logs/run-$run.log" |
    sed -E 's/^ +(FAIL|TIMEOUT|SIG[A-Z]+) \[[^]]*\] +(\([^)]*\) +)?//; s/^ *(not ok [0-9]+ - |✖ )//; s/ \([0-9.]+ms\)$//' | sort -u | sed "s/^/$kind /" >>"$failures"
  printf 'run %d of %d, %s: %s in %d s\n' "$run" "$runs" "$kind" "$([ $status = 0 ] && echo passed || echo FAILED)" $(($(date +%s) - began))
done
echo
if [ -s "$failures" ]; then
  echo "failures by machine and test:"
  sort "$failures" | uniq -c | sort -rn
  exit 1
fi
echo "no test failed in $runs runs"
