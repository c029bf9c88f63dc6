# Every target works on a fresh clone: it makes .venv, installs what it needs, then runs.
# A second run is quick: the stamps in .venv change only when pyproject.toml does.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq
EXTRAS ?= all
COGNEE := .venv-cognee
MEM0   := .venv-mem0
ARGS   ?=
# Twice as many as there are processors: a good part of the tests waits for sockets and other processes.
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1))))

.DEFAULT_GOAL := help
.PHONY: help test torture live live-cloud double requests sdks tour lint format bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

test: $(VENV)/.test ## Run the tests (ARGS="-k name" passes options on)
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal $(ARGS)

torture: $(VENV)/.test ## Put a store through years in minutes (ARGS="--scale 0.1" for a tenth)
	@$(BIN)/python -m tests.torture $(ARGS)

live: $(VENV)/.test $(COGNEE)/.ready $(MEM0)/.ready ## Test against real servers, Cognee and Mem0, each installed once (2 GB)
	@KEYFOLD_COGNEE_VENV=$(COGNEE) KEYFOLD_MEM0_VENV=$(MEM0) $(BIN)/python -m pytest -q -n 2 tests/live $(ARGS)

live-cloud: $(VENV)/.test ## Test against accounts of the hosted services, where the environment has their keys
	@$(BIN)/python -m pytest -q tests/live_cloud $(ARGS)

double: $(VENV)/.test ## Serve a double of a service to try Keyfold on, without an account (ARGS=mem0)
	@$(BIN)/python -m tests.doubles $(ARGS)

requests: $(VENV)/.test ## Count what each call on a memory service costs in requests, beside what it may cost
	@$(BIN)/python -m tests.remote.requests $(ARGS)

sdks: .venv-sdks/.ready ## Let the services' official clients judge the doubles
	@.venv-sdks/bin/python -m pytest -q tests/doubles tests/remote -k sdk $(ARGS)

tour: $(VENV)/.core ## See Keyfold at work in a minute, in a store of its own
	@$(BIN)/keyfold tour $(ARGS)

lint: $(VENV)/.dev ## Check style, types and the direction of imports
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict src
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## Put the code into the one style
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

bench: $(VENV)/.test ## Measure, and write bench/results.md (BENCH_FULL=1: at 1,000,000 records)
	@$(BIN)/python bench/run.py $(ARGS)

clean: ## Remove the virtual environment, caches and builds
	rm -rf $(VENV) $(COGNEE) $(MEM0) .venv-peers .venv-sdks dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --clear: an environment that was interrupted half-way is made again.
$(VENV)/.made:
	@command -v $(PYTHON) >/dev/null 2>&1 \
	  || { echo "Keyfold needs Python 3.11 or newer, and '$(PYTHON)' was not found. Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Keyfold needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Making $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv --clear $(VENV) \
	  || { echo "This Python cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }
	@touch $@

$(VENV)/.core: pyproject.toml $(VENV)/.made
	@echo "Installing Keyfold"
	@$(PIP) install --editable .
	@touch $@

# The pip of a new environment may be too old to know dependency groups (25.1 brought --group).
$(VENV)/.pip: $(VENV)/.made
	@$(PIP) install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.pip
	@echo "Installing Keyfold with its extras and what the tests need"
	@$(PIP) install --editable '.[$(EXTRAS)]' --group test
	@touch $@ $(VENV)/.core

$(VENV)/.dev: pyproject.toml $(VENV)/.test
	@echo "Installing the linters"
	@$(PIP) install --group dev
	@touch $@

.venv-sdks/.ready: pyproject.toml | $(VENV)/.pip
	@echo "Installing the services' official clients into .venv-sdks"
	@$(BIN)/python -m venv --clear .venv-sdks
	@.venv-sdks/bin/python -m pip --disable-pip-version-check -qq install --upgrade 'pip>=25.1'
	@.venv-sdks/bin/python -m pip --disable-pip-version-check -qq install --editable '.[all]' --group sdk
	@touch $@

# The servers of `make live`, each in an environment of its own: what they pin would fight over one.
.venv-%/.ready: tests/live/requirements-%.txt | $(VENV)/.made
	@echo "Installing the real $* into .venv-$*: a minute or two"
	@$(BIN)/python -m venv --clear .venv-$*
	@.venv-$*/bin/python -m pip --disable-pip-version-check -qq install --requirement $<
	@touch $@
