# Every target sets up what it needs in .venv, inside this directory.
PYTHON ?= python3
BIN := .venv/bin
TOOLS := build/release/bin
REDUCED := cli/test_cite cli/test_commands mechanisms/test_dp_sgd exchange/test_batched_exchange mechanisms/test_mechanisms population/test_own_data base/test_plugins privacy/test_exact_accountant release/test_release report/test_report results/test_results replicate/test_scenario stacking/test_stacking release/test_wheel
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test check docs numbers review validate truth mutants fuzz soak bench figures published dist sbom lowest newest clean
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

docs: .venv/.docs  ## the site of the docs, in build/docs; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -n -q docs build/docs

numbers: .venv/.dev  ## every number of README and docs anew, from its command's results, and the generated pages
	$(BIN)/python -m docs.values

review: .venv/.dev  ## a referee's hour: claims, enumerations, certificates, audits and a figure again, on one page
	$(BIN)/python -m analysis.review

validate: .venv/.validate build/release/.done fuzz soak  ## all tests with every figure drawn, slow ones too: killed processes, many machines; privacy figures; fuzzing; soak; mutation testing
	P2P_SIM_DRAW=all $(BIN)/pytest -n auto --dist loadfile -m 'slow or not slow' tests
	$(MAKE) truth
	$(MAKE) mutants

truth: .venv/.validate  ## ten thousand random privacy figures against 50-digit arithmetic
	$(BIN)/python -m tests.validation.truth --points 10000 --seed 1

mutants: .venv/.validate  ## mutation testing of the privacy code and of the protocol; goes on where it was cut off
	$(BIN)/python -m tests.validation.mutation

fuzz: .venv/.dev  ## a hundred thousand random and damaged inputs
	$(BIN)/python -m tests.fuzz --inputs 100000 --seed 1

soak: .venv/.dev  ## a hundred million protocol events with flat memory
	$(BIN)/python -m tests.validation.soak --events 1e8

bench: .venv/.dev  ## benchmarks, each a ratio measured side by side, and the pages that show them; half an hour
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks --page

figures: .venv/.dev  ## the figures of README and docs
	$(BIN)/python -m docs.make_readme_figures
	$(BIN)/python -m docs.make_tutorial_figure
	$(BIN)/python -m docs.make_figures
	$(BIN)/python -m docs.make_neighbour_figure
	$(BIN)/python -m docs.make_network_figures
	$(BIN)/python -m docs.make_film
	$(BIN)/python -m docs.make_clustering_figures
	$(BIN)/python -m docs.make_tune_figure
	$(BIN)/python -m docs.make_explore_figures
	$(BIN)/python -m docs.make_report_figures
	$(BIN)/p2p-sim check-bounds --figure docs/figures/bounds.png

published: .venv/.dev  ## the studies in results/published; an hour, needs P2P_SIM_DATA; goes on where it was stopped
	$(BIN)/python -m analysis.comparison
	$(BIN)/python -m analysis.comparison_second
	$(BIN)/python -m analysis.comparison_paid
	$(BIN)/python -m analysis.advantage
	$(BIN)/python -m analysis.learners
	$(BIN)/python -m analysis.groups
	$(BIN)/python -m analysis.curators
	$(BIN)/python -m analysis.heterogeneity
	$(BIN)/python -m analysis.clustering_figure1
	$(BIN)/python -m analysis.clustering_choices
	$(BIN)/python -m analysis.clusterings
	$(BIN)/python -m analysis.vector
	$(BIN)/python -m analysis.vector_tables
	$(BIN)/python -m analysis.regression
	$(BIN)/python -m analysis.stacking
	$(BIN)/python -m analysis.consistency
	$(BIN)/python -m analysis.internet_scale.beyond
	$(BIN)/python -m analysis.internet_scale.whole_runs
	$(BIN)/python -m analysis.internet_scale
	$(BIN)/python -m analysis.privacy_tables
	$(BIN)/python -m analysis.closed_form
	$(BIN)/python -m analysis.ask_several
	$(BIN)/python -m analysis.protocols
	$(BIN)/python -m analysis.validation
	$(BIN)/python -m analysis.shipped
	$(BIN)/python -m analysis.certificates

dist: build/release/.done  ## source distribution and wheel, in dist; two builds have the same bytes
	$(TOOLS)/python -m build --outdir dist .

sbom: build/release/.done  ## the packages of constraints.txt as a CycloneDX list, in build/sbom.json
	$(TOOLS)/cyclonedx-py requirements constraints.txt --pyproject pyproject.toml --output-reproducible --validate \
	  --output-format JSON --output-file build/sbom.json

lowest: RESOLUTION := lowest-direct
newest: RESOLUTION := highest
lowest newest: build/release/.done  ## some 400 tests with the oldest dependencies that pyproject.toml allows, or the newest
	$(TOOLS)/uv venv --quiet --clear --python $(PYTHON) build/$@
	$(TOOLS)/uv pip compile --quiet --resolution $(RESOLUTION) --python build/$@/bin/python --extra dev \
	  pyproject.toml --output-file build/$@.txt
	$(TOOLS)/uv pip install --quiet --python build/$@/bin/python --requirement build/$@.txt --editable .
	build/$@/bin/python -m pytest -n auto --dist loadfile $(REDUCED:%=tests/%.py)

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

.venv/.docs: .venv/.run
	$(PIP) --editable '.[docs]'
	@touch $@

build/release/.done: release/tools.txt
	$(PYTHON) -m venv build/release
	$(TOOLS)/python -m pip install --quiet --disable-pip-version-check --requirement release/tools.txt
	@touch $@

.venv/.validate: .venv/.dev
	$(PIP) --editable '.[validate]'
	@touch $@
