# make demo   sets everything up and runs the whole path on the sample
# make test   sets everything up and runs every test: first those without Ray and Prefect, side by side
# make bench  measures against the named peers (an hour; writes tests/benchmarks/results)
# make check  lint, types, import directions (what .ci/run runs first)

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint infra/constraints.txt

.PHONY: demo test bench check install clean

demo: install
	$(BIN)/babelmill demo

test: install
	$(BIN)/python -m pytest -m "not ray and not services" --numprocesses auto --maxprocesses 4 --dist loadfile
	$(BIN)/python -m pytest -m "ray or services"

bench: install .venv-bench/installed
	BABELMILL_BENCH_PYTHON=$(CURDIR)/.venv-bench/bin/python $(BIN)/python -m tests.benchmarks

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

# The peers want other versions of the same packages, so they get an environment of their own.
.venv-bench/installed: infra/bench-requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip --disable-pip-version-check install --quiet -r $<
	touch $@

clean:
	-$(BIN)/babelmill down
	rm -rf .venv .venv-bench .babelmill
