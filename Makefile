# Everything a person or a machine does with this checkout. `make help` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two workers: the statistical tests are processor-bound, and more would measure each other on a small machine.
WORKERS ?= 2
# The same examples each time, so that CI fails for a reason; `make HYPOTHESIS=default test-unit` looks for new ones.
HYPOTHESIS ?= ci
RUN_TESTS := -m pytest --durations=30 --hypothesis-profile=$(HYPOTHESIS)
PYTEST := $(BIN)/python $(RUN_TESTS)
FIND_PYTHONS := $(BIN)/python tests/support/pythons.py

export UV_HTTP_TIMEOUT ?= 180
export UV_LINK_MODE ?= copy
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONUNBUFFERED := 1

say = @printf '\n== %s\n' "$(1)"

.PHONY: help setup setup-dev system demo check format test test-unit newcomer test-durability test-engines
.PHONY: test-statistical pythons torture interrupts mutants load bench compare-diffprivlib compare-peers experiments
.PHONY: docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# -- the environment ---------------------------------------------------------------------------------------------------

# Byte code is made here, once: where PYTHONDONTWRITEBYTECODE is set, every command would compile all modules again.
COMPILE_TREERING = $(BIN)/python -m compileall -q src

setup: $(VENV)/.runtime ## install what the package, the demo and the server need, into .venv
	@$(COMPILE_TREERING)

setup-dev: $(VENV)/.system $(VENV)/.dev ## the same, and what the tests and checks need
	@$(COMPILE_TREERING)

system: ## install the Debian packages of requirements/debian.txt
	@rm -f $(VENV)/.system
	@$(MAKE) --no-print-directory $(VENV)/.system

# Says "installed", or nothing where that takes rights that one does not have: then tests use the programs they find.
$(VENV)/.system: requirements/debian.txt | $(VENV)/.uv
	@packages=$$(sed 's/#.*//' requirements/debian.txt | xargs); \
	programs=$$(sed -n 's/^[a-z][^#]*# \([^:]*\):.*/\1/p' requirements/debian.txt | paste -sd ';' | sed 's/;/; /g'); \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    printf '\n== installing Debian packages: %s\n' "$$packages"; \
	    apt-get update; \
	    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $$packages; \
	    echo installed > $@; \
	else \
	    printf '\n== no root or no apt-get: nothing is installed; tests that want a program not found are left out: %s\n' \
	        "$$programs"; \
	    : > $@; \
	fi

INSTALL = $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python
INSTALL_TREERING = $(INSTALL) --no-deps --no-build-isolation -e .

$(VENV)/.uv: requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo "treering needs Python 3.11 or later, and '$(PYTHON)' is not: try 'make PYTHON=python3.11 ...'" >&2; exit 1; }
	$(call say,making $(VENV) with $$($(PYTHON) --version))
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/uv.txt
	@touch $@

$(VENV)/.runtime: $(VENV)/.uv requirements/runtime.txt pyproject.toml
	$(call say,installing the runtime, demo and server packages)
	@$(INSTALL) --no-deps --require-hashes -r requirements/runtime.txt
	@$(INSTALL_TREERING)
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements/dev.txt
	$(call say,installing the development packages)
	@$(BIN)/uv pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements/dev.txt
	@$(INSTALL_TREERING)
	@touch $@

# The same for another Python, by its version: .venv-3.12/.dev
.venv-%/.dev: $(VENV)/.uv requirements/dev.txt pyproject.toml
	$(call say,installing the development packages for Python $*)
	@test -x .venv-$*/bin/python || $(BIN)/uv venv --quiet --python "$$($(FIND_PYTHONS) $*)" .venv-$*
	@$(BIN)/uv pip sync --quiet --compile-bytecode --python .venv-$*/bin/python --require-hashes requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python .venv-$*/bin/python --no-deps --no-build-isolation -e .
	@.venv-$*/bin/python -m compileall -q src
	@touch $@

# -- what it is for ----------------------------------------------------------------------------------------------------

demo: setup ## a year of real flights in a vault: thousands of questions, a model, a report (in demo/)
	$(call say,treering demo)
	@$(BIN)/treering demo

check: setup-dev ## lint, formatting, types and import contracts
	$(call say,ruff)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	$(call say,mypy --strict)
	@$(BIN)/mypy
	$(call say,import contracts)
	@$(BIN)/lint-imports --no-logo

format: setup-dev ## put the code into the house format
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# One after the other even under `make -j`: on two cores they would only disturb each other's timing.
test: ## check, then every test
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory test-unit
	@$(MAKE) --no-print-directory newcomer
	@$(MAKE) --no-print-directory test-durability
	@$(MAKE) --no-print-directory test-engines
	@$(MAKE) --no-print-directory test-statistical

test-unit: setup-dev ## doctests, and all tests but those below
	$(call say,tests)
	@PROGRAMS=$$(cat $(VENV)/.system) $(PYTEST) -n $(WORKERS) --dist worksteal src tests \
	    --ignore=tests/statistical --ignore=tests/durability --ignore=tests/engines --ignore=tests/docs/test_newcomer.py

