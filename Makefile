# The two commands of the README: `make farm` and `make test`. Each sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST_ARGS ?=

.PHONY: farm lab lock test test-all guard check fast coverage pipeline test-lowest test-pythons simulate canaries attack mutants fuzz fuzz-briefly scenarios test-docker browser messages languages reference docs man pictures dist release packages bench bench-i2p soak growth absence torture day upgrade audit alerts clean
.DELETE_ON_ERROR:
# With this variable each process of a test farm would compile the whole program again.
unexport PYTHONDONTWRITEBYTECODE

## Set-up -------------------------------------------------------------------------------------------------------------

# Debian splits the module venv from Python: installed here when we may, otherwise named.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gf-i2p needs Python 3.11 or newer; $(PYTHON) is older or missing. Try: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "Installing Debian's python3-venv, without which Python makes no virtual environment."; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null 2>&1; \
	  else \
	    echo "Python's venv module is not complete. On Debian or Ubuntu run: sudo apt-get install python3-venv"; exit 1; \
	  fi; }
	@echo "Creating the virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)

# The versions that requirements/ has, with their hashes. What is there is not built with whatever is newest today.
# $(1): the file.
SAY_WHILE = sh integration/harness/say_while.sh
PIP = $(SAY_WHILE) "still installing" $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation
define packages
	@$(PIP) --require-hashes -r requirements/build.txt
	@$(PIP) --require-hashes -r requirements/$(1).txt
	@$(PIP) --no-deps --editable .
	@touch $@
endef

$(VENV)/.run: $(BIN)/python pyproject.toml requirements/build.txt requirements/run.txt
	@echo "Installing gf-i2p and what it needs to run"
	$(call packages,run)

$(VENV)/.test: $(VENV)/.run requirements/test.txt
	@echo "Installing what the tests need"
	$(call packages,test)

# Renews requirements/ after a change to pyproject.toml or an .in file, for every Python and system at once. A version that
# still fits stays. The newest of all: LOCK_ARGS=--upgrade. The newest of one: LOCK_ARGS="--upgrade-package aiohttp".
LOCK_ARGS ?=
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-strip-extras \
  --custom-compile-command "make lock" $(LOCK_ARGS)
lock: $(VENV)/.test
	@$(LOCK) --all-extras pyproject.toml --output-file requirements/test.txt
	@$(LOCK) --extra uvloop --extra spark pyproject.toml -c requirements/test.txt --output-file requirements/spark.txt
	@$(LOCK) --extra uvloop pyproject.toml -c requirements/test.txt --output-file requirements/run.txt
	@$(LOCK) requirements/build.in -c requirements/test.txt --output-file requirements/build.txt
	@$(LOCK) requirements/parts.in -c requirements/test.txt --output-file requirements/parts.txt

# Programs that others wrote, to run, test and measure against: Debian's packages, installed when we may. Without them
# the tests say which they skip, and the rest says what to install. A package with a service of its own (third word) is
# installed so that the service neither starts now nor with the system: an i2pd so started would join the real I2P.
# $(1): COMMAND:PACKAGE[:service]...
define install
	@missing=""; services=""; \
	for each in $(1); do \
	  command=$${each%%:*}; package=$${each#*:}; \
	  PATH="$$PATH:/usr/sbin:/sbin:/usr/lib/podman" command -v "$$command" >/dev/null && continue; \
	  case "$$package" in *:service) services="$$services $${package%:*}" ;; esac; \
	  missing="$$missing $${package%:*}"; \
	done; \
	[ -n "$$missing" ] || { touch $@; exit 0; }; \
	if [ "$$(id -u)" = 0 ]; then sudo=""; elif sudo -n true 2>/dev/null; then sudo="sudo"; else sudo="no"; fi; \
	if [ "$$sudo" = no ] || ! command -v apt-get >/dev/null; then \
	  echo "Not installed:$$missing. To have them: sudo apt-get install$$missing"; \
	  [ -z "$$services" ] || echo "  To keep their services from starting, before that: sudo systemctl mask$$services"; \
	  exit 0; \
	fi; \
	echo "Installing$$missing"; \
	policy=/usr/sbin/policy-rc.d; ours=""; trap '[ -z "$$ours" ] || $$sudo rm -f $$policy' EXIT; \
	if [ -n "$$services" ] && [ ! -e $$policy ]; then \
	  ours=yes; printf '#!/bin/sh\nexit 101\n' | $$sudo tee $$policy >/dev/null; $$sudo chmod 755 $$policy; \
	fi; \
	$(SAY_WHILE) "still installing$$missing" sh -c "{ $$sudo apt-get update -qq && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; } >/dev/null 2>&1" \
	&& touch $@ || echo "Not all of$$missing could be installed."; \
	if [ -n "$$services" ] && [ -d /run/systemd/system ]; then $$sudo systemctl disable --quiet $$services || true; fi
