# make demo | test | test-slow | test-gpu | bench | papers | lint: each makes .venv and installs what it needs.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
# Real data sets for the slow tests, the benchmarks and the papers; everything else works without them.
ifneq ($(wildcard ../shared/data),)
export MERCER_DATA ?= $(abspath ../shared/data)
endif

.PHONY: demo test test-pure test-slow test-gpu bench papers lint format native clean

demo: .venv/installed
	$(BIN)/mercer compare --report report.html

test: .venv/developing
	$(BIN)/python -m pytest -n auto --dist worksteal

# The same without the compiled core.
test-pure: .venv/developing
	MERCER_PURE=1 $(BIN)/python -m pytest -n auto --dist worksteal

test-slow: .venv/developing
	$(BIN)/python -m pytest -m slow

# On a real GPU; without torch and a GPU these tests run on torch's CPU, or are left out.
test-gpu: .venv/developing
	$(BIN)/pip install --quiet --editable ".[gpu]" --no-build-isolation
	MERCER_TEST_DEVICE=cuda $(BIN)/python -m pytest -n 4 tests/test_devices*.py tests/test_cli_devices.py tests/test_every_op*.py -k "devices or torch"

bench: .venv/developing
	$(BIN)/python -m benchmarks

# The five papers at standard size; goes on where it was stopped.
papers: .venv/developing
	$(BIN)/mercer papers --size standard --out docs/papers.json --page docs

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
