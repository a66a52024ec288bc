# make demo and make test do everything on a fresh machine: Java, .venv, dependencies, run.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_READY := $(VENV)/.ready-bench
ARCHIVE := $(VENV)/.class-archive
DEMO_SECONDS ?= 20
SOAK_SECONDS ?= 600
PURE_TESTS := tests/sql tests/kernels tests/properties tests/eventtime tests/testing tests/admission tests/tasks tests/fuzz tests/connectors/files

# A recipe that needs Spark starts with this: JAVA_HOME of a Java 17 or newer, installed if need be.
WITH_JAVA := JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME &&
# The tests of the postgres sink, of kafka, of s3a:// and of hdfs:// are skipped where no server is available.
WITH_SERVERS := scripts/postgres.sh && scripts/kafka.sh && scripts/s3.sh &&

.PHONY: help setup demo demo-overload test test-slow test-cluster test-versions test-pure lint clean \
	bench bench-bar bench-limits bench-kafka nexmark soak soak-kafka soak-cluster soak-overload

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(READY) ## .venv with the package, its dependencies and the development tools; Java
	@scripts/java.sh >/dev/null

$(READY): pyproject.toml constraints.txt scripts/setup.sh
	@VENV=$(VENV) scripts/setup.sh
	@touch $@

$(BENCH_READY): $(READY)
	@VENV=$(VENV) EXTRAS=dev,bench scripts/setup.sh
	@touch $@

demo: setup ## a live pipeline on local Spark, and what happened to every row
	@$(WITH_JAVA) $(BIN)/eventide demo --seconds $(DEMO_SECONDS)

# A cache that makes every later start of Spark some seconds shorter; without it all goes on as well.
$(ARCHIVE): $(READY) src/eventide/spark/local/class_archive.py $(wildcard src/eventide/tasks/compiled/*.py)
	@$(BIN)/python -m eventide.tasks.compiled.kept
	@$(WITH_JAVA) $(BIN)/python -m eventide.spark.local.class_archive || echo "no archive of classes: Spark starts as slowly as before" >&2
	@touch $@

test: setup $(ARCHIVE) ## all tests that are not slow: those without Spark and, in parallel, the others on local Spark
	@$(WITH_JAVA) $(WITH_SERVERS) scripts/observers.sh && \
		PYTHON=$(BIN)/python PURE_TESTS="$(PURE_TESTS)" scripts/test.sh $(PYTEST_ARGS)

test-slow: setup $(ARCHIVE) ## what takes hours: new examples of properties, random plans, transcripts with restarts and row by row
	@NEW_EXAMPLES=1 $(BIN)/python -m pytest tests/properties tests/tasks tests/kernels tests/eventtime tests/admission
	@$(WITH_JAVA) $(WITH_SERVERS) scripts/hdfs.sh && scripts/registry.sh && \
		SLOW=1 PYTHON=$(BIN)/python PURE_TESTS="$(PURE_TESTS)" scripts/test.sh $(PYTEST_ARGS)
	@$(MAKE) --no-print-directory test-versions

test-cluster: setup ## a real standalone cluster on this machine: a master, two workers, and what may go wrong with them
	@$(WITH_JAVA) scripts/s3.sh && $(BIN)/python -m pytest -m cluster tests/cluster $(PYTEST_ARGS)

test-versions: setup ## the core transcripts on the oldest and the newest Spark, in environments of their own; VERSIONS="4.1.1 4.3.0"
	@$(WITH_JAVA) PYTHON=$(BIN)/python scripts/versions.sh $(VERSIONS)

test-pure: setup ## the tests of the packages that must work without Spark, with pyspark made unimportable
	@PYTHONPATH=scripts $(BIN)/python -m pytest -p without_pyspark $(PURE_TESTS)

lint: setup ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src

bench: setup $(BENCH_READY) $(ARCHIVE) ## every workload compared with native Spark, the speed of the kernels, the cost of open sessions
	@$(WITH_JAVA) $(BIN)/python -m benchmarks $(BENCH_ARGS)
	@$(BIN)/python benchmarks/kernels.py
	@$(WITH_JAVA) $(BIN)/python benchmarks/sessions.py

bench-bar: setup $(BENCH_READY) $(ARCHIVE) ## the workloads with a bar, each ratio next to its bar; fails if one falls short; BENCH_ARGS="--flink PYTHON" adds Flink
	@$(WITH_JAVA) $(BIN)/python -m benchmarks --bar $(BENCH_ARGS)

bench-kafka: setup $(BENCH_READY) $(ARCHIVE) ## one topic, read by Eventide and by native Spark; needs Maven
	@$(WITH_JAVA) $(WITH_SERVERS) $(BIN)/python benchmarks/kafka.py $(BENCH_ARGS)

nexmark: setup $(BENCH_READY) $(ARCHIVE) ## the queries of Nexmark beside native Spark, every answer checked; NEXMARK_ARGS="--flink PYTHON" adds Flink
	@$(WITH_JAVA) $(BIN)/python -m benchmarks.nexmark $(NEXMARK_ARGS)

soak: setup $(ARCHIVE) ## kill -9 at random moments for SOAK_SECONDS, and check that nothing is lost or repeated
	@$(WITH_JAVA) $(WITH_SERVERS) SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python scripts/soak.py

soak-kafka: setup $(ARCHIVE) ## the same with Kafka in and Kafka out, the broker killed as well; read by a consumer of its own
	@$(WITH_JAVA) $(WITH_SERVERS) SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python scripts/soak_kafka.py

soak-cluster: setup ## a cluster on this machine whose parts are killed at random for SOAK_SECONDS
	@$(WITH_JAVA) SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python scripts/soak_cluster.py

soak-overload: setup $(ARCHIVE) ## twice the load that this machine can take, for SOAK_SECONDS: who pays, and what it costs
	@$(WITH_JAVA) SOAK_SECONDS=$(SOAK_SECONDS) $(BIN)/python scripts/soak_overload.py

bench-limits: setup ## what limits and load shedding cost per row
	@PYTHONPATH=. $(BIN)/python benchmarks/limits.py

demo-overload: setup ## the same machine with more than it can take: gold keeps its promise, bronze pays
	@$(WITH_JAVA) $(BIN)/eventide demo --overload --seconds $(DEMO_SECONDS)

clean: ## remove .venv and everything generated
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
