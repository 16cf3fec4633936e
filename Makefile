# Everything runs in .venv, with the versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Most of what pip installs is never imported; what is, is compiled then and kept, whatever the environment says.
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
export PYTHONDONTWRITEBYTECODE :=

# One thread a process and two processes: on two cores, threads inside workers only get in each other's way.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
WORKERS ?= 2
# In a random order, so that no test leans on what ran before it.
SEED ?= 1
SHUFFLED := -p randomly --randomly-seed=$(SEED) --randomly-dont-reset-seed
# As on another machine: sums without vector instructions, by two threads.
ELSEWHERE := ATEN_CPU_CAPABILITY=default OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest $(SHUFFLED)
# Engines and networks, where torch computes, each method by its golden numbers and its density, and what examples
# print; the rest reads, refuses, says, draws and scores, and fits single methods by engines that these try.
OF_TORCH := $(addprefix tests/,few_shot inference moments networks primitives simulation testing test_golden.py \
	$(addprefix models/test_,contract.py limits.py marginals.py own_model.py) docs/test_docstrings.py)

.PHONY: help setup demo test test-portable check style types slow slow-portable format bench gpu notebooks pages docs clean

help:
	@echo "make demo    set everything up, then fit a method to built-in data"
	@echo "make test    the same set-up, then the fast tests, in a random order (SEED=2 is another one)"
	@echo "make test-portable  the fast tests of engines and networks, as on another machine"
	@echo "make check   what CI runs: format, lint, types, fast tests, slow tests, both also as elsewhere"
	@echo "make format  format the code and mend what lint can mend"
	@echo "make bench   measure against other packages and write the tables (some: ONLY=\"few_shot filling\")"
	@echo "make gpu     every method and engine on CUDA against CPU"
	@echo "make notebooks  run tutorials/ anew and compare what they print (WRITE=1 writes it, ONLY=judges takes one)"
	@echo "make pages   write the generated pages of docs and tables of README"
	@echo "make docs    build the documentation site into build/site, and check it; also report and app in a browser"
	@echo "make clean   remove the virtual environment, caches and builds"

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml constraints.txt
	@echo "setting up $(VENV); torch is a large download, once"
	@$(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[dev]"
	@touch $@

$(VENV)/bench-ready: $(VENV)/ready
	$(PIP) -e ".[bench]"
	@touch $@

demo: setup
	$(BIN)/crowdppl demo

# A file stays with one worker, as its tests share fits.
test: setup
	$(PYTEST) $(SHUFFLED) -n $(WORKERS) --dist loadfile -m "not slow and not bench"

test-portable: setup
	$(ELSEWHERE) $(OF_TORCH) -n $(WORKERS) --dist loadfile -m "not slow and not bench"

check: style types test test-portable slow slow-portable

style: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy

slow: setup
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "slow and not bench"

# Of the slow tests those of samplers, whose draws another machine makes otherwise.
slow-portable: setup
	$(ELSEWHERE) -n $(WORKERS) --dist worksteal -m "slow and not bench" tests/inference/mcmc tests/inference/svi tests/testing

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/bench-ready
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks $(ONLY)

gpu: setup
	@$(BIN)/python -c "import torch; print('CUDA:', torch.cuda.get_device_name() if torch.cuda.is_available() else 'torch sees no GPU, so every test below is skipped')"
	$(PYTEST) -n $(WORKERS) -m gpu

$(VENV)/docs-ready: $(VENV)/ready
	$(PIP) -e ".[docs]"
	@touch $@

notebooks: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.tutorial_runner $(if $(WRITE),--write) $(ONLY)

pages: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.making.pages
	OMP_NUM_THREADS=1 $(BIN)/python -m docs.making.gallery

# No --quiet: it hides warnings from --strict, too. Tests in a browser come here, with its driver.
docs: $(VENV)/docs-ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	CROWDPPL_SITE=build/site $(PYTEST) -n $(WORKERS) --dist loadfile tests/docs/test_site.py tests/report/test_page.py tests/app/test_browser.py

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .pytest_cache .ruff_cache
