# Bursar builds on any Debian with a Rust toolchain; `make setup` installs the rest.
.POSIX:
SHELL = /bin/sh
CARGO = cargo
# The same selection as that of `cargo test`, so that nothing is compiled again with other features.
BUILD = $(CARGO) build --workspace --all-targets --locked

.PHONY: help setup check test browser sdks fmt bench-peers schemathesis attack failover race container

help:
	@echo 'make setup   install what the tests need: a C compiler, PostgreSQL, PgBouncer, curl, jq, Node.js, Python and Chromium'
	@echo 'make check   check format, lints, documentation, tidy rules and dependencies'
	@echo 'make test    run setup, then every test and example'
	@echo 'make sdks    test the SDKs and their workers, with the debug build'
	@echo 'make browser test the dashboard in Chromium, with the debug build (tests/browser/run)'
	@echo 'make fmt     format the sources'
	@echo 'make schemathesis  test a throwaway server against its OpenAPI document (needs Python)'
	@echo 'make attack        attack a throwaway server and report the results (needs Python)'
	@echo 'make failover      fail a Patroni pair over under load (needs root, Python and Debian packages)'
	@echo 'make race          start 200 model calls at once under a budget for 20 (needs Python)'
	@echo 'make container     build the image, run it and check it (needs podman or docker, and a registry)'
	@echo 'make bench-peers   compare Bursar with other job queues on this machine (bench/README.md)'

# Tests start their own throwaway PostgreSQL and need only its programs: the file in postgresql-common keeps Debian from
# creating and starting a system cluster.
setup:
	@set -eu; \
	need=''; \
	command -v cc >/dev/null 2>&1 || need='build-essential'; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || need="$$need postgresql"; \
	[ -x /usr/sbin/pgbouncer ] || need="$$need pgbouncer"; \
	command -v curl >/dev/null 2>&1 || need="$$need curl"; \
	command -v jq >/dev/null 2>&1 || need="$$need jq"; \
	command -v node >/dev/null 2>&1 || need="$$need nodejs"; \
	command -v npm >/dev/null 2>&1 || need="$$need npm"; \
	python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || need="$$need python3 python3-venv"; \
	[ -x /usr/bin/chromium ] || [ -x "$${CHROMIUM:-}" ] || need="$$need chromium"; \
	if [ -z "$$need" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then sudo=''; else sudo='sudo'; fi; \
	if ! command -v apt-get >/dev/null 2>&1; then \
		echo "please install:$$need (this machine has no apt-get)" >&2; exit 1; \
	fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	$$sudo mkdir -p /etc/postgresql-common/createcluster.d; \
	echo 'create_main_cluster = false' | $$sudo tee /etc/postgresql-common/createcluster.d/bursar.conf >/dev/null; \
	$$sudo apt-get update -q; \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$need

check: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps --locked
	$(CARGO) run -q --locked -p xtask -- tidy
	$(CARGO) run -q --locked -p xtask -- deps
	sdk/typescript/check
	sdk/python/check

test: setup
	$(CARGO) test --workspace --locked --no-fail-fast
	$(BUILD)
	tests/browser/run
	$(MAKE) sdks
	proof/schemathesis/run --brief --seed 7
	proof/schemathesis/run --brief --seed 7 --database postgres

# The scenarios need the virtual environment that the tests of the Python SDK create.
sdks: setup
	$(BUILD)
	sdk/typescript/test
	sdk/python/test
	tests/workers/run

# CHROMIUM is the path of the browser, if it is not Debian's.
browser: setup
	$(BUILD)
	tests/browser/run

fmt:
	$(CARGO) fmt --all

# ASKED passes options to the script: make schemathesis ASKED='--database postgres --seed 7'
schemathesis:
	@command -v python3 >/dev/null 2>&1 || { echo 'please install: python3 python3-venv' >&2; exit 1; }
	$(CARGO) build --locked
	proof/schemathesis/run $(ASKED)

# ASKED passes options to the script: make attack ASKED='--quick --database postgres'
attack:
	@command -v python3 >/dev/null 2>&1 || { echo 'please install: python3' >&2; exit 1; }
	$(CARGO) build --release --locked
	proof/attack/run $(ASKED)

# ASKED passes options to the script: make failover ASKED='--rounds 1 --only partition'
failover:
	@command -v python3 >/dev/null 2>&1 || { echo 'please install: python3' >&2; exit 1; }
	$(CARGO) build --locked
	proof/failover/run $(ASKED)

# ASKED passes options to the script: make race ASKED='--rounds 1 --only bursar,naive'
race:
	@command -v python3 >/dev/null 2>&1 || { echo 'please install: python3 python3-venv' >&2; exit 1; }
	$(CARGO) build --locked
	proof/race/run $(ASKED)

container:
	proof/container/run

# PEERS passes options to the script: make bench-peers PEERS='--works drain --rounds 1'
bench-peers: setup
	@set -eu; \
	need=''; \
	command -v python3 >/dev/null 2>&1 || need="$$need python3"; \
	command -v npm >/dev/null 2>&1 || need="$$need npm"; \
	command -v redis-server >/dev/null 2>&1 || need="$$need redis-server"; \
	if [ -z "$$need" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ]; then sudo=''; else sudo='sudo'; fi; \
	if ! command -v apt-get >/dev/null 2>&1; then \
		echo "please install:$$need (this machine has no apt-get)" >&2; exit 1; \
	fi; \
	$$sudo apt-get update -q; \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$need
	$(CARGO) build --profile dist --locked
	bench/run $(PEERS)
