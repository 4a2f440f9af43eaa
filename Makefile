# Every target sets itself up first; bare `make` says what there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash

BIN := .venv/bin
READY := .venv/.ready
PATHS := src tests fixtures demo benchmarks oracle
# A command after this finds Debian's PostgreSQL 15 with PostGIS in WALHOUSE_TEST_DSN; in .walhouse/, removed afterwards.
WITH_PG15 := $(BIN)/python -m fixtures.postgresql15
OLDEST_SPARK := .walhouse/oldest-spark
# The whole suite runs in two processes, a file of tests at a time: one alone leaves a third of two cores idle.
LANES ?= 2
SIDE_BY_SIDE = $(if $(filter-out 1,$(LANES)),-n $(LANES) --dist loadfile --no-loadscope-reorder)
# Where set-up found a Java runtime that is not the machine's default one.
-include .venv/java.mk

.PHONY: help setup demo demo-clean test test-all test-quick test-pg15 test-pg16 test-spark40 lint format typecheck lock bench oracle oracle-live record random oracle-pg15 record-pg15 build soak notebooks

help:  ## Show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY)  ## Make .venv with the locked packages, find or install Java, fetch Delta (the others do this first)

$(READY): requirements/dev.lock pyproject.toml scripts/setup
	@scripts/setup

demo: $(READY)  ## A real PostgreSQL into bronze, silver and gold, with a proof; again: goes on where it stopped; DEMO_OPTIONS=...
	@$(BIN)/python -m demo $(DEMO_OPTIONS)

demo-clean:  ## Stop the demo's server and remove everything the demo made
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m demo --clean $(DEMO_OPTIONS); \
	elif [ -e .walhouse/demo ]; then echo "Run 'make setup' first: it takes Python to stop the demo's server."; exit 1; fi

test: $(READY)  ## Run the suite on a real PostgreSQL and real Spark; TESTS=... for a part of it, LANES=1 in one process
	@$(BIN)/python -m pytest $(or $(TESTS),tests $(SIDE_BY_SIDE) -m "not further")

test-all: $(READY)  ## The same with further variants of what it holds anyway: before a release
	@$(BIN)/python -m pytest tests $(SIDE_BY_SIDE)

test-quick: $(READY)  ## The same without the slowest tests: for between two changes
	@$(BIN)/python -m pytest tests $(SIDE_BY_SIDE) -m "not slow and not further"

test-pg15: $(READY)  ## Run the tests that need a server on Debian's PostgreSQL 15, not installed; TESTS=... for a part
	@$(WITH_PG15) --servers $(LANES) $(BIN)/python -m pytest -m server \
		$(or $(TESTS),tests $(SIDE_BY_SIDE) --ignore=tests/e2e/test_demo.py --ignore=tests/e2e/test_notebooks.py)

test-pg16: $(READY)  ## The same on the PostgreSQL 16 of the package pgserver, standbys and all
	@$(BIN)/uv pip install --quiet --no-deps --target .walhouse/postgresql-16 pgserver==0.1.4
	@WALHOUSE_POSTGRES_BINARIES=$(CURDIR)/.walhouse/postgresql-16/pgserver/pginstall/bin $(BIN)/python -m pytest \
		-m "server and not contrib" $(or $(TESTS),tests $(SIDE_BY_SIDE) --ignore=tests/e2e/test_demo.py --ignore=tests/e2e/test_notebooks.py)

# What runs in Spark, without what starts commands of its own. Its toArrow leaves sockets to the garbage collector.
test-spark40: $(READY)  ## The tests that need Spark on 4.0, the oldest that is supported; TESTS=... for a part
	@$(BIN)/uv pip install --quiet --no-deps --target .walhouse/spark-4.0 pyspark==4.0.1 py4j==0.10.9.9
	@PYTHONPATH=$(CURDIR)/.walhouse/spark-4.0 $(BIN)/python -m pytest -m "spark and not locked" \
		-W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning \
		$(or $(TESTS),tests $(SIDE_BY_SIDE) --ignore=tests/e2e/test_demo.py --ignore=tests/e2e/test_notebooks.py)