endef

$(VENV)/.test-programs: | $(BIN)/python
	$(call install,curl:curl apache2:apache2-bin lighttpd:lighttpd:service prometheus:prometheus:service strace:strace groff:groff-base)

$(VENV)/.network-programs: | $(BIN)/python
	$(call install,curl:curl i2pd:i2pd:service unshare:util-linux setpriv:util-linux ip:iproute2)

$(VENV)/.spark-programs: | $(BIN)/python
	$(call install,java:default-jre-headless)

# Podman, which we can use as root only, unless a Docker engine answers.
PODMAN = podman:podman:service buildah:buildah crun:crun netavark:netavark aardvark-dns:aardvark-dns \
  catatonit:catatonit iptables:iptables debootstrap:debootstrap ip:iproute2 unshare:util-linux
$(VENV)/.docker-programs: | $(BIN)/python
	$(call install,$(shell { docker compose version && docker info; } >/dev/null 2>&1 || [ `id -u` != 0 ] || echo $(PODMAN)))

$(VENV)/.browser-programs: | $(BIN)/python
	$(call install,chromium:chromium)

$(VENV)/.bench-programs: | $(BIN)/python
	$(call install,etcd:etcd-server:service h2load:nghttp2-client java:default-jre-headless zooinspector:zookeeper)

## Run ----------------------------------------------------------------------------------------------------------------

farm: $(VENV)/.run $(VENV)/.network-programs
	@$(BIN)/python -m integration.runs.farm

# The same network and farm, and a shell among them.
lab: $(VENV)/.run $(VENV)/.network-programs
	@LAB=1 $(BIN)/python -m integration.runs.farm

bench: $(VENV)/.test $(VENV)/.bench-programs
	@$(BIN)/python -m integration.bench $(RUN_ARGS)

bench-i2p: $(VENV)/.test $(VENV)/.network-programs
	@$(BIN)/python -m integration.bench.through_i2p

soak: $(VENV)/.test
	@$(BIN)/python -m integration.runs.crash --entries 10000 --kills 20

# A farm that grows and shrinks under load; what it costs when a server that was away for long catches up; ten minutes
# of kill -9, SIGSTOP and network cuts; a day of a thousand leaves by the log alone. The options of each: RUN_ARGS="--help".
growth absence torture day: $(VENV)/.test
	@$(BIN)/python -m integration.runs.$@ $(RUN_ARGS)

# A farm of each release in integration/upgrades/releases.toml is upgraded, server by server, while clients post.
# A release: `python -m integration.upgrades.record VERSION`, and its tag in that list.
upgrade: $(VENV)/.test
	@$(BIN)/python -m integration.upgrades $(RUN_ARGS)

# Half an hour: a real Prometheus watches a farm under load, and sees the alerts for faults that are made.
alerts: $(VENV)/.test $(VENV)/.test-programs
	@$(BIN)/python -m integration.runs.alerts $(RUN_ARGS)

## Test ---------------------------------------------------------------------------------------------------------------

# Real routers and containers mostly wait; so these parts run beside the parts that compute. The output of a part comes in
# one piece, when the part has ended. A part that fails stops no other part.
PARTS = scenarios test-docker fast pipeline check simulate fuzz-briefly
PROGRAMS = $(addprefix $(VENV)/,.test .test-programs .network-programs .spark-programs .docker-programs)
JOBS = 4
BESIDE = $(MAKE) --no-print-directory --keep-going --jobs=$(JOBS) --output-sync=recurse

