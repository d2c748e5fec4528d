#!/usr/bin/env bash
# Builds a program that tests or packages need, and prints its path: nats-server, kubeconform, kustomize or nfpm. Safe to run again: what is there
# is left alone.
#
# Any Go will do. They need a newer one than Debian 12's, which cannot fetch another by itself as those from 1.21 on do: there, this has it download
# the newer one's module.
set -euo pipefail
cd "$(dirname "$0")/.."
toolchain=go1.26.8
case ${1:-} in
  nats-server) module=github.com/nats-io/nats-server/v2@v2.15.2 ;;
  kubeconform) module=github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0 ;;
  kustomize) module=sigs.k8s.io/kustomize/kustomize/v5@v5.7.1 ;;
  nfpm) module=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2 ;;
  *) echo "usage: $0 nats-server|kubeconform|kustomize|nfpm" >&2 && exit 2 ;;
esac
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools
program=$folder/$1-${module##*@}

say() { printf 'go-program: %s\n' "$*" >&2; }
build() {
  local go=$1 major minor
  export GOMODCACHE=$folder/go GOFLAGS="-buildvcs=false -modcacherw" GOTOOLCHAIN=auto
  IFS=. read -r major minor _ <<<"$("$go" env GOVERSION | sed 's/^go//')"
  if [ "$major" -eq 1 ] && [ "${minor%%[!0-9]*}" -lt 21 ]; then
    local newer
    newer=golang.org/toolchain@v0.0.1-$toolchain.$("$go" env GOOS)-$("$go" env GOARCH)
    say "downloading $toolchain with $("$go" env GOVERSION), which is too old"
    "$go" mod download "$newer"
    # Modules have no programs, as far as this Go knows.
    chmod +x "$GOMODCACHE/$newer"/bin/* "$GOMODCACHE/$newer"/pkg/tool/*/*
    go=$GOMODCACHE/$newer/bin/go
    unset GOROOT
  fi
  say "building $module"
  GOBIN=$folder/build "$go" install "$module" >&2
  mv "$folder/build/$2" "$program"
  # Sources and a compiler, of which nothing is needed again.
  rm -rf "$GOMODCACHE" "$folder/build"
}

mkdir -p "$folder"
# Tests that start together build it once.
exec 9>"$folder/.lock"
flock 9
if [ ! -x "$program" ]; then
  go=$(command -v "${GO:-go}" || command -v /usr/local/go/bin/go) || {
    say "there is no Go, which builds $1: apt install golang-go, or name one with GO=path"
    exit 1
  }
  build "$go" "$1"
fi
echo "$program"