lint: $(READY)  ## Check style, form and types
	@$(BIN)/ruff check $(PATHS)
	@$(BIN)/ruff format --check $(PATHS)
	@$(MAKE) --no-print-directory typecheck

format: $(READY)  ## Put all code into its form
	@$(BIN)/ruff check --fix $(PATHS)
	@$(BIN)/ruff format $(PATHS)

typecheck: $(READY) $(OLDEST_SPARK)  ## Check types, also against the oldest Spark that is supported
	@$(BIN)/mypy
	@MYPYPATH=$(OLDEST_SPARK) $(BIN)/mypy --cache-dir .mypy_cache/oldest-spark src

# Its Python part alone, without 400 MB of Java.
$(OLDEST_SPARK): pyproject.toml | $(READY)
	@$(BIN)/uv pip install --quiet --no-deps --target $@ pyspark-client==4.0.1
	@touch $@

lock:  ## Bring the locked packages up to date
	@scripts/lock

bench: $(READY)  ## Measure walhouse beside Debezium's engine; CHANGES=1000000 ROWS=1000000
	@$(BIN)/python -m benchmarks --changes $(or $(CHANGES),1000000) --rows $(or $(ROWS),1000000)

oracle: $(READY)  ## Compare with Debezium's engine, event by event; SCENARIOS=... or SEED=1 CASES=100 (random)
	@$(BIN)/python -m oracle $(SCENARIOS) $(if $(CASES),--cases $(CASES) --seed $(or $(SEED),1))

oracle-live: $(READY)  ## The same while tables are altered, pass by pass; SCENARIOS=... or SEED=1 CASES=10 (random)
	@$(BIN)/python -m oracle --live $(SCENARIOS) $(if $(CASES),--cases $(CASES) --seed $(or $(SEED),1))

record: $(READY)  ## The same, and keep what was seen under fixtures/scenarios/recorded, for the tests
	@$(BIN)/python -m oracle --record $(SCENARIOS)

random: $(READY)  ## Gold proven equal for random tables, CASES=40 SEED=1, or after what operators do in random order, OPERATIONS=40
ifdef OPERATIONS
	@WALHOUSE_RANDOM_OPERATIONS=$(OPERATIONS) WALHOUSE_RANDOM_SEED=$(or $(SEED),1) \
		WALHOUSE_RANDOM_STEPS=$(or $(STEPS),40) WALHOUSE_RANDOM_ONLY=$(ONLY) \
		$(BIN)/python -m pytest tests/e2e/test_random_operations.py
else
	@WALHOUSE_RANDOM_CASES=$(or $(CASES),40) WALHOUSE_RANDOM_SEED=$(or $(SEED),1) $(BIN)/python -m pytest \
		tests/e2e/test_random_tables.py
endif

oracle-pg15: $(READY)  ## As oracle, on that PostgreSQL 15: the scenarios that need PostGIS or xml, or SCENARIOS=...
	@$(WITH_PG15) $(BIN)/python -m oracle $(or $(SCENARIOS),--needing)

record-pg15: $(READY)  ## As record, for the same scenarios
	@$(WITH_PG15) $(BIN)/python -m oracle --record $(or $(SCENARIOS),--needing)

build: $(READY)  ## Build the wheel and the source distribution into dist/
	@$(BIN)/uv build --no-build-isolation --python $(BIN)/python

soak: $(READY)  ## Snapshots while writers do everything to the tables, proven round by round; MINUTES=30
	@WALHOUSE_SOAK_MINUTES=$(or $(MINUTES),30) $(BIN)/python -m pytest \
		tests/e2e/test_snapshots_under_fire.py::test_gold_is_the_source_after_every_snapshot_that_was_taken_while_writers_kept_writing

notebooks: $(READY)  ## Run the notebooks against a server of their own
	@$(BIN)/python -m pytest tests/e2e/test_notebooks.py
