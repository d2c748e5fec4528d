#!/bin/sh
# What maturin calls as cargo in scripts/python.sh.
#
# Its PATH and Python's variables have changed since cargo ran last, for maturin's sake; with those of before, nothing is compiled anew that need
# not be.
set -e
PATH=$NEARLIGHT_PATH
export PATH
unset VIRTUAL_ENV PYO3_PYTHON PYO3_CONFIG_FILE PYO3_ENVIRONMENT_SIGNATURE PYO3_NO_PYTHON
export PYO3_BUILD_EXTENSION_MODULE=1
case "$1" in
  # Without a platform it would download every library of every system.
  metadata)
    shift
    exec cargo metadata --filter-platform "$(rustc -vV | sed -n 's/^host: //p')" "$@" ;;
  # For others it is built by itself. A module for tests would have libraries with fewer features then than the workspace's tests have, and
  # nearly all of them would be compiled a second time. This asks for the same module as `cargo test` does; the messages tell maturin where it is.
  rustc)
    case " $* " in *" --release "* | *" --profile release "* | *" --profile=release "*) exec cargo "$@" ;; esac
    exec cargo test --profile checked --workspace --exclude nearlight-xtask --test module --no-run --message-format json-render-diagnostics ;;
  *) exec cargo "$@" ;;
esac
