#!/bin/sh
# Cargo runs the compiler through this (.cargo/config.toml). Some libraries hold far more than the program uses: colour conversions
# between all formats, every message of X11 and Wayland, all of Parquet. With this hint the compiler generates code for what is
# called and not for the rest. Speed and behaviour of the code are the same; docs/contributing.md has what it saves.
#
# The flag is not stable yet, so each library that it is given to is named here, and the compiler is pinned (rust-toolchain.toml).
# Setting RUSTC_WRAPPER replaces this script: the build takes longer then and its result is the same.
#
# For packages (scripts/dist.sh) it also takes this machine's folders out of what is built. It is done here and not in RUSTFLAGS: those would replace
# the page's own, and cargo would name libraries after them.
compiler=$1
shift
if [ -n "${NEARLIGHT_DIST_BUILD:-}" ]; then
  # The last prefix that fits counts; the build's folder may lie in the sources'.
  set -- "$@" --remap-path-prefix="$NEARLIGHT_DIST_SOURCES=/nearlight" --remap-path-prefix="${CARGO_HOME:-$HOME/.cargo}=/cargo" \
    --remap-path-prefix="$NEARLIGHT_DIST_BUILD=/build"
fi
case " $* " in
  *" --crate-name yuv "* | *" --crate-name parquet "* | *" --crate-name x11rb_protocol "* | *" --crate-name wayland_protocols "* | \
  *" --crate-name wayland_protocols_plasma "* | *" --crate-name wayland_protocols_wlr "* | *" --crate-name moxcms "* | \
  *" --crate-name pxfm "* | *" --crate-name gltf "* | *" --crate-name gltf_json "* | *" --crate-name image "* | *" --crate-name chrono "* | \
  *" --crate-name draco_core "* | \
  *" --crate-name x509_parser "* | *" --crate-name rtc_dtls "* | *" --crate-name rtc_mdns "* | *" --crate-name rtc_turn "* | \
  *" --crate-name rtc_sdp "* | *" --crate-name statrs "* | *" --crate-name num_bigint "* | *" --crate-name wide "* | \
  *" --crate-name ash "* | *" --crate-name smithay_client_toolkit "* | *" --crate-name x11_dl "*)
    export RUSTC_BOOTSTRAP=1
    exec "$compiler" "$@" -Zhint-mostly-unused ;;
esac
exec "$compiler" "$@"
