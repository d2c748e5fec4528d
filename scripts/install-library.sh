#!/usr/bin/env bash
# Installs libnearlight for C programs: the shared and the static library, the header and the pkg-config file.
#
#   scripts/install-library.sh PREFIX       such as /usr/local, or a folder of your own; DESTDIR is put in front where it is set
#
# NEARLIGHT_LIBRARY names a static library that was built before; none is built then. NEARLIGHT_LIBVPX=inside says that libvpx is in it.
# NEARLIGHT_LIBDIR is the folder below PREFIX for libraries, where it is not `lib`.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$(realpath -m "${1:?give the folder to install into, such as /usr/local}")
export PATH="$HOME/.cargo/bin:$PATH"
target=${CARGO_TARGET_DIR:-target}

library=${NEARLIGHT_LIBRARY:-}
if [ -z "$library" ]; then
  cargo build --release -p nearlight-capi
  library=$target/release/libnearlight.a
fi
version=$(cargo pkgid -p nearlight-capi | sed 's/.*[#@]//')
# Programs are linked against this name. While the first number is 0, the second one stands for the interface.
case $version in
  0.*) interface=$(cut -d. -f1,2 <<<"$version") ;;
  *) interface=${version%%.*} ;;
esac
root=${DESTDIR:-}$prefix
lib=${NEARLIGHT_LIBDIR:-lib}
install -d "$root/$lib/pkgconfig" "$root/include"
install -m 644 library/include/nearlight.h library/include/openuvr.h "$root/include/"
install -m 644 "$library" "$root/$lib/libnearlight.a"

# The shared library is linked from the static one, because its symbols get a version: two interfaces can then live in one process.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names=$(grep -oh '\b\(nl\|openuvr\)_[a-z_]*(' library/include/nearlight.h library/include/openuvr.h | tr -d '(' | sort -u)
{
  echo "NEARLIGHT_$interface {"
  echo "global:"
  sed 's/$/;/' <<<"$names"
  echo "local: *;"
  echo "};"
} >"$work/versions"
vpx=$([ "${NEARLIGHT_LIBVPX:-}" = inside ] || pkg-config --libs vpx)
private="$vpx -lstdc++ -lm -lpthread -ldl"
# shellcheck disable=SC2086,SC2046
cc -shared -o "$work/libnearlight.so" $(sed 's/^/-Wl,-u,/' <<<"$names") "$library" $private \
  -Wl,--gc-sections -Wl,--version-script="$work/versions" -Wl,-soname,"libnearlight.so.$interface" -Wl,-Bsymbolic -Wl,-z,defs
install -m 755 "$work/libnearlight.so" "$root/$lib/libnearlight.so.$version"
[ "$interface" = "$version" ] || ln -sf "libnearlight.so.$version" "$root/$lib/libnearlight.so.$interface"
ln -sf "libnearlight.so.$interface" "$root/$lib/libnearlight.so"

cat >"$root/$lib/pkgconfig/nearlight.pc" <<PC
prefix=$prefix
libdir=\${prefix}/$lib
includedir=\${prefix}/include

Name: nearlight
Description: The pictures of a program, seen and touched in a browser, a headset or a window elsewhere
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -lnearlight
Libs.private: $private
PC
echo "installed in $prefix; programs find it with PKG_CONFIG_PATH=$prefix/$lib/pkgconfig and LD_LIBRARY_PATH=$prefix/$lib where it is not the system's own"
