# make run     installs what is missing, builds, serves and prints the link          (ARGS="--port 9000" passes options on)
# make test    installs what the tests need and runs every test
# make bench   measures: codecs, controllers, sessions and the whole path
# make kernel  builds what `nearlight kernel` needs: congestion control in the Linux kernel
# make check   formatting, lints and the page's types
# make types   writes the page's declarations and the C header anew from the Rust types
# make install-library   builds and installs libnearlight for C programs                 (PREFIX=/usr/local)
# make python  builds the Python package's wheel: target/wheels
# make fuzz    runs every fuzz target for a minute                                     (SECONDS_EACH=900)

export PATH := $(HOME)/.cargo/bin:$(PATH)
TARGET := $(or $(CARGO_TARGET_DIR),target)
NEARLIGHT := $(TARGET)/release/nearlight
PAGE := web/dist/index.html
PAGE_SOURCES := $(shell find Cargo.toml Cargo.lock rust-toolchain.toml web/src web/public web/build.mjs web/package-lock.json web/tsconfig.json crates/web-core crates/session crates/wire crates/rooms crates/events crates/units crates/rate crates/window crates/pace crates/fec crates/xtask -type f -not -path 'web/src/core/*' 2>/dev/null)
SECONDS_EACH ?= 60
PREFIX ?= /usr/local

.PHONY: run test bench check types fuzz build kernel install-library python setup-run setup-kernel setup-python setup-test clean

run: setup-run build
	exec $(NEARLIGHT) serve $(ARGS)

setup-run:
	@scripts/setup.sh run

setup-python:
	@scripts/setup.sh python

setup-kernel:
	@scripts/setup.sh kernel

setup-test:
	@scripts/setup.sh test

$(PAGE): $(PAGE_SOURCES)
	cargo run --quiet --profile tool -p nearlight-xtask -- page

build: $(PAGE)
	cargo build --release -p nearlight-cli -p nearlight-hook

kernel: setup-kernel
	cargo build --release -p nearlight-kernel --features bpf

check: setup-kernel $(PAGE)
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	cargo clippy --release -p nearlight-kernel --features bpf --all-targets -- -D warnings
	cargo clippy --release -p nearlight-nats --features client --all-targets -- -D warnings
	cd web && npm run --silent check

# The tests build the command themselves, with what their own dependencies need: building it first would be done twice.
test: setup-test $(PAGE)
	scripts/test.sh

bench: setup-run build
	scripts/bench.sh

types: setup-run
	NEARLIGHT_RENEW_TYPES=1 cargo test --release --package nearlight-wire --package nearlight-events --package nearlight-web-core typescript
	NEARLIGHT_RENEW_TYPES=1 cargo test --release --package nearlight-capi --test header

install-library: setup-run $(PAGE)
	scripts/install-library.sh $(PREFIX)

python: setup-python $(PAGE)
	scripts/python.sh wheel

fuzz: setup-run
	scripts/fuzz.sh $(SECONDS_EACH)

clean:
	cargo clean
	rm -rf web/dist web/src/core web/node_modules
