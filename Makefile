# The commands that people and the CI call.

cache := $(or $(RESTMARK_TEST_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/restmark-test)
target := $(or $(CARGO_TARGET_DIR),target)
conformance := $(or $(RESTMARK_CONFORMANCE),../shared/conformance/run.py)

export RESTMARK_TEST_CACHE := $(cache)

.PHONY: build test lint soak fuzz bench doc

build:
	cargo build --release

# One profile for everything, so that the real data is read at full speed. The binary is built by `cargo test` alone:
# what the tests depend on switches features of shared dependencies on, and `build` would compile those once more.
test:
	scripts/setup
	cargo test --release
	@if [ -f "$(conformance)" ]; then python3 "$(conformance)" --bin "$(target)/release/restmark" --step 3; \
	else echo "no conformance suite at $(conformance): left out"; fi

lint:
	cargo fmt --check
	cargo clippy --release --all-targets -- -D warnings

# What happens only now and then: the binary killed a thousand times on each kind of store, then the kill test, the
# gate tests and the real servers over and over.
soak:
	scripts/setup
	RESTMARK_KILL_ROUNDS=$(or $(KILLS),1000) cargo test --release --test integration -- --nocapture killed_at_random
	for round in $$(seq $(or $(ROUNDS),20)); do cargo test --release --test integration -- gate:: kill:: real:: || exit 1; done

# Each fuzz target for a time (SECONDS=60, TARGET=page for one alone); `make test` reads their seeds without a fuzzer.
fuzz:
	SECONDS_EACH=$(or $(SECONDS),60) TARGET=$(TARGET) scripts/fuzz

bench: build
	scripts/setup
	python3 benches/flights.py --bin "$(target)/release/restmark"

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --release --no-deps
