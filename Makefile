# make demo   set up .venv and run Starling on a graph it makes itself
# make test   set up .venv, then lint, type-check and run all tests
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
READY := $(VENV)/.ready

.PHONY: demo test check format clean

demo: $(READY)
	$(VENV)/bin/starling demo --force

# Many tests wait for processes and messages, so half as many again as there are cores run at once, with a thread each.
test: check
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest -n $$(( ($$(nproc) * 3 + 1) / 2 )) -q

check: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --config-file bench/mypy.ini bench/*.py bench/partition/*.py

format: $(READY)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# The mark is touched last, so an interrupted install starts again.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