newcomer: setup-dev ## the newest Python found, a new environment: make setup, the demo in short, the README's commands
	@newest=$$($(FIND_PYTHONS) newest); \
	rm -rf .venv-newest; \
	$(MAKE) --no-print-directory VENV=.venv-newest PYTHON="$$newest" setup
	$(call say,the newcomer)
	@NEWCOMER=.venv-newest $(PYTEST) tests/docs/test_newcomer.py

test-durability: setup-dev ## the vault under crashes and write failures, in short
	$(call say,durability)
	@$(PYTEST) -n $(WORKERS) --dist worksteal tests/durability

test-engines: setup-dev ## rows that stay in DuckDB, Parquet, PostgreSQL and Spark
	$(call say,engines)
	@PROGRAMS=$$(cat $(VENV)/.system) $(PYTEST) -n $(WORKERS) --dist loadfile tests/engines

test-statistical: setup-dev ## the tests that sample: noise, accuracy, privacy audits
	$(call say,statistical tests)
	@$(PYTEST) -n $(WORKERS) --dist worksteal tests/statistical

# Each Python has an environment of its own, .venv-3.12 for example; the lines at the end say how it went with each.
pythons: setup-dev ## doctests, unit and contract tests on every Python from 3.11 on that is found: pyenv's, the system's
	@found=$$($(FIND_PYTHONS)); ended=0; summary=; \
	while read -r version path; do \
	    printf '\n== Python %s: %s\n' "$$version" "$$path"; \
	    if $(MAKE) --no-print-directory .venv-$$version/.dev < /dev/null && \
	        .venv-$$version/bin/python $(RUN_TESTS) -n $(WORKERS) --dist worksteal src tests/unit tests/contract < /dev/null; \
	    then how=passed; else how=FAILED; ended=1; fi; \
	    summary+="== Python $$version, $$path: $$how"$$'\n'; \
	done <<< "$$found"; \
	printf '\n%s' "$$summary"; \
	exit $$ended

KILLS ?= 900
torture: setup-dev ## the vault under crashes at full length: 900 kills, many write failures, recovery within 2 s
	$(call say,torture)
	@TORTURE_KILLS=$(KILLS) $(PYTEST) -n $(WORKERS) --dist worksteal tests/durability

interrupts: setup-dev ## an interrupt at every single step, where make test tries some of them: takes about an hour
	$(call say,interrupts)
	@TORTURE_KILLS=0 $(PYTEST) -n $(WORKERS) --dist worksteal $$(grep -rl TORTURE_KILLS tests/unit --include=*.py)

# LEAST=0.97 makes it fail if a smaller share is caught; without a seed, others are tried each time.
N ?= 50
mutants: setup-dev ## small random mistakes in the trusted base, budget, vault, mechanisms, schedulers: the share tests catch
	$(call say,mutants)
	@PYTHONPATH=tests $(BIN)/python -m mutants -n $(N) $(if $(SEED),--seed $(SEED)) $(if $(LEAST),--least $(LEAST)) $(if $(NEAR),--near) $(if $(SKIP),--skip $(SKIP))

load: setup-dev ## the server under load: 200 analysts for a minute, a kill -9, the rate of free answers; on loopback
	$(call say,load)
	@$(BIN)/python -m benchmarks.load

bench: setup-dev ## run benchmarks/bench_*.py: a table, and benchmarks/results.json
	$(call say,benchmarks)
	@$(BIN)/python -m benchmarks

compare-diffprivlib: setup-dev ## logistic regression beside diffprivlib's, which gets an environment of its own
	$(call say,diffprivlib)
	@$(BIN)/python -m benchmarks.compare_diffprivlib

# Parts that are there already are not run again. A part that fails does not keep the next ones from running.
compare-peers: setup-dev ## treering's default beside its peers, each in an environment of its own; goes on where it was
	$(call say,peers)
	@ended=0; \
	for part in peers 'peers.continual --resume' 'peers.learning --resume' 'peers.turbo --resume' peers.report; do \
	    $(BIN)/python -m benchmarks.$$part || ended=1; \
	done; \
	exit $$ended

docs: setup-dev ## build the documentation into site/
	$(call say,documentation)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

experiments: setup-dev ## run the experiments at full length: what the documentation claims, shown
	$(call say,experiments)
	@$(BIN)/python -m experiments

# -- upkeep ------------------------------------------------------------------------------------------------------------

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
    --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

lock: $(VENV)/.uv ## recompile requirements/*.txt from pyproject.toml and requirements/*.in
	$(call say,compiling requirements)
	@$(COMPILE) $(LOCK) requirements/uv.in -o requirements/uv.txt
	@for peer in diffprivlib peers-queries peers-jax peers-smartnoise; do \
	    $(COMPILE) $(LOCK) --overrides requirements/torch-by-pip.in requirements/$$peer.in -o requirements/$$peer.txt; \
	done
	@$(COMPILE) $(LOCK) --no-deps requirements/datasets.in -o requirements/datasets.txt
	@$(COMPILE) $(LOCK) --overrides requirements/pandas-left-out.in pyproject.toml requirements/build.in --extra demo --extra server --extra shell \
	    -o requirements/runtime.txt
	@$(COMPILE) $(LOCK) pyproject.toml requirements/build.in --extra demo --extra server --extra shell --extra dev \
	    -c requirements/runtime.txt -o requirements/dev.txt

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) .venv-* .mutants.json build dist site artefacts .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info
