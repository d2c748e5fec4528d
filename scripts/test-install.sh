#!/usr/bin/env bash
# Installs into an empty folder, uses what is there, and removes it.
#
#   scripts/test-install.sh BUILT       the folder with the commands, such as target/checked
set -euo pipefail
cd "$(dirname "$0")/.."
export NEARLIGHT_BUILT=${1:?give the folder with the commands, such as target/checked}
fail() {
  echo "test-install.sh: $*" >&2
  exit 1
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/a\ prefix
mkdir "$prefix"
touch "$prefix/somebody-else-s"

scripts/install.sh "$prefix"
# Twice, as for an upgrade.
scripts/install.sh "$prefix" >/dev/null
export PATH=$prefix/bin:$PATH
[ "$(command -v nearlight)" = "$prefix/bin/nearlight" ] || fail "nearlight is not found in PATH"
nearlight --version
nearlight lab --help >/dev/null || fail "nearlight does not find nearlight-lab"
plans=$(cd "$folder" && nearlight lab list)
[[ $plans == *vrcc-stable* ]] || fail "the installed plans are not listed"
for page in nearlight nearlight-serve nearlight-lab-run nearlight-link; do
  [ -s "$prefix/share/man/man1/$page.1" ] || fail "there is no manual page $page"
done
grep -qF -- '\-\-headless' "$prefix/share/man/man1/nearlight-view.1" || fail "the manual page of nearlight view lacks its options"
# A checkout has the site once `make docs` has made it.
page=$(nearlight docs --print server 2>&1) && [ -f "$page" ] || [[ $page == *"not installed"* ]] || fail "nearlight docs printed: $page"
bash -n "$prefix/share/bash-completion/completions/nearlight" || fail "the completions are not a script"
grep -qF "ExecStart=\"$prefix/bin/nearlight\" serve" "$prefix/share/systemd/user/nearlight.service" || fail "the service file names another command"

scripts/install.sh --remove "$prefix"
left=$(cd "$prefix" && find . -mindepth 1)
[ "$left" = ./somebody-else-s ] || fail "the removal left: $left"
! scripts/install.sh --remove "$prefix" 2>/dev/null || fail "nothing is removed twice"
