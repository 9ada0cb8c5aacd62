# Every target makes .venv by itself when it is needed; `make help` lists them.
#
# RECIPE and DATA are for `make run`, ARGS are handed on to the program of any other target.
# pip's own configuration (index, mirrors, certificates, cache) is honoured.

SHELL := /bin/sh
.SHELLFLAGS := -euc
.ONESHELL:
.SILENT:
.DEFAULT_GOAL := help
.PHONY: help run up deploy test lint bench lock clean base dev

RECIPE ?= sample
DATA ?=
ARGS ?=
PYTHON ?=
export RECIPE DATA PYTHON
export PIP_DISABLE_PIP_VERSION_CHECK ?= 1

BIN := .venv/bin

help:
	echo "make run      walk the road: RECIPE=sample, DATA=folder of pictures instead of the recipe's"
	echo "make up       Prefect, MLflow and a worker on this machine, until Ctrl-C"
	echo "make deploy   send the deployments of prefect.yaml to the Prefect server in use"
	echo "make test     the whole test suite (ARGS=... for pytest)"
	echo "make lint     ruff, mypy and the import contracts"
	echo "make bench    the benchmarks, quick; ARGS= for full runs"
	echo "make lock     resolve all dependencies anew into requirements.lock"
	echo "make clean    remove .venv and caches; .enginehouse (models, runs, store) stays"
	echo "An exit code that make shows as 'Error N' is the program's own: 3 a required engine waits"
	echo "for its device, 4 rejected by a gate. make itself always ends with 2 then."

run: base
	set -- --recipe "$$RECIPE"
	if [ -n "$$DATA" ]; then set -- "$$@" --data "$$DATA"; fi
	exec $(BIN)/enginehouse run "$$@"

up: base
	exec $(BIN)/enginehouse up $(ARGS)

deploy: base
	exec $(BIN)/python -m flows.deploy $(ARGS)

test: dev
	exec $(BIN)/python -m pytest $(ARGS)

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	exec $(BIN)/lint-imports

bench: ARGS = --quick
bench: base
	for script in bench/[!_]*.py; do
	  echo "== $$script"
	  $(BIN)/python "$$script" $(ARGS)
	done

lock:
	$(find_python)
	rm -rf .venv-lock
	"$$python" -m venv .venv-lock
	.venv-lock/bin/python -m pip install -e '.[bench,dev]'
	{ sed -n '/^#/p' requirements.lock; .venv-lock/bin/python -m pip freeze --exclude-editable; } \
	  > requirements.lock.new
	mv requirements.lock.new requirements.lock
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-lock .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

base:
	wanted=base
	$(bootstrap)

dev:
	wanted=dev
	$(bootstrap)

# Sets $$python to a Python that will do, or says in one sentence what is missing.
define find_python
	if [ "$$(uname -sm)" != "Linux x86_64" ]; then
	  echo "Enginehouse installs on Linux x86-64 only, this is $$(uname -sm)." >&2; exit 1
	fi
	python=
	for candidate in $$PYTHON python3 python3.13 python3.12 python3.11; do
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
	    python=$$candidate; break
	  fi
	done
	if [ -z "$$python" ]; then
	  echo "Python 3.11 or newer is needed and not found; install it, or name it: PYTHON=..." >&2
	  exit 1
	fi
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then
	  echo "$$python has no venv module; on Debian and Ubuntu install python3-venv." >&2; exit 1
	fi
endef

# The stamps say what was installed, and where: a changed lock or a moved folder installs anew.
# They are written last, so what was interrupted is done again. `dev` contains `base`.
define bootstrap
	state="$$(pwd) $$(cat pyproject.toml requirements.lock | sha256sum)"
	for stamp in $$wanted dev; do
	  if [ "$$(cat ".venv/enginehouse-$$stamp" 2>/dev/null)" = "$$state" ]; then exit 0; fi
	done
	$(find_python)
	if ! grep -qsF "$$(pwd)/.venv/bin/" .venv/bin/pip; then
	  echo "Making .venv: about 3 GB to download, 7 GB on disk, some minutes."
	  "$$python" -m venv --clear .venv
	else
	  echo "Bringing .venv up to date with requirements.lock."
	fi
	extra=; [ "$$wanted" = base ] || extra="[$$wanted]"
	quiet="-qq --progress-bar off"; [ ! -t 1 ] || quiet=
	$(BIN)/python -m pip install $$quiet -c requirements.lock -e ".$$extra"
	echo "$$state" > ".venv/enginehouse-$$wanted"
endef
