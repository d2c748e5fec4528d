#!/usr/bin/env bash
# Installs the commands, the library for `nearlight hook`, manual pages, shell completions and a service file for systemd; or removes them.
#
#   scripts/install.sh PREFIX            such as ~/.local or /usr/local, after `make build`; DESTDIR is put in front where it is set
#   scripts/install.sh --remove PREFIX   removes what this put there
set -euo pipefail
cd "$(dirname "$0")/.."
remove=
if [ "${1:-}" = --remove ]; then
  remove=yes
  shift
fi
prefix=$(realpath -m "${1:?give the folder to install into, such as $HOME/.local}")
root=${DESTDIR:-}$prefix
# NEARLIGHT_BUILT is the folder of another build, such as target/checked.
built=${NEARLIGHT_BUILT:-${CARGO_TARGET_DIR:-target}/release}
# Each installed file, below the prefix: what a removal deletes.
list=$root/share/nearlight/installed-files

if [ -n "$remove" ]; then
  [ -f "$list" ] || { echo "install.sh: nothing of Nearlight is installed in $prefix ($list is missing)" >&2; exit 1; }
  while IFS= read -r file; do
    rm -f "$root/$file"
    # Folders that are empty now, up to the prefix.
    folder=$(dirname "$file")
    while [ "$folder" != . ] && rmdir "$root/$folder" 2>/dev/null; do folder=$(dirname "$folder"); done
  done <"$list"
  echo "removed from $prefix"
  exit
fi

for file in nearlight nearlight-lab libnearlight_hook.so; do
  [ -f "$built/$file" ] || { echo "install.sh: $built/$file is missing; build it with: make build" >&2; exit 1; }
done
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
install -d "$staging/share/nearlight"
install -D -t "$staging/bin" "$built/nearlight" "$built/nearlight-lab"
[ ! -f "$built/nearlight-kernel" ] || install -D -t "$staging/bin" "$built/nearlight-kernel"
install -D -m 644 -t "$staging/lib/nearlight" "$built/libnearlight_hook.so"
install -D -m 644 -t "$staging/share/doc/nearlight" README.md LICENSE-MIT LICENSE-APACHE media/scene/LICENSE-DEJAVU
install -D -m 644 -t "$staging/share/nearlight/plans" plans/*.toml
install -d "$staging/lib/systemd/user"
sed "s#@PREFIX@#${prefix//&/\\&}#" deploy/systemd/nearlight.service >"$staging/lib/systemd/user/nearlight.service"
"$built/nearlight-lab" documents "$staging"
(cd "$staging" && find . -type f -printf '%P\n' && echo share/nearlight/installed-files) | sort >"$staging/share/nearlight/installed-files"
# Files of an earlier version that this one does not have.
[ ! -f "$list" ] || scripts/install.sh --remove "$prefix" >/dev/null
mkdir -p "$root"
# Folders that exist keep their modes.
tar -C "$staging" -c --files-from="$staging/share/nearlight/installed-files" | tar -C "$root" -x --no-overwrite-dir --no-same-owner

echo "installed in $prefix"
case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "add it to PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
