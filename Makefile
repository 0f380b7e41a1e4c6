# The commands that people and the CI call.

cache := $(or $(RESTMARK_TEST_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/restmark-test)
target := $(or $(CARGO_TARGET_DIR),target)
conformance := $(or $(RESTMARK_CONFORMANCE),../shared/conformance/run.py)

export RESTMARK_TEST_CACHE := $(cache)

.PHONY: build test test-python wheel lint soak fuzz bench bench-setup bench-decode bench-read bench-partitions bench-peers \
	bench-flights bench-epochs bench-spark doc

build:
	cargo build --release

# One profile and one set of features for everything, so that nothing is built twice: the hot path is optimised, so that
# real data is read at full speed, DataFusion, Delta and the rest are not. The binary is built by `cargo test` alone: what the
# tests depend on switches features of shared dependencies on, and `build` would compile those once more.
test:
	scripts/setup
	cargo test --profile ci --features sql,delta
	@if [ -f "$(conformance)" ]; then python3 "$(conformance)" --bin "$(target)/ci/restmark" --step 5; \
	else echo "no conformance suite at $(conformance): left out"; fi
	$(MAKE) test-python

# The Python package as a wheel for Python 3.10 and later, into $(target)/wheels.
wheel:
	scripts/setup
	rm -rf "$(target)/wheels"
	"$(cache)/spark/bin/maturin" build --locked --profile $(or $(PROFILE),release) --manifest-path python/Cargo.toml \
		--interpreter "$(cache)/spark/bin/python" --out "$(target)/wheels"

# The wheel as anybody would install it, then its tests: alone, and on a Spark cluster of loopback.
test-python:
	$(MAKE) wheel PROFILE=ci
	"$(cache)/spark/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$(target)"/wheels/*.whl
	"$(cache)/spark/bin/pytest" -p no:cacheprovider python/tests

lint:
	cargo fmt --all --check
	cargo clippy --profile ci --features sql,delta --all-targets -- -D warnings
	cargo clippy --profile ci -p restmark-python -- -D warnings

# What happens only now and then: the binary killed a thousand times on each kind of store and output, then the kill test,
# the gate tests and the real servers over and over.
soak:
	scripts/setup
	RESTMARK_KILL_ROUNDS=$(or $(KILLS),1000) cargo test --profile ci --features sql,delta --test integration -- \
		--nocapture killed_at_random
	for round in $$(seq $(or $(ROUNDS),20)); do \
		cargo test --profile ci --features sql,delta --test integration -- gate:: kill:: real:: || exit 1; done

# Each fuzz target for a time (SECONDS=60, TARGET=page for one alone); `make test` reads their seeds without a fuzzer.
fuzz:
	SECONDS_EACH=$(or $(SECONDS),60) TARGET=$(TARGET) scripts/fuzz

# One after the other, however make was called: what is measured is alone on the machine. About twenty minutes;
# RESTMARK_BENCH_SCALE=0.2 reads a fifth of the pages.
bench:
	$(MAKE) bench-decode
	$(MAKE) bench-read
	$(MAKE) bench-partitions
	$(MAKE) bench-peers
	$(MAKE) bench-flights
	$(MAKE) bench-epochs
	$(MAKE) bench-spark

# The peers' Python packages, in an environment of their own.
bench-setup: $(cache)/bench/installed

$(cache)/bench/installed: benches/requirements.txt
	rm -rf "$(cache)/bench"
	python3 -m venv "$(cache)/bench"
	"$(cache)/bench/bin/pip" install --quiet --disable-pip-version-check -r benches/requirements.txt
	touch "$@"

bench-decode:
	CARGO_TARGET_DIR="$(abspath $(target))" python3 benches/decode.py

bench-read: build bench-setup
	python3 benches/read.py --bin "$(target)/release/restmark"

bench-partitions: build
	python3 benches/partitions.py --bin "$(target)/release/restmark"

bench-peers: build bench-setup
	CARGO_TARGET_DIR="$(abspath $(target))" cargo build --release --locked --manifest-path benches/peers/faucet/Cargo.toml \
		|| echo "bench-peers: faucet-source-rest does not build here: left out"
	python3 benches/peers.py --bin "$(target)/release/restmark" --faucet "$(target)/release/restmark-peer-faucet"

bench-flights: build
	scripts/setup
	python3 benches/flights.py --bin "$(target)/release/restmark"

bench-epochs: build bench-setup
	scripts/setup
	python3 benches/epochs.py --bin "$(target)/release/restmark"

# The wheel as it is released, on a cluster of loopback.
bench-spark: wheel
	"$(cache)/spark/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$(target)"/wheels/*.whl
	"$(cache)/spark/bin/python" benches/spark.py

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --profile ci --features sql,delta --no-deps
