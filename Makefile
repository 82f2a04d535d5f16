# What people and CI run. Targets with ## are listed by `make help`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION := $(shell sed -n '/^\[package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
IMAGE ?= registry.local/mcx:$(VERSION)
# where `make install` puts things; DESTDIR comes before it when a package is made
PREFIX ?= /usr/local
DESTDIR ?=
# the binary that is installed; without it a static one is built
MCX ?=
# release, or ci: bigger, and built in half the time
PROFILE ?= release

.PHONY: help demo demo-down test test-e2e soak soak-node soak-power bench bench-offline bench-node lint lint-shell deny image generate generated-current install uninstall clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## a real cluster on this machine, and a rollout to watch (root, Linux; installs what is missing)
	@demo/demo.sh up

demo-down: ## remove the demo's cluster
	@demo/demo.sh down

test: ## all tests: plain ones, power cuts, then those on a real cluster (root and Go; without them: cargo test)
	cargo test --locked
	tests/faults/power.sh
	tests/rig/e2e.sh

test-e2e: ## only the tests on a real cluster; TEST="e2e_chrony e2e_drift", FILTER=word and KEEP=1 choose
	tests/rig/e2e.sh $(TEST)

soak: soak-node soak-power ## all of what `make test` runs a sample: failures at every stage of a rollout, random states and lives (MCX_SEED=N: from another one on), a disturbed API server
	MCX_SOAK=1 SHOW=1 tests/rig/e2e.sh e2e_failover e2e_agree e2e_guard e2e_random_life e2e_api_weather

soak-node: ## the node's part of it: killed, failed or answered wrongly at every call; races, damage, random lives (root; MCX_SOAK=5: every fifth)
	MCX_SOAK=$${MCX_SOAK:-1} cargo test --locked --test sweep_kill --test sweep_error --test sweep_daemon --test node_damage --test disk_faults --test node_races --test node_blind --test node_actions --test daemon_api --test random_life --test node_any_drift -- --nocapture

soak-power: ## every power cut of an update and its withdrawal, 1,000 of random updates, and some of a virtual machine, on ext4, xfs and btrfs (root)
	MCX_SOAK=1 tests/faults/power.sh
	MCX_SOAK=1 tests/faults/vm.sh

bench: ## the numbers that mcx promises: offline, on a folder, and measured on a real cluster
	@failed=0; for part in bench-offline bench-node; do $(MAKE) --no-print-directory $$part || failed=1; done; tests/rig/bench.sh && exit $$failed

bench-offline: ## only those of the offline commands: render, validate, plan, memory
	cargo bench --locked --bench offline

bench-node: ## only those of a node: apply, sweep, drift, a killed update; memory and wake-ups of a resting daemon (root)
	@binary=$$(build/static.sh release); MCX_BINARY=$$binary cargo bench --locked --bench node

lint: lint-shell deny ## format, clippy, shell scripts, licences and duplicate crates
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --lib --quiet

lint-shell:
	@if command -v shellcheck >/dev/null; then shellcheck -x -S warning .ci/run build/*.sh build/kubectl_complete-mcx demo/*.sh tests/*.sh tests/faults/*.sh tests/rig/*.sh; \
	else echo "lint: shellcheck is not installed: scripts are only parsed"; \
	  for f in .ci/run build/*.sh build/kubectl_complete-mcx demo/*.sh tests/*.sh tests/faults/*.sh tests/rig/*.sh; do bash -n "$$f"; done; fi

deny:
	@if command -v cargo-deny >/dev/null; then cargo deny --locked --all-features check bans licenses sources; \
	else echo "lint: cargo-deny is not installed (cargo install --locked cargo-deny): licences are not checked"; fi

image: ## the container image as dist/mcx-VERSION.tar, without a container engine
	build/image.sh "$$(build/static.sh $(PROFILE))" dist/mcx-$(VERSION).tar $(IMAGE)
	@ls -l dist/mcx-$(VERSION).tar

generate: ## files made from the code: CRDs, completions, man pages, reference
	build/generate.sh

generated-current: ## fails when `make generate` would change a file
	build/generate.sh --check

install: ## mcx, kubectl mcx, completions and man pages into PREFIX (/usr/local); DESTDIR=DIR, MCX=BINARY
	build/install.sh "$(or $(MCX),$$(build/static.sh $(PROFILE)))" "$(DESTDIR)$(PREFIX)"

uninstall: ## remove what `make install` put there
	build/install.sh --remove "$(DESTDIR)$(PREFIX)"

clean: ## build results; caches under ~/.cache stay
	cargo clean
	rm -rf dist
