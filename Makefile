# Everything runs in .venv, installed from hash-locked wheels: no compiler, no root (apt only as root, for Chromium in tests).
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
INSTALL := $(PIP) install --require-hashes --only-binary :all:
INSTALL_SELF := $(PIP) install --no-deps --no-build-isolation --editable .
LOG ?= examples/logs/phases_write_only_n1_4x5.darshan
WORKERS ?= 4

.PHONY: help run test test-full unit lint format types imports docs docs-serve docs-generate bench lock pages agent wheel wheelhouse clean venv dev browser programs test-fuse

help:  ## this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/runtime.stamp  ## verdicts on the bundled logs, a page on one of them (LOG=path for another), then the demo
	@mkdir -p build
	@$(BIN)/fairlead report examples/logs
	@$(BIN)/fairlead report $(LOG) --html build/report.html
	@$(BIN)/fairlead demo --html build/demo.html

test: dev pages browser programs  ## everything a change must pass: lint, types, imports, docs, tests (about 12 minutes on two cores)
	@$(MAKE) lint types imports docs
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations 20 -m "not slow"

test-full: export FAIRLEAD_TEST_SLURM := 1
test-full: dev pages browser programs  ## the same with the long tests
	@$(MAKE) lint types imports docs
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations 20

test-fuse: dev programs  ## the tests that mount something
	@$(BIN)/python -m pytest -n $(WORKERS) -m "fuse and not slow"

unit: $(VENV)/dev.stamp  ## the tests alone, without the checks before them
	@$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not browser"

lint: $(VENV)/dev.stamp  ## ruff: lint and format
	@$(BIN)/ruff check --no-cache .
	@$(BIN)/ruff format --no-cache --check --quiet . || { echo "→ make format"; exit 1; }

format: $(VENV)/dev.stamp  ## ruff: put the tree in its format
	@$(BIN)/ruff check --no-cache --fix --quiet . ; $(BIN)/ruff format --no-cache .

types: $(VENV)/dev.stamp  ## mypy, strict
	@$(BIN)/mypy

imports: $(VENV)/dev.stamp  ## import-linter: what each room may import
	@$(BIN)/lint-imports --no-cache

docs: $(VENV)/dev.stamp  ## the documentation site, into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

docs-serve: $(VENV)/dev.stamp  ## the documentation site on http://127.0.0.1:8000, rebuilt as you write
	@$(BIN)/mkdocs serve

docs-generate: $(VENV)/dev.stamp  ## rewrite the reference pages that are made from the code
	@$(BIN)/python docs/_generate.py

bench: $(VENV)/bench.stamp  ## every benchmark, quick form, one table each
	@for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(BIN)/python $$script --quick; done

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" pyproject.toml

lock: $(VENV)/dev.stamp  ## renew requirements*.lock from pyproject.toml (UPGRADE=--upgrade for newer versions)
	@$(LOCK) $(UPGRADE) --group dev --output-file requirements-dev.lock
	@$(LOCK) $(UPGRADE) --group build --constraint requirements-dev.lock --output-file requirements.lock
	@$(LOCK) $(UPGRADE) --group bench --constraint requirements-dev.lock \
		--no-emit-package recorder-utils --output-file requirements-bench.lock

pages: $(VENV)/dev.stamp  ## the pages people look at, built into the package (when their sources changed)
	@$(BIN)/python tools/build_pages.py

agent: $(VENV)/runtime.stamp  ## the node agent as one file (Python 3.6 or newer), into dist/
	@$(BIN)/python tools/agent.py

wheelhouse: $(VENV)/runtime.stamp  ## all a machine without network needs, into build/air-gapped
	@tools/air_gapped.sh build/air-gapped

wheel: $(VENV)/runtime.stamp  ## a wheel, into dist/
	@$(BIN)/python -m hatchling build -t wheel

clean:  ## remove what was built, the environment included
	@rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .import_linter_cache .hypothesis .pytest_cache

venv: $(VENV)/runtime.stamp  ## the environment fairlead runs in
dev: $(VENV)/dev.stamp  ## the same with everything for tests, lint and docs
browser: $(VENV)/dev.stamp
	@tools/browser.sh
programs:
	@tools/programs.sh

# A stamp is renewed when its lock or the package's metadata changes. The locks agree with each other by construction.
$(VENV)/runtime.stamp: requirements.lock pyproject.toml tools/venv.sh
	@tools/venv.sh $(VENV)
	@echo "installing from $<" >&2
	@$(INSTALL) -r $<
	@$(INSTALL_SELF)
	@touch $@

$(VENV)/dev.stamp: requirements-dev.lock pyproject.toml tools/venv.sh
	@tools/venv.sh $(VENV)
	@echo "installing from $<" >&2
	@$(INSTALL) -r $<
	@$(INSTALL_SELF)
	@touch $@ $(VENV)/runtime.stamp

# Drishti's second input format needs a compiler; the benchmarks give it Darshan logs only, so that part is left out.
$(VENV)/bench.stamp: requirements-bench.lock $(VENV)/dev.stamp
	@echo "installing from $<" >&2
	@$(INSTALL) --no-deps -r $<
	@touch $@
