# make run     installs what is missing, builds, serves and prints the link          (ARGS="--port 9000" passes options on)
# make test    installs what the tests need and runs every Rust suite, the page in Chromium and the Python package
# make test-all  `make test`, then other browsers, aarch64, Ray, NATS, manifests, BPF, WebAssembly and fuzz targets
# make build   builds all commands: nearlight, nearlight-lab, and the hook's library
# make install      builds and installs the commands, manual pages and completions         (PREFIX=~/.local; make uninstall removes them)
# make bench   measures: codecs, controllers, sessions and the whole path
# make kernel  builds what `nearlight kernel` needs: congestion control in the Linux kernel
# make check   formatting, lints and the page's types
# make types   writes the page's declarations and the C header anew from the Rust types
# make install-library   builds and installs libnearlight for C programs                 (PREFIX=/usr/local)
# make docs    makes a site of the documentation, with search: target/docs/site
# make dist    builds the packages that users install: target/dist                     (docs/packages.md)
# make python  builds the Python package's wheel: target/wheels
# make fuzz    runs every fuzz target for a minute                                     (SECONDS_EACH=900)

export PATH := $(HOME)/.cargo/bin:$(PATH)
TARGET := $(or $(CARGO_TARGET_DIR),target)
NEARLIGHT := $(TARGET)/release/nearlight
PAGE := web/dist/index.html
PAGE_SOURCES := $(shell find Cargo.toml Cargo.lock rust-toolchain.toml web/src web/public web/build.mjs web/package-lock.json web/tsconfig.json web/core core/session core/wire rooms/rooms core/events core/units core/rate core/window core/fec tools/xtask -type f -not -path 'web/src/core/*' 2>/dev/null)
SECONDS_EACH ?= 60
PREFIX ?= /usr/local

.PHONY: install uninstall run product docs setup-docs test test-all test-further bench check types fuzz build kernel install-library python dist setup-run setup-kernel setup-python setup-dist setup-test setup-test-all clean

run: setup-run product
	@echo "The command is $(NEARLIGHT); \`make install PREFIX=~/.local\` puts it into PATH."
	exec $(NEARLIGHT) serve $(ARGS)

setup-run:
	@scripts/setup.sh run

setup-python:
	@scripts/setup.sh python

setup-kernel:
	@scripts/setup.sh kernel

setup-docs:
	@scripts/setup.sh docs

setup-dist:
	@scripts/setup.sh dist

setup-test:
	@scripts/setup.sh test

setup-test-all:
	@scripts/setup.sh test-all

$(PAGE): $(PAGE_SOURCES)
	cargo run --quiet --profile tool -p nearlight-xtask -- page

# What `make run` needs; `build` adds the lab's command.
product: $(PAGE)
	cargo build --release -p nearlight-cli -p nearlight-hook

build: product
	cargo build --release -p nearlight-cli -p nearlight-hook -p nearlight-lab-cli

docs: setup-docs
	scripts/docs.sh

install: setup-run build
	scripts/install.sh $(PREFIX)

uninstall:
	scripts/install.sh --remove $(PREFIX)

kernel: setup-kernel
	cargo build --release -p nearlight-kernel --features bpf

check: setup-run $(PAGE)
	cargo fmt --all --check
	cargo clippy --quiet --profile checked --workspace --all-targets -- -D warnings
	cd web && npm run --silent check

test: setup-test $(PAGE)
	scripts/test.sh

test-all: test test-further

test-further: setup-test-all $(PAGE)
	scripts/test.sh further

bench: setup-run build
	scripts/bench.sh

types: setup-run
	NEARLIGHT_RENEW_TYPES=1 cargo test --profile checked --package nearlight-wire --package nearlight-events --package nearlight-web-core typescript
	NEARLIGHT_RENEW_TYPES=1 cargo test --profile checked --package nearlight-capi --test all header

install-library: setup-run $(PAGE)
	scripts/install-library.sh $(PREFIX)

python: setup-python $(PAGE)
	scripts/python.sh wheel

dist: setup-dist
	scripts/dist.sh

fuzz: setup-run
	scripts/fuzz.sh $(SECONDS_EACH)

clean:
	cargo clean
	rm -rf web/dist web/src/core web/node_modules