# Under ten minutes on two cores, when all programs and packages are there. CI runs this.
test: $(PROGRAMS)
	@echo "Side by side: $(PARTS); then guard, which needs the whole machine"
	@$(BESIDE) $(PARTS:%=part-%); status=$$?; \
	$(MAKE) --no-print-directory part-guard && exit $$status

# Everything, in an hour on two cores: before a release, and after a change to a thing that only this tests.
test-all: export GF_I2P_TIER = all
# Beside four parts, a Python worker of Spark took longer to start than the 10 s that Spark waits.
test-all: JOBS = 3
# Beside tests that only compute, living leaves on a hundred routers looked dead for minutes. So routers come first.
test-all: export GIVES_WAY = fast simulate fuzz-briefly canaries
test-all: $(PROGRAMS) $(VENV)/.browser-programs
	@echo "Side by side, every test: $(PARTS) packages canaries browser; then guard and attack, whose figures need the whole machine"
	@$(BESIDE) $(PARTS:%=part-%) part-packages part-canaries part-browser; status=$$?; \
	$(MAKE) --no-print-directory --keep-going part-guard part-attack && exit $$status

# `make release` gives PASSED, a folder of the commit: a part that has passed leaves its line there, and does not run again.
part-%:
	@if [ -n "$(PASSED)" ] && [ -e "$(PASSED)/$*" ]; then cat "$(PASSED)/$*"; exit 0; fi; \
	began=$$(date +%s); $(if $(filter $*,$(GIVES_WAY)),nice -n 15 )$(MAKE) --no-print-directory $*; status=$$?; \
	line="PART $*: $$(($$(date +%s) - began)) s, exit code $$status"; echo "$$line"; \
	if [ -n "$(PASSED)" ] && [ $$status -eq 0 ]; then \
	  mkdir -p "$(PASSED)" && echo "$$line, at $$(date -u '+%F %T') UTC: not run again" > "$(PASSED)/$*"; \
	fi; exit $$status

# What the repository says about itself: links, commands of pages, plain English, secrets, paths, licences.
ITSELF = tests/docs tests/test_licences.py tests/test_links.py tests/test_plain_english.py tests/test_repository.py tests/test_requirements.py

check: $(VENV)/.test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/deptry --no-ansi .
	@$(BIN)/vulture
	@$(BIN)/python -m pytest $(ITSELF)

# Known faults of the locked packages, asked of the index of packages: a package that the index cannot judge fails, too.
audit: $(VENV)/.test
	@$(BIN)/pip-audit --strict --progress-spinner off --disable-pip --require-hashes -r requirements/spark.txt

# The cost of an entry, against an earlier commit's.
guard: $(VENV)/.test
	@$(BIN)/python -m integration.bench.guard

# With two workers, the fast tests of `make test` ended 200 s after all parts beside them. A worker that has ended its share
# takes tests from another one: without that, one worker was alone for twenty seconds.
fast: $(VENV)/.test $(VENV)/.test-programs
ifeq ($(GF_I2P_TIER),all)
	@$(MAKE) --no-print-directory coverage
	@$(BIN)/python -m pytest -n 4 --dist worksteal -m "not spark" \
	  $(addprefix --ignore=,$(ITSELF) tests/wire tests/raft) $(PYTEST_ARGS)
else
	@$(BIN)/python -m pytest -n 3 --dist worksteal -m "not spark" $(addprefix --ignore=,$(ITSELF)) $(PYTEST_ARGS)
endif

# The tests of wire/ and raft/ take four times as long when coverage counts, so only `make test-all` does this.
coverage: $(VENV)/.test
	@$(BIN)/python -m pytest -n 2 tests/wire tests/raft --cov=gf_i2p/wire --cov=gf_i2p/raft --cov-report= $(PYTEST_ARGS)
	@echo "Branch coverage of wire/ and raft/ (at least 95 % is required):"
	@$(BIN)/coverage report --include='gf_i2p/wire/*,gf_i2p/raft/*' --skip-covered --fail-under=95

