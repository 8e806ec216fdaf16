# Every target sets up what it needs in .venv, inside this directory.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test check validate mutants bench figures published clean
.DEFAULT_GOAL := run

run: .venv/.run  ## run the quickstart scenario
	$(BIN)/p2p-sim run scenarios/quickstart.toml

test: .venv/.dev  ## run all tests; set P2P_SIM_DATA to include the data sets
	$(BIN)/pytest -n auto --dist loadfile tests --doctest-modules p2p_sim analysis --doctest-glob='*.md' docs

check: .venv/.dev  ## formatting, lint, types, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) test

validate: .venv/.validate  ## slow validation: sweeps whose processes are killed, on many machines; mutation testing
	$(BIN)/pytest tests/validation -m slow
	$(MAKE) mutants

mutants: .venv/.validate  ## mutation testing of the privacy code and of the protocol; goes on where it was cut off
	$(BIN)/python -m tests.validation.mutation

bench: .venv/.dev  ## benchmarks, each a ratio measured side by side
	$(BIN)/python -m benchmarks.event_engine
	$(BIN)/python -m benchmarks.vectorised
	$(BIN)/python -m benchmarks.accountant
	$(BIN)/python -m benchmarks.label_mechanisms
	$(BIN)/python -m benchmarks.histograms
	$(BIN)/python -m benchmarks.sweeps

figures: .venv/.dev  ## the figures of the docs
	$(BIN)/python -m docs.make_figures
	$(BIN)/python -m docs.make_network_figures
	$(BIN)/python -m docs.make_clustering_figures
	$(BIN)/p2p-sim check-bounds --figure docs/figures/bounds.png

published: .venv/.dev  ## the studies in results/published; half an hour, needs P2P_SIM_DATA
	$(BIN)/python -m docs.published.clustering_synthetic
	$(BIN)/python -m docs.published.clustering_figure1
	$(BIN)/python -m docs.published.vector
	$(BIN)/python -m docs.published.stacking
	$(BIN)/python -m docs.published.consistency

clean:  ## remove the virtual environment and caches, keep results
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.run: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "p2p-sim needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

.venv/.dev: .venv/.run
	$(PIP) --editable '.[dev]'
	@touch $@

.venv/.validate: .venv/.dev
	$(PIP) --editable '.[validate]'
	@touch $@
