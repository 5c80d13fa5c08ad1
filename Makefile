# Every target works alone on a fresh clone: whatever it needs, the environment included, is made first.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup proto lint fix types test test-all image-check bench soak demo serve clean

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Options for pytest, pytest-xdist's included: make test PYTEST="-n 0 tests/unit". One worker more than two cores: tests
# wait for processes that start and stop.
PYTEST ?= -n 3
BENCH ?=
SOAK ?= --minutes 10 --report docs/soak.md
# --renew chooses the newest versions of all packages and pins them; --keep leaves the directory there.
IMAGE_CHECK ?=
DEMO ?=
LISTEN ?= 127.0.0.1:7474
DATA ?= data
SOURCES := services cli scripts tests sdk $(wildcard benchmarks soak examples)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create the environment in .venv (quick when nothing changed)

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: apt-get install python3 python3-venv" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, $(PYTHON) is older; name another one with PYTHON=" >&2; exit 1; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV) >/dev/null 2>&1 || \
	  { rm -rf $(VENV); echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	@echo "Installing into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

proto: $(STAMP) ## Generate waggle/ from protos/, and from that the routes of deploy/envoy/envoy.yaml
	$(BIN)/python scripts/generate_protos.py
	PYTHONPATH=. $(BIN)/python scripts/generate_envoy.py

lint: $(STAMP) ## Check format, lint, import directions, protos and their generated code
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/lint-imports --no-cache
	PATH="$(CURDIR)/$(BIN):$$PATH" scripts/lint_protos
	$(BIN)/python scripts/generate_protos.py --check
	PYTHONPATH=. $(BIN)/python scripts/generate_envoy.py --check

fix: $(STAMP) ## Format, and mend what the linter can mend
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

types: $(STAMP) ## Check types (strict)
	$(BIN)/mypy

test: $(STAMP) ## Run all tests but the deep ones; a few minutes
	$(BIN)/python -m pytest -m "not deep" $(PYTEST)

test-all: $(STAMP) ## Run all tests, generated worlds and kills in depth; much longer
	WAGGLE_TEST_PROFILE=deep $(BIN)/python -m pytest $(PYTEST)

image-check: $(STAMP) ## Take the steps of both container images in a clean directory, and start what comes of them
	PYTHONPATH=. $(BIN)/python scripts/check_image_steps.py $(IMAGE_CHECK)

bench: $(STAMP) ## Measure every budget and print figure and budget side by side (BENCH="--data DIR")
	$(BIN)/python -m benchmarks $(BENCH)

soak: $(STAMP) ## Ten minutes of load, kills and attacks, then the proof (SOAK="--minutes 1 --seed N")
	$(BIN)/python -m soak $(SOAK)

demo: $(STAMP) ## See it work: import a history, search it, read the path to each memory
	$(BIN)/python -m cli.demo $(DEMO)

serve: $(STAMP) ## Run the suite on LISTEN (127.0.0.1:7474), its data in DATA (data/)
	$(BIN)/waggle serve --data-dir "$(DATA)" --listen "$(LISTEN)"

clean: ## Remove the environment and all caches (never data)
	rm -rf $(VENV) .build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