# One Spark for all of them, which takes both cores: more processes would each have their own.
pipeline: $(VENV)/.test $(VENV)/.spark-programs
	@$(BIN)/python -m pytest tests/pipeline -m spark $(PYTEST_ARGS)

# The same with the oldest versions that pyproject.toml admits, of what it names; of the rest the newest. These have no
# hashes and are in an environment of their own.
test-lowest: $(VENV)/.test
	@echo "Installing the oldest versions that pyproject.toml admits in $(VENV)/lowest"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/lowest
	@$(BIN)/uv pip install --quiet --python $(VENV)/lowest --resolution lowest-direct --editable '.[uvloop,spark,test]'
	@touch $(VENV)/lowest/.run $(VENV)/lowest/.test
	@$(MAKE) --no-print-directory VENV=$(VENV)/lowest fast pipeline

# The same with each Python that we say we run on, in an environment of its own; one that is not here is named.
PYTHONS ?= 3.11 3.12 3.13
test-pythons:
	@missing=""; \
	for version in $(PYTHONS); do \
	  python=""; \
	  for each in python$$version "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python; do \
	    "$$each" -c '' 2>/dev/null && python=$$each && break; \
	  done; \
	  [ -n "$$python" ] || { missing="$$missing $$version"; continue; }; \
	  echo "Python $$version: $$python"; \
	  $(MAKE) --no-print-directory PYTHON=$$python VENV=$(VENV)/python$$version fast pipeline || exit 1; \
	done; \
	[ -z "$$missing" ] || echo "Not tested, because not here: Python$$missing"

# Whole farms on made-up networks and disks: every seed that ever failed, then fresh ones, the first of them printed; and all
# runs of three servers in small scopes.
ifeq ($(GF_I2P_TIER),all)
SEEDS ?= 500
LIVES ?= 60
SCOPES ?= all
else
SEEDS ?= 60
LIVES ?= 10
SCOPES ?= tiny
endif
simulate: $(VENV)/.test
	@$(BIN)/python -m gf_i2p.cli.main simulate --file tests/simulator/failed_seeds.txt
	@$(BIN)/python -m gf_i2p.cli.main simulate --seeds $(SEEDS)
	@$(BIN)/python -m gf_i2p.cli.main simulate --lives --seeds $(LIVES)
	@$(BIN)/python -m gf_i2p.cli.main simulate --exhaustive $(SCOPES) --seconds 180

# Cores and farms that are broken on purpose, each of which must be noticed.
canaries: $(VENV)/.test
	@$(BIN)/python -m gf_i2p.cli.main simulate --canaries

# Strangers, clients and a seized server attack three real nodes. RUN_ARGS="--only NAME" takes some of the attacks.
attack: $(VENV)/.test
	@$(BIN)/python -m integration.attack $(RUN_ARGS)

# Breaks the core by rules, one place at a time: how many of these mutants does the simulator notice alone, and how many do
# the unit tests? Hours for all of them; RUN_ARGS="--sample 200" takes a part. MUTATED: modules or folders.
MUTATED ?= gf_i2p/raft
mutants: $(VENV)/.test
	@$(BIN)/python -m integration.mutation --by simulator $(RUN_ARGS) $(MUTATED)
	@$(BIN)/python -m integration.mutation --by tests --tests $(patsubst gf_i2p/%,tests/%,$(MUTATED)) $(RUN_ARGS) $(MUTATED)

# Mutated bytes for every decoder of foreign bytes, for this many seconds in all. Before a release: half an hour. The seed
# is printed. RUN_ARGS names targets; RUN_ARGS=--keep takes inputs that reach new code into the corpus.
FUZZ_SECONDS ?= 1800
fuzz: $(VENV)/.test
	@$(BIN)/python -m integration.fuzz --seconds $(FUZZ_SECONDS) $(RUN_ARGS)

# The seeds, the corpus, and what is left of 20 seconds for new inputs.
fuzz-briefly: $(VENV)/.test
	@$(BIN)/python -m integration.fuzz --seconds 20

