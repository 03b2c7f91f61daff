# Two commands: `make review` and `make test`. Each sets up what it needs, in .venv.

.DEFAULT_GOAL := help
.PHONY: help review serve test test-long attack torture analyzers readers hosts provers properties simulations mutants lint constraints dist bench clean

REPO ?= .
BASE ?=
HEAD ?=
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
# Bytecode lies in .venv and in ignored folders; without it a start takes five times as long.
unexport PYTHONDONTWRITEBYTECODE

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

review: $(VENV)/.installed ## review the newest commit here, or REPO=… BASE=… HEAD=…
	@BIN=$(BIN) /bin/sh tools/review.sh '$(REPO)' '$(BASE)' '$(HEAD)' $(ARGS)

serve: $(VENV)/.installed-dev ## server, worker and database here, and a sample request; ARGS=--once
	@$(BIN)/python -m tests.service.sample $(ARGS)

PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist worksteal

test: $(VENV)/.installed-dev ## run the suite, without its long tests
	@$(PYTEST) $(ARGS)

test-long: $(VENV)/.installed-dev ## run the long tests: tests/long_tests.txt names them
	@$(PYTEST) -m long $(ARGS)

attack: $(VENV)/.installed-dev ## every attack that the suite holds off, a row each
	@$(PYTEST) -m attack $(ARGS)

torture: $(VENV)/.installed-dev ## crashes, store faults, races and edits, all of them; ARGS="kill_points --count 50"
	@$(BIN)/python -m tests.torture $(ARGS)

analyzers: $(VENV)/.installed-dev ## real semgrep, mypy, ESLint and others in whole reviews; ARGS="mypy --tools DIR"
	@$(BIN)/python -m tests.real_analyzers $(ARGS)

readers: $(VENV)/.installed-dev ## the SARIF Multitool and reviewdog read a review's formats; ARGS="--tools DIR"
	@$(BIN)/python -m tests.format_readers $(ARGS)

hosts: $(VENV)/.installed-dev ## Claude Code, Codex, Gemini CLI and OpenCode, from npm, call reviews; ARGS="codex --tools DIR"
	@$(BIN)/python -m tests.real_hosts $(ARGS)

provers: $(VENV)/provers/.installed ## what tests of proofs run, from npm: vitest, jest, MCP client and inspector, into .venv; needs Node

properties: $(VENV)/.installed-dev ## the suite's properties on thousands of new examples, fixes of all samples
	@$(BIN)/python -m pytest -m hypothesis --hypothesis-profile search --timeout 0 $(ARGS)

simulations: $(VENV)/.installed-dev ## the suite's simulations of tuning, with as many draws as their bounds need
	@SIMULATIONS=whole $(BIN)/python -m pytest -m simulation --timeout 0 $(ARGS)

mutants: $(VENV)/.installed-mutants ## wrong code that the tests must notice; ARGS="budget --sample 40"
	@nice $(BIN)/python -m tests.mutants $(ARGS)

lint: $(VENV)/.installed-dev ## linters, spelling, types, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/typos
	@$(BIN)/mypy
	@$(BIN)/lint-imports

constraints: $(VENV)/.installed ## write constraints.txt: releases with hashes; ARGS=--upgrade takes the newest
	@sh tools/setup.sh $(VENV) lock -e
	@$(BIN)/python -I tools/constraints.py $(ARGS)

dist: $(VENV)/.installed ## wheel, sdist and SBOM into dist/; the installed wheel reviews a small repository
	@$(BIN)/python -I tools/dist.py

# These need repositories: bench/applications.py --clones DIR, bench/detection.py --cache DIR, bench/history.py REPOSITORY
bench: $(VENV)/.installed-dev ## the benchmarks, as ratios from one run
	@for file in $(filter-out bench/applications.py bench/detection.py bench/grammars.py bench/history.py,$(wildcard bench/*.py)); do echo "== $$file"; $(BIN)/python $$file; done

clean: ## remove what the other targets made
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

$(VENV)/.installed: pyproject.toml constraints.txt tools/setup.sh
	@sh tools/setup.sh $(VENV) analyzers -e
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt tools/setup.sh
	@sh tools/setup.sh $(VENV) dev -e
	@touch $@ $(VENV)/.installed

$(VENV)/provers/.installed: tests/review/proofs/package.json
	@command -v npm >/dev/null || { echo "npm is not installed: install Node 20.19 or later" >&2; exit 2; }
	@mkdir -p $(VENV)/provers && cp $< $(VENV)/provers/package.json
	@npm install --prefix $(VENV)/provers --ignore-scripts --no-audit --no-fund --no-package-lock --loglevel=error
	@touch $@

$(VENV)/.installed-mutants: $(VENV)/.installed-dev
	@sh tools/setup.sh $(VENV) dev,mutants -e
	@touch $@
