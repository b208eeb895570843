# `make help` lists the targets.

MOUNTPOINT ?= /mnt/memory
MEMFS = .venv/bin/memfs
PYTEST = .venv/bin/python -m pytest
MODEL_STEPS ?= 10000
FSX_OPERATIONS ?= 60000

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: mount
mount: ## set up what is missing and mount at MOUNTPOINT (default /mnt/memory)
	@scripts/setup
	@$(MEMFS) mount "$(MOUNTPOINT)"

.PHONY: umount
umount: ## store what is pending and unmount MOUNTPOINT
	@$(MEMFS) umount "$(MOUNTPOINT)"

.PHONY: check
check: ## format, lint, types and layers, without running anything
	@scripts/setup --check
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	$(PYTEST) -q tests/unit/test_layers.py

.PHONY: test
test: ## every test, on real mounts and with real tools
	@scripts/setup --test-tools
	@scripts/test $(ARGS)

.PHONY: dist
dist: ## a wheel in dist/, with all it needs to be installed without a network, and the manual pages
	@scripts/dist

.PHONY: bench
bench: ## memfs beside its peers, into bench/: about half an hour (QUICK=1: about four minutes)
	@scripts/setup --bench
	.venv/bin/python -m scripts.bench $(if $(QUICK),--quick) $(ARGS)

.PHONY: soak
soak: ## the tests of faults at full length: an hour of kills, bad networks, outages and mixed load
	@scripts/setup --test-tools
	TEST_SOAK_KILLS=200 TEST_SOAK_EDITS=200 TEST_SOAK_READS=10000 TEST_SOAK_IDLE_SECONDS=60 TEST_SOAK_BUSY_SECONDS=60 \
	TEST_SOAK_NETWORK_SECONDS=30 TEST_SOAK_OUTAGE_SECONDS=60 TEST_SOAK_STALL_SECONDS=30 TEST_SOAK_SECONDS=600 \
	TEST_SOAK_WATCHDOG=3600 $(PYTEST) -s --timeout=0 tests/faults $(ARGS)

.PHONY: nightly
nightly: ## what takes long: random calls, CPython's own tests, stress-ng and fio on a mount (about an hour; MODEL_STEPS=1000: less)
	@scripts/setup --nightly-tools
	MODEL_STEPS=$(MODEL_STEPS) FSX_OPERATIONS=$(FSX_OPERATIONS) $(PYTEST) tests/mount/model tests/mount/posix/test_fsx.py tests/nightly/nightly_*.py $(ARGS)

.PHONY: clean
clean: ## remove what the other targets made, .venv included
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
