# make demo   sets everything up and runs the whole path on the sample
# make test   sets everything up and runs every test
# make check  lint, types, import directions (what .ci/run runs first)

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint infra/constraints.txt

.PHONY: demo test check install clean

demo: install
	$(BIN)/babelmill demo

test: install
	$(BIN)/python -m pytest

check: install
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: .venv/installed

# torch goes first and pinned: the other packages then find it there and pull no other build of it.
.venv/installed: pyproject.toml infra/constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "babelmill needs Python 3.11 or later")'
	$(PYTHON) -m venv .venv
	@echo "installing packages into .venv (about 2 minutes, 2.5 GB)"
	$(PIP) torch
	$(PIP) --editable '.[sample,dev]'
	touch $@

clean:
	-$(BIN)/babelmill down
	rm -rf .venv .babelmill
