# Every target is at most three lines; longer work lives in scripts/ and tests/.
.DEFAULT_GOAL := help
SHELL := /bin/bash
export VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: help setup gen proto-check proto-baseline fmt lint test demo sim sim-large soak chaos chaos-logs endings bench-idle bench-inprocess bench-journal bench-logs bench-restart bench-scale bench-watchdogs matrix mutants netns up down compose slurm clean

help: ## Show this list
	@grep -hE '^[a-z%-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):.*## /  make \1\t/' | expand -t 24

setup: ## One command on a fresh machine: .venv with everything, pinned (SYSTEM_SITE_PACKAGES=1 reuses an installed torch)
	@scripts/setup.sh

gen: ## Generate libs/api from protos/ with the pinned generator, in an environment of its own
	@scripts/gen.sh libs/api/src

proto-check: ## Lint the protos; refuse a change that breaks the wire against protos/baseline.binpb
	@scripts/proto.sh check

proto-baseline: ## Accept the protos as they are as the promise that later changes are held to
	@scripts/proto.sh baseline

fmt: ## Format the code
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

lint: ## ruff, mypy, import contracts, protos
	@scripts/lint.sh

test: ## The whole suite on CPU: lint, then every layer of tests
	@scripts/test.sh

demo: ## Two nodes and a spare on this machine survive five faults; ends with the recovery table
	@$(BIN)/python -m tests.demo

sim: ## The oracle over seeded worlds: make sim SEEDS=1000
	@$(BIN)/python -m tests.sim --seeds $(or $(SEEDS),1000)

sim-large: ## A thousand launchers for an hour of theirs that stutter and lose nobody: make sim-large SEEDS=24 AGENTS=1000 HOUR_S=3600
	@$(BIN)/python -m tests.sim.large --seeds $(or $(SEEDS),24) --agents $(or $(AGENTS),1000) --seconds $(or $(HOUR_S),3600)

soak: ## Restart one job 850 times; in the last 200 nothing may grow: memory, descriptors, threads, pages: make soak RESTARTS=850 BASE=650
	@$(BIN)/python -m tests.endurance.soak --restarts $(or $(RESTARTS),850) --base $(or $(BASE),650)

chaos: ## Kill every control-plane process and launcher at 200 random moments: make chaos KILLS=200 SEED=1
	@$(BIN)/python -m tests.endurance.chaos --kills $(or $(KILLS),200) --seed $(or $(SEED),1)

chaos-logs: ## Kill log server, leaves, senders, launchers and workers at 200 random moments while they print: make chaos-logs KILLS=200 SEED=1
	@$(BIN)/python -m tests.endurance.chaos_logs --kills $(or $(KILLS),200) --seed $(or $(SEED),1)

endings: ## Every kind of end on two nodes, many times, with the control plane killed at the verdict: make endings RUNS=100 CELLS=success,budget
	@$(BIN)/python -m tests.endurance.endings --runs $(or $(RUNS),100) --seed $(or $(SEED),1) $(if $(CELLS),--cells $(CELLS))

bench-idle: ## What launcher, fork server and control plane use while training just runs: processor share, wake-ups per second
	@$(BIN)/python -m tests.endurance.idle

bench-journal: ## What 10,000 incidents leave in the state directory, and how soon it is taken up again: make bench-journal INCIDENTS=10000
	@$(BIN)/python -m tests.bench.journal_size --incidents $(or $(INCIDENTS),10000)

bench-inprocess: ## Kill ranks that restart in place, and have one raise a hundred times: make bench-inprocess ROUNDS=3
	@$(BIN)/python -m tests.bench.inprocess $(if $(ROUNDS),--rounds $(ROUNDS))

bench-logs: ## What one log server takes, what a line costs its node, beside the published peer and a plain file: make bench-logs LOAD_S=5 PARTS=streams
	@$(BIN)/python -m tests.bench.logs $(if $(LOAD_S),--seconds $(LOAD_S)) $(if $(PARTS),--only $(PARTS))

bench-restart: ## Kill ranks under torchrun, the published peer and Resurge in one run, and compare
	@$(BIN)/python -m tests.bench.restart

netns: ## Network namespaces as nodes: pulled cables, lost packets, delay, silent DNS (root)
	@$(BIN)/python -m tests.netns

bench-scale: ## One rendezvous on one core and up to 10,000 launchers: make bench-scale SIZES=100,1000,10000
	@$(BIN)/python -m tests.bench.scale $(if $(SIZES),--sizes $(SIZES))

bench-watchdogs: ## How late guards release blocked gloo ranks, how soon a node ends with a rank, what arming and beats cost
	@$(BIN)/python -m tests.bench.watchdogs $(if $(ROUNDS),--rounds $(ROUNDS))

matrix: ## Freeze or kill a gloo rank before and in each operation; all end in time, the rank is named: make matrix RUNS=20 JOBS=1
	@$(BIN)/python -m tests.endurance.matrix --runs $(or $(RUNS),20) --jobs $(or $(JOBS),1) $(if $(CELLS),--cells $(CELLS))

mutants: ## Put small faults into the watchdogs, one at a time; a test must notice each: make mutants MODULES=crashing,guards/timer [ANEW=1]
	@$(BIN)/python -m tests.mutation $(if $(MODULES),--modules $(MODULES)) $(if $(ANEW),--anew)

up: ## The local multi-node simulation in containers: docker-compose.yml, built, started, healthy
	@docker compose up --build --detach --wait

down: ## Remove the simulation with its volumes
	@docker compose --profile '*' down --volumes --remove-orphans

compose: ## Real faults in real containers; starts an engine of its own where Debian has the packages and none answers
	@scripts/compose.sh

slurm: ## `srun resurge run` in a real Slurm of two nodes on this machine (root)
	@scripts/slurm.sh install && $(BIN)/python -m pytest -q tests/e2e/slurm

clean: ## Remove what the build and the tests left
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist out
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
