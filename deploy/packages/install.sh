#!/bin/sh
# Installs Nearlight into a folder, or removes it.
#
#   ./install.sh PREFIX            such as ~/.local or /usr/local; DESTDIR is put in front where it is set
#   ./install.sh --remove PREFIX   removes what this put there
#
# The files are those beside this script.
set -eu
tree=$(cd "$(dirname "$0")" && pwd)
remove=
if [ "${1:-}" = --remove ]; then
  remove=yes
  shift
fi
prefix=$(realpath -m "${1:?give the folder to install into, such as $HOME/.local}")
root=${DESTDIR:-}$prefix
# Each installed file, below the prefix: what a removal deletes.
list=$root/share/nearlight/installed-files

remove_installed() {
  while IFS= read -r file; do
    rm -f "$root/$file"
    # Folders that are empty now, up to the prefix.
    folder=$(dirname "$file")
    while [ "$folder" != . ] && rmdir "$root/$folder" 2>/dev/null; do folder=$(dirname "$folder"); done
  done <"$1"
}

if [ -n "$remove" ]; then
  [ -f "$list" ] || { echo "install.sh: nothing of Nearlight is installed in $prefix ($list is missing)" >&2; exit 1; }
  # It is itself one of the files.
  copy=$(mktemp)
  trap 'rm -f "$copy"' EXIT
  cat "$list" >"$copy"
  remove_installed "$copy"
  echo "removed from $prefix"
  exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$tree" && find bin lib share -type f && echo share/nearlight/installed-files) | sort >"$work/files"
# Files of an earlier version that this one does not have.
if [ -f "$list" ]; then
  cat "$list" >"$work/earlier"
  remove_installed "$work/earlier"
fi
mkdir -p "$root"
# Folders that exist keep their modes.
grep -vx share/nearlight/installed-files "$work/files" | tar -C "$tree" -c --files-from=- | tar -C "$root" -x --no-overwrite-dir --no-same-owner
install -m 644 "$work/files" "$list"
# The tree's service file does not know the prefix.
service=share/systemd/user/nearlight.service
sed "s#@PREFIX@#$(printf %s "$prefix" | sed 's/[&#\\]/\\&/g')#" "$tree/$service" >"$work/service"
cat "$work/service" >"$root/$service"

echo "installed in $prefix"
case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "add it to PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
