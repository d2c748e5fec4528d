#!/usr/bin/env bash
# Installs the commands, the library for `nearlight hook`, manual pages, shell completions and a service file for systemd; or removes them.
#
#   scripts/install.sh PREFIX            such as ~/.local or /usr/local, after `make build`; DESTDIR is put in front where it is set
#   scripts/install.sh --remove PREFIX   removes what this put there
#   scripts/install.sh --stage FOLDER    writes the tree into a folder, with the script that installs it
set -euo pipefail
cd "$(dirname "$0")/.."
# NEARLIGHT_BUILT is the folder of another build, such as target/checked.
built=${NEARLIGHT_BUILT:-${CARGO_TARGET_DIR:-target}/release}

stage() {
  local folder=$1
  for file in nearlight nearlight-lab libnearlight_hook.so; do
    [ -f "$built/$file" ] || { echo "install.sh: $built/$file is missing; build it with: make build" >&2; exit 1; }
  done
  install -D -t "$folder/bin" "$built/nearlight" "$built/nearlight-lab"
  [ ! -f "$built/nearlight-kernel" ] || install -D -t "$folder/bin" "$built/nearlight-kernel"
  install -D -m 644 -t "$folder/lib/nearlight" "$built/libnearlight_hook.so"
  install -D -m 644 -t "$folder/share/doc/nearlight" README.md LICENSE-MIT LICENSE-APACHE media/scene/LICENSE-DEJAVU
  install -D -m 644 -t "$folder/share/nearlight/plans" plans/*.toml
  install -D -m 644 -t "$folder/share/systemd/user" deploy/systemd/nearlight.service
  install -m 755 deploy/packages/install.sh "$folder/install.sh"
  # `make docs` makes it.
  local site=${CARGO_TARGET_DIR:-target}/docs/site
  if [ -d "$site" ]; then cp -r "$site" "$folder/share/doc/nearlight/html"; fi
  "$built/nearlight-lab" documents "$folder"
}

case ${1:?give the folder to install into, such as $HOME/.local} in
  --remove) exec deploy/packages/install.sh "$@" ;;
  --stage) stage "${2:?give the folder to write the tree into}" ;;
  *)
    staging=$(mktemp -d)
    trap 'rm -rf "$staging"' EXIT
    stage "$staging"
    "$staging/install.sh" "$1"
    ;;
esac
