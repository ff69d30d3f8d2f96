# Tandem's commands. `make serve` and `make test` work on a bare machine; each target first looks
# whether what it needs is there, and installs only what is missing.
MAKEFLAGS += --no-print-directory
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

MODEL ?= default
PORT ?=
ARGS ?=
JOBS ?= $(shell nproc)

export PATH := $(CURDIR)/.venv/bin:$(PATH)
export TANDEM_BINARY := $(CURDIR)/build/tandem

setup = python3 tools/setup.py
step = @printf '\n== %s\n' '$(1)'

.PHONY: help serve build setup model models test unit lint check format check-san fuzz soak bench clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | \
	  awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: ## install what a build needs: Debian packages, Rust, libmlx
	@$(setup) build

build: setup ## build/tandem
	@$(MAKE) -s build/build.ninja
	@cmake --build build -j $(JOBS)

# A preset is configured once, and again when the presets change; ninja sees to the rest.
configure = cmake --preset $(1) --log-level=WARNING >/dev/null && touch $@
build/build.ninja: CMakePresets.json
	@$(call configure,release)
build-%/build.ninja: CMakePresets.json
	@$(call configure,$*)

model models:
	@$(setup) $@

serve: build ## build, get the default model, and serve (MODEL=path PORT=8080 ARGS="…")
	@[ "$(MODEL)" != default ] || $(setup) model
	@exec build/tandem serve "$(MODEL)" $(if $(PORT),--port $(PORT)) $(ARGS)

# Layering and tidiness of the sources; needs no build.
lint:
	$(call step,Layering and tidiness)
	@python3 tools/layering.py
	@python3 tools/tidy.py

unit: build models
	$(call step,Unit tests)
	@ctest --test-dir build -j $(JOBS) --output-on-failure --no-tests=error

test: lint ## every test, from nothing: unit, HTTP, docs, fuzz, portable build, sanitizers
	@$(setup) test
	@$(MAKE) unit
	$(call step,Bridge)
	@cargo test --release --locked --quiet --manifest-path bridge/Cargo.toml
	$(call step,Server$(,) docs and tools)
	@python -m pytest tests
	$(call step,Unit tests of the portable build)
	@$(MAKE) unit-portable SKIP=slow
	$(call step,Unit tests and fuzz targets under address and undefined-behaviour sanitizers)
	@$(MAKE) unit-asan SKIP=slow

# The unit tests of another preset: portable, asan or tsan; SKIP=slow leaves out real models.
unit-%: models
	@$(MAKE) -s build-$*/build.ninja
	@cmake --build build-$* -j $(JOBS)
	@ctest --test-dir build-$* -j $(JOBS) --output-on-failure --no-tests=error \
	  $(if $(SKIP),-LE $(SKIP))

check: ## before a commit, about a minute: format, clang-tidy on changed files, layering, fast unit tests
	@$(setup) check
	@$(MAKE) lint build
	$(call step,Format)
	@git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format --dry-run -Werror
	$(call step,clang-tidy)
	@python tools/clang_tidy.py $(if $(ALL),--all)
	$(call step,Fast unit tests)
	@ctest --test-dir build -j $(JOBS) --output-on-failure --no-tests=error -LE slow

format: ## rewrite the C++ sources in the project's format
	@$(setup) check
	@git ls-files '*.cpp' '*.h' '*.cu' | xargs clang-format -i

check-san: setup ## unit tests under address, undefined-behaviour and thread sanitizers
	$(call step,Address and undefined behaviour)
	@$(MAKE) unit-asan
	$(call step,Threads)
	@$(MAKE) unit-tsan

fuzz: ## fuzz every parser of outside bytes with clang (SECONDS_EACH=60)
	@$(setup) fuzz
	@$(MAKE) -s build-fuzz/build.ninja
	@cmake --build build-fuzz -j $(JOBS)
	@python3 tools/fuzz.py build-fuzz --seconds $(or $(SECONDS_EACH),60)

soak: build model ## mixed requests against one server for a long time (MINUTES=10)
	@$(setup) test
	@SOAK_MINUTES=$(or $(MINUTES),10) python -m pytest -s tests/soak

bench: build model ## speed beside llama.cpp, built for this machine (ARGS="--only prefill-512")
	@$(setup) bench
	@python -m bench $(ARGS)

clean: ## remove the builds; .venv and the models stay
	@rm -rf build build-*
