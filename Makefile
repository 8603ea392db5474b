# Each target is one command and sets up what it needs: a virtual environment, the pinned lock, the extension and the
# programs of lab and watch in release mode.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name '*.bpf.o' -o -name Cargo.toml 2>/dev/null) Cargo.toml Cargo.lock pyproject.toml .cargo/static
# What others wrote is compiled once: each build is of the whole workspace, since the features depend on which crates are
# built, and in the release profile, in which only our own crates differ where they are checked.
CHECKED := --workspace --release --config tests/checked.toml

# Where this is set, each of the many processes that tests start would compile our modules anew, a third of its time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-rust tests-compiled test-python test-arrays lint lint-rust lint-python compiled bench bench-smoke fuzz schema programs wheel bpf clean
.DELETE_ON_ERROR:

run: $(VENV)/.built
	$(BIN)/brickyard characterize

test: test-rust test-python

# Properties are checked with the same cases each time, as hypothesis does here; cargo test alone draws new ones.
test-rust:
	tests/install-programs
	crates/watch/bpf/build --check
	PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED:-1} cargo test $(CHECKED)

# The same without running them.
tests-compiled:
	cargo test $(CHECKED) --no-run

test-python: $(VENV)/.built $(VENV)/.fleet
	tests/install-programs
	rm -f .pytest_cache/v/cache/lastfailed
	$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations=20 --durations-min=5 || tests/again $(BIN)/pytest

# Real arrays, in guests whose disks may be written over; about six minutes on two cores.
test-arrays: $(VENV)/.built
	tests/install-programs
	tests/guest/all

lint: lint-rust lint-python

lint-rust:
	cargo fmt --all --check
	cargo clippy --all-targets $(CHECKED) -- -D warnings

lint-python: $(VENV)/.locked
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.built
	$(BIN)/python benches/compare.py
	$(BIN)/python benches/replay.py
	$(BIN)/python benches/large_log.py
	$(BIN)/python benches/store.py
	$(BIN)/python benches/bonnie.py /dev/shm --mib 1024
	$(BIN)/python benches/pgbench.py
	$(BIN)/python benches/trace.py
	$(BIN)/python benches/same_load.py
	$(BIN)/python benches/watch.py
	$(BIN)/python benches/web.py
	$(BIN)/python benches/lab.py
	$(BIN)/python benches/lab_ways.py
	$(BIN)/python benches/lab_sim.py
	$(BIN)/python benches/kirkwood.py
	$(BIN)/python benches/fleet.py
	$(BIN)/python benches/census.py

# Of the checks what only compiles.
compiled: lint-rust
	fuzz/build

# Each bench once, too short for a figure: shows that it still starts. Side by side with `make --jobs`.
SMOKES := $(patsubst benches/%.py,smoke-%,$(wildcard benches/*.py))
bench-smoke: $(SMOKES)
$(SMOKES): smoke-%: $(VENV)/.built
	$(BIN)/python benches/$*.py $(if $(filter bonnie,$*),/dev/shm) --smoke

# Python's types of events, out of those in crates/record.
schema: $(VENV)/.locked
	mkdir -p target
	cargo run -q -p brickyard-record --example schema >target/events.schema.json
	mv target/events.schema.json python/brickyard/schema/events.schema.json
	$(BIN)/python tools/schema.py

# The part of the watch that runs in the kernel, by Debian's clang. What it makes is committed, so that nobody else needs
# clang; `make test` compares.
bpf:
	crates/watch/bpf/build

# The programs of lab, watch and fleet, linked statically (`.cargo/static`): for guests, containers and hosts without Python.
programs:
	cargo build --release --workspace --bins
	install -s -m 755 target/release/brickyard-lab python/brickyard/lab/brickyard-lab
	install -s -m 755 target/release/brickyard-watch python/brickyard/watch/brickyard-watch
	install -s -m 755 target/release/brickyard-worker python/brickyard/fleet/brickyard-worker

# A wheel for every Python from 3.11 on, which needs no Rust where it is installed. maturin reads from the library which
# glibc it needs and names the wheel by that (manylinux), so that pip refuses it on an older system. It doesn't look at our
# programs, which need none. The wheel is then installed into a new environment and measures.
WHEELS := target/wheels
wheel: $(VENV)/.locked programs
	rm -rf $(WHEELS)
	PIP_QUIET=1 VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin build --release --quiet --strip --compatibility pypi --out $(WHEELS)
	tests/wheel $(WHEELS)

fuzz: $(VENV)/.locked
	fuzz/run

# Debian splits venv's pip off into python3-venv. Where it is missing, the system's own pip fills a bare environment.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "brickyard: $(PYTHON) is older than 3.11; name another with make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || \
	  { rm -rf $(VENV); $(PYTHON) -m venv --without-pip $(VENV) && \
	    $(PYTHON) -m pip --python $(BIN)/python install -q pip 2>/dev/null; } || \
	  { rm -rf $(VENV); [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && \
	    apt-get install -qy --no-install-recommends python3-venv && $(PYTHON) -m venv $(VENV); } || \
	  { rm -rf $(VENV); echo "brickyard: no virtual environment can be made; apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.locked: requirements.lock $(VENV)/.created
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

# Ray and what it needs, of the same versions as on hosts; only runs on many hosts import it.
$(VENV)/.fleet: python/brickyard/fleet/hosts.lock $(VENV)/.locked
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(VENV)/.built: $(VENV)/.locked $(RUST_SOURCES)
	$(MAKE) --silent programs
	PIP_QUIET=1 VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --quiet
	@touch $@

clean:
	rm -rf $(VENV) target
