# make demo | test | test-all | test-isa | test-sanitize | test-slow | test-gpu | bench | papers | docs | lint: each makes .venv and installs what it needs.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
# Real data sets for the slow tests, the benchmarks and the papers; everything else works without them.
ifneq ($(wildcard ../shared/data),)
export MERCER_DATA ?= $(abspath ../shared/data)
endif

.PHONY: demo test test-all test-isa test-pure test-sanitize test-slow test-gpu bench papers docs lint format native clean

demo: .venv/installed
	$(BIN)/mercer compare --report report.html

PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

# Tests have three tiers: unmarked, full and slow (see pyproject.toml). This is the first: at most three minutes on two cores.
test: .venv/developing
	$(PYTEST)

# The first two tiers: every case of every map, all of scikit-learn's checks, clusters, kills.
test-all: .venv/developing
	$(PYTEST) -m "not slow"

# The tests of numbers on each other instruction set that this CPU has. Rates and scikit-learn's checks do not depend on it, and
# the test of positions goes through all of them by itself.
NUMERIC := tests/ops tests/kernels tests/maps/test_every_map.py tests/maps/test_gcws.py tests/persistence/test_golden.py
test-isa: .venv/developing
	set -e; others=$$($(BIN)/python -c 'import mercer._native as core; print(*core.isas()[1:])'); for isa in $$others; do \
	  echo "MERCER_ISA=$$isa"; MERCER_ISA=$$isa $(PYTEST) -m "not slow" -k "not limit and not scikit_learn" \
	    --deselect tests/ops/test_every_op_positions.py $(NUMERIC); done

# The first tier without the compiled core.
test-pure: .venv/developing
	MERCER_PURE=1 $(PYTEST)

# Ops and readers of text with AddressSanitizer and UndefinedBehaviorSanitizer (GCC on Linux). Leaks are those of the interpreter; two tests
# are of the memory and the symbols of a plain build.
SANITIZED := $(shell pwd)/build/sanitize
test-sanitize: .venv/developing
	$(BIN)/cmake -S . -B $(SANITIZED) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) -DMERCER_SANITIZE=ON -DPython_EXECUTABLE=$(abspath $(BIN)/python)
	$(BIN)/cmake --build $(SANITIZED) --target _native
	LD_PRELOAD="$$(for one in asan ubsan stdc++; do $${CXX:-g++} -print-file-name=lib$$one.so; done | tr '\n' ' ')" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 MERCER_SANITIZED=$$(ls $(SANITIZED)/_native*.so) \
	  $(PYTEST) -p tests.helpers.sanitized tests/ops tests/data/test_svmlight.py tests/data/test_hostile_csv.py \
	    -k "not share_no_symbol and not no_memory_grows"

# What needs minutes, or the real data sets.
test-slow: .venv/developing
	$(BIN)/python -m pytest -m slow

# On a real GPU; without torch and a GPU these tests run on torch's CPU, or are left out.
test-gpu: .venv/developing
	$(BIN)/pip install --quiet --editable ".[gpu]" --no-build-isolation
	MERCER_TEST_DEVICE=cuda $(BIN)/python -m pytest -n 4 -m "not slow" tests/parallel/test_device*.py tests/cli/test_devices.py tests/ops/test_every_op*.py -k "device or torch"

bench: .venv/developing
	$(BIN)/python -m benchmarks

# The five papers at standard size; goes on where it was stopped.
papers: .venv/developing
	$(BIN)/python -m experiments run --size standard --out docs/papers.json --page docs

# HTML in build/docs; a warning is an error.
docs: .venv/documenting
	$(BIN)/python -m sphinx -W --keep-going -b html -d build/doctrees docs build/docs

lint: .venv/developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/developing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The compiled core again, after a change in native/.
native: .venv/developing
	MERCER_NATIVE=1 $(BIN)/pip install --quiet --no-build-isolation --editable .

# Also forgets a failed build, which build/ would remember.
clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/made:
	$(PYTHON) -c 'import sys; sys.exit("mercer needs Python 3.11 or newer: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	touch $@

# Without a compiler this is the NumPy version.
.venv/installed: .venv/made pyproject.toml
	$(BIN)/pip install --quiet --editable ".[plot]"
	touch $@

# Here a core that does not build is an error.
.venv/developing: .venv/made pyproject.toml CMakeLists.txt $(wildcard native/*)
	$(BIN)/pip install --quiet --group dev
	MERCER_NATIVE=1 $(BIN)/pip install --quiet --no-build-isolation --editable .
	touch .venv/installed $@

# Also what builds the documentation.
.venv/documenting: .venv/developing
	$(BIN)/pip install --quiet --group docs
	touch $@