# On a private network of real I2P routers, in namespaces of its own.
scenarios: $(VENV)/.test $(VENV)/.network-programs $(VENV)/.spark-programs
	@$(BIN)/python -m integration.scenarios $(SCENARIO_ARGS)

# The files in docker/, built and run. From no image at all: DOCKER_ARGS=--fresh. All faults: GF_I2P_TIER=all.
test-docker: $(VENV)/.test $(VENV)/.docker-programs
	@$(BIN)/python -m integration.containers $(DOCKER_ARGS)

# The console's page in Chromium: on a desk and a phone, light and dark, with and without JavaScript, and for axe-core, which
# looks for barriers. Screenshots: build/screenshots.
browser: $(VENV)/.test $(VENV)/.browser-programs
	@$(BIN)/python -m pytest integration/browser $(PYTEST_ARGS)

# The pictures of the README, from a real run: docs/pictures/. Four minutes.
pictures: $(VENV)/.test $(VENV)/.network-programs $(VENV)/.browser-programs
	@$(BIN)/python -m integration.pictures

# The words of the console's page. First: new messages of the code into gf_i2p/cli/page/languages/*/LC_MESSAGES/*.po. Second,
# after the translation: each .po into the .mo that the page reads.
messages: $(VENV)/.test
	@$(BIN)/python -m tests.cli.page.catalogues extract

languages: $(VENV)/.test
	@$(BIN)/python -m tests.cli.page.catalogues compile

# The manual page, made of the command line's own help. To read it: man -l build/gf-i2p.1
MAN ?= build/gf-i2p.1
man: $(VENV)/.test
	@mkdir -p $(dir $(MAN))
	@COLUMNS=80 $(BIN)/argparse-manpage --module gf_i2p.cli.main --function all_commands --prog gf-i2p --project-name gf-i2p \
	  --version "$$($(BIN)/gf-i2p --version | cut -d' ' -f2)" --manual-title "Garlic Farm" \
	  --description "a node of an I2P Garlic Farm" --format single-commands-section --output $(MAN)
	@echo "$(MAN)"

# The pages of docs/reference/ that follow from the code: after a change of a command, a setting, a figure or a log line.
reference: $(VENV)/.test
	@$(BIN)/python -m integration.reference

# The documentation as a site of static files. A warning, such as a link that leads nowhere, ends the build.
docs: $(VENV)/.test
	@$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going --builder html docs build/site
	@echo "build/site/index.html"

## Release ------------------------------------------------------------------------------------------------------------

# Wheel, source, Debian package, list of parts (SBOM), constraints and SHA256SUMS, in dist/. The same commit gives the same bytes.
# A changed tree gives files whose version ends with +changed.
DIST ?= dist
dist: $(VENV)/.test
	@$(BIN)/python -m integration.packages.distribution $(DIST)

# All tests, the figures, and what `make dist` makes; then the tests of the packages, with these very files. Hours. In a clean
# clone at a tag vX.Y.Z only. After a failure by chance, run `make release` again: parts that have passed at this commit do not
# run again.
release: $(VENV)/.test
	@version=$$($(BIN)/python -m integration.packages.release) || exit 1; \
	echo "Release $$version: all tests, figures, packages"; \
	$(MAKE) --no-print-directory test-all PASSED=build/passed/$$(git rev-parse HEAD) && \
	$(MAKE) --no-print-directory dist && \
	$(MAKE) --no-print-directory packages GF_I2P_DIST=$(DIST) && \
	$(MAKE) --no-print-directory bench \
	  RUN_ARGS="--output $(DIST)/benchmarks.json --markdown $(DIST)/benchmarks.md --chart $(DIST)/benchmarks.svg" && \
	echo "Release $$version is in $(DIST)"

# The Debian package and docs/how-to/install.md in a clean root with systemd, real i2pd with the lines of router-config, and the
# same bytes twice.
# GF_I2P_DIST: a folder that `make dist` has made.
packages: $(VENV)/.test $(VENV)/.network-programs $(VENV)/.docker-programs
	@GF_I2P_DIST=$(GF_I2P_DIST) $(BIN)/python -m pytest integration/packages $(PYTEST_ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .import_linter_cache
