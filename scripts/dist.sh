#!/usr/bin/env bash
# Builds what users install, into target/dist: packages for Debian and Fedora, an archive, the Python wheel, checksums and lists of parts.
#
#   scripts/dist.sh            docs/packages.md says what is made
#   scripts/dist.sh compile    only compiles; the next call uses the result
#
# Two builds of one commit on the same system give the same bytes, wherever the sources lie. NEARLIGHT_SIGNING_KEY names a minisign key without a
# password; the checksums are then signed with it. scripts/setup.sh dist has installed what this needs.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
dist=$target/dist
build=$target/dist-build
export PATH=$HOME/.cargo/bin:$PATH

say() { printf 'dist: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# --- what makes two builds equal ----------------------------------------------------------------------------------------------
export LC_ALL=C TZ=UTC
umask 022
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || true)}
[ -n "$SOURCE_DATE_EPOCH" ] || fail "this is no git repository: set SOURCE_DATE_EPOCH to the time that files get, in seconds since 1970"
export SOURCE_DATE_EPOCH
# A folder of its own: scripts/rustc.sh passes flags here that cargo does not know.
export CARGO_TARGET_DIR=$build CARGO_INCREMENTAL=0 NEARLIGHT_DIST_SOURCES=$root NEARLIGHT_DIST_BUILD=$build
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS RUSTC_WRAPPER
mkdir -p "$build"
maps="-ffile-prefix-map=$root=/nearlight -ffile-prefix-map=${CARGO_HOME:-$HOME/.cargo}=/cargo -ffile-prefix-map=$build=/build"
[[ $root$build != *\ * ]] || fail "C compilers cannot take a folder with a space out of what they build: move the sources or set CARGO_TARGET_DIR"
# The environment has precedence over .cargo/config.toml, whose flags are kept.
configured() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" .cargo/config.toml; }
export CFLAGS="$(configured CFLAGS) $maps" CXXFLAGS="$(configured CXXFLAGS) $maps"

# Distributions have libvpx under different names (libvpx.so.7, libvpx.so.9): it is linked statically, so that one package fits all.
static=$build/static
mkdir -p "$static"
vpx=$(cc -print-file-name=libvpx.a)
[ -f "$vpx" ] || fail "the static library of libvpx is missing (Debian: apt install libvpx-dev)"
ln -sfn "$vpx" "$static/libvpx.a"
sed "s#^libdir=.*#libdir=$static#" "$(pkg-config --variable=pcfiledir vpx)/vpx.pc" >"$static/vpx.pc"
export PKG_CONFIG_PATH=$static VPX_STATIC=1

say "compiling"
cargo run --quiet --locked --profile tool -p nearlight-xtask -- page
cargo build --locked --release -p nearlight-cli -p nearlight-hook -p nearlight-lab-cli
# By themselves, because they would add features to the crates that the commands share with them.
cargo build --locked --release -p nearlight-capi
cargo build --locked --release -p nearlight-kernel --features bpf

version=$(cargo pkgid -p nearlight-cli | sed 's/.*[#@]//')
# As in scripts/install-library.sh: the name under which programs find the library.
interface=$(sed -E 's/^(0\.[0-9]+|[0-9]+).*/\1/' <<<"$version")
stage=$build/stage
rm -rf "$stage"
mkdir -p "$stage/licences" "$stage/lists"

# parts NAME ARGUMENT...: what a package contains, and under which licences.
parts() {
  node scripts/list-parts.mjs "$stage/licences/$1.txt" "$stage/lists/$1-$version.cdx.json" "${@:2}"
}
parts nearlight nearlight-cli nearlight-hook nearlight-lab-cli
parts libnearlight nearlight-capi
parts nearlight-kernel --features bpf nearlight-kernel
parts nearlight-python nearlight-python

in_wheel=library/python/nearlight/licences-of-parts.txt
trap 'rm -f "$in_wheel"' EXIT
cp "$stage/licences/nearlight-python.txt" "$in_wheel"
rm -rf "$build/wheels"
scripts/python.sh wheel
[ "${1:-}" != compile ] || exit 0

