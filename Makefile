# make demo | test | test-slow | bench | lint: each makes .venv and installs what it needs.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
# Real data sets for the slow tests and the benchmarks; everything else works without them.
ifneq ($(wildcard ../shared/data),)
export MERCER_DATA ?= $(abspath ../shared/data)
endif

.PHONY: demo test test-slow bench lint format clean

demo: .venv/installed
	$(BIN)/mercer compare

test: .venv/developing
	$(BIN)/python -m pytest -n auto --dist worksteal

test-slow: .venv/developing
	$(BIN)/python -m pytest -m slow

bench: .venv/developing
	$(BIN)/python -m benchmarks

lint: .venv/developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/developing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/made:
	$(PYTHON) -c 'import sys; sys.exit("mercer needs Python 3.11 or newer: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	touch $@

.venv/installed: .venv/made pyproject.toml
	$(BIN)/pip install --quiet --editable .
	touch $@

.venv/developing: .venv/installed pyproject.toml
	$(BIN)/pip install --quiet --group dev
	touch $@