# --- trees of files -------------------------------------------------------------------------------------------------------------
say "collecting files"
scripts/docs.sh
archive=nearlight-$version-x86_64-linux
tree=$stage/$archive
NEARLIGHT_BUILT=$build/release scripts/install.sh --stage "$tree"
strip --strip-unneeded "$tree"/bin/* "$tree"/lib/nearlight/*.so
# The archive's members name the files of assembly that they were made from.
library=$build/stage/libnearlight.a
cp "$build/release/libnearlight.a" "$library"
strip --strip-unneeded --enable-deterministic-archives "$library"
! grep -alF -e "$root/" -e "${CARGO_HOME:-$HOME/.cargo}/" "$tree"/bin/* "$tree"/lib/nearlight/*.so "$library" ||
  fail "these files name folders of this machine"
cp "$stage/licences/nearlight.txt" "$tree/share/doc/nearlight/licences-of-parts.txt"
# The kernel's command has a package of its own, because it needs a library that few systems have.
kernel=$stage/nearlight-kernel/usr
install -d "$kernel/bin" "$kernel/share/man/man1"
mv "$tree/bin/nearlight-kernel" "$kernel/bin/"
mv "$tree"/share/man/man1/nearlight-kernel*.1 "$kernel/share/man/man1/"

main=$stage/nearlight/usr
mkdir -p "$main"
cp -r "$tree/bin" "$tree/lib" "$tree/share" "$main/"
sed -i 's#@PREFIX@#/usr#' "$main/share/systemd/user/nearlight.service"
gzip -9n "$main"/share/man/man1/*.1 "$kernel"/share/man/man1/*.1

# Debian and Fedora have libraries in different folders.
for folder in lib/x86_64-linux-gnu lib64; do
  DESTDIR=$stage/libnearlight NEARLIGHT_LIBRARY=$library NEARLIGHT_LIBVPX=inside NEARLIGHT_LIBDIR=$folder \
    scripts/install-library.sh /usr >/dev/null
  strip --strip-unneeded "$stage/libnearlight/usr/$folder/libnearlight.so.$version"
  # Debian's policy: a library is no program.
  chmod 644 "$stage/libnearlight/usr/$folder/libnearlight.so.$version"
done

# documents FOLDER LIST: what Debian's policy wants in a package's folder of documents.
documents() {
  install -d "$1"
  install -m 644 LICENSE-MIT LICENSE-APACHE "$1/"
  gzip -9nc "$stage/licences/$2.txt" >"$1/licences-of-parts.txt.gz"
  gzip -9nc CHANGELOG.md >"$1/NEWS.md.gz"
  rm -f "$1/licences-of-parts.txt"
  {
    echo "Nearlight may be used under the MIT licence, which follows, or under the Apache License, version 2.0: LICENSE-APACHE beside this file, and"
    echo "/usr/share/common-licenses/Apache-2.0. What it contains of others is listed, with their licences, in licences-of-parts.txt.gz."
    echo
    cat LICENSE-MIT
  } >"$1/copyright"
  {
    echo "nearlight ($version) unstable; urgency=medium"
    echo
    echo "  * What is new is in NEWS.md.gz."
    echo
    echo " -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
  } | gzip -9n >"$1/changelog.gz"
}
maintainer=${NEARLIGHT_MAINTAINER:-Nearlight contributors <maintainers@nearlight.example>}
documents "$main/share/doc/nearlight" nearlight
documents "$kernel/share/doc/nearlight-kernel" nearlight-kernel
documents "$stage/libnearlight/usr/share/doc/libnearlight" libnearlight

# --- packages -------------------------------------------------------------------------------------------------------------------
say "packing"
nfpm=$(CARGO_TARGET_DIR=$target scripts/go-program.sh nfpm)
rm -rf "$dist"
mkdir -p "$dist"
find "$stage" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

# debian_needs FILE...: the packages of this distribution that have the libraries which the files are linked to, and their oldest versions.
debian_needs() {
  local folder=$stage/shlibdeps
  mkdir -p "$folder/debian"
  printf 'Source: nearlight\n\nPackage: nearlight\nArchitecture: amd64\n' >"$folder/debian/control"
  (cd "$folder" && dpkg-shlibdeps -O --warnings=0 "${@/#/-e}") | sed -n 's/^shlibs:Depends=//p' | sed 's/, /", "/g; s/.*/"&"/'
}
# rpm_needs FILE...: the same in the names of RPM: each library, and each version of its interface.
rpm_needs() {
  local file
  for file; do
    objdump -p "$file" | awk '
      $1 == "NEEDED" { print $2 "()(64bit)" }
      $1 == "required" { library = $3; sub(":", "", library) }
      /^Version definitions|^$/ { library = "" }
      library && $1 ~ /^0x/ && NF == 4 { print library "(" $4 ")(64bit)" }'
  done | sort -u | sed 's/.*/"&"/' | paste -s -d, | sed 's/,/, /g'
}
# package KIND DESCRIPTION STAGE LIBDIR DEPENDENCIES
package() {
  local development=libnearlight-dev
  [ "$1" = deb ] || development=libnearlight-devel
  cat deploy/packages/common.yaml "deploy/packages/$2.yaml" | sed -e "s|@VERSION@|$version|g" -e "s|@MAINTAINER@|$maintainer|" \
    -e "s|@INTERFACE@|$interface|g" -e "s|@STAGE@|$stage/$3|g" -e "s|@LIBDIR@|$4|g" \
    -e "s|@DEVELOPMENT@|$development|g" -e "s|@DEPENDS@|$5|" >"$stage/nfpm.yaml"
  "$nfpm" package --config "$stage/nfpm.yaml" --packager "$1" --target "$dist/" >"$stage/nfpm.log" 2>&1 || { cat "$stage/nfpm.log" >&2; exit 1; }
}
for kind in deb rpm; do
  libdir=usr/lib/x86_64-linux-gnu
  [ $kind = deb ] || libdir=usr/lib64
  needs=$([ $kind = deb ] && echo debian_needs || echo rpm_needs)
  package $kind nearlight nearlight "" "$($needs "$main"/bin/* "$main"/lib/nearlight/*.so)"
  package $kind nearlight-kernel nearlight-kernel "" "$($needs "$kernel"/bin/*)"
  package $kind libnearlight libnearlight $libdir "$($needs "$stage/libnearlight/$libdir/libnearlight.so.$version")"
  package $kind libnearlight-dev libnearlight $libdir ""
done

tar -C "$stage" -c --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" "$archive" | gzip -9n >"$dist/$archive.tar.gz"
cp "$build"/wheels/*.whl "$stage"/lists/* "$dist/"
(cd "$dist" && sha256sum -- * >"$stage/SHA256SUMS" && mv "$stage/SHA256SUMS" .)
if [ -n "${NEARLIGHT_SIGNING_KEY:-}" ]; then
  minisign -S -s "$NEARLIGHT_SIGNING_KEY" -m "$dist/SHA256SUMS" -t "nearlight $version" >/dev/null </dev/null
fi
say "$dist:"
ls -sh "$dist" >&2
