# The ways to build, test and measure. `make` alone lists them. CARGO_TARGET_DIR is honoured everywhere.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup rivals build pgo static java package programs demo test fuzz simulate planted-faults \
    sanitize soak soak-all tck applications bench load-tools docs lint tidy fmt clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## Install what is missing (as root or with sudo), or name it
	@scripts/setup.sh

rivals: ## Install the other servers to measure against as well
	@scripts/setup.sh --rivals

PROFILE ?= release

build: ## Build the program: target/release/touchstone
	@. scripts/environment.sh && cargo build --profile $(PROFILE) --locked -p touchstone && \
	    scripts/split-debug.sh "$$target/$(PROFILE)/touchstone"

pgo: ## Build the program by a profile of its work: target/pgo/touchstone (FEATURES=wasm)
	@PROFILE=$(PROFILE) FEATURES='$(FEATURES)' scripts/pgo.sh

static: ## Build and try the program without shared libraries: target/*-linux-musl/release/touchstone
	@PROFILE=$(PROFILE) scripts/static.sh

java: ## Build the Java side of servlets and run its tests: target/java
	@scripts/java.sh

package: ## Build the Debian package and look into it: target/debian/*.deb
	@scripts/setup.sh --brief
	@scripts/package.sh

programs: ## Build the SPICE programs: target/programs
	@. scripts/environment.sh && $(MAKE) --no-print-directory -C programs/cgi
	@. scripts/environment.sh && $(MAKE) --no-print-directory -C programs/fastcgi
	@. scripts/environment.sh && $(MAKE) --no-print-directory -C programs/nsapi
	@. scripts/environment.sh && mkdir -p "$$target/programs/python" && \
	    cp programs/python/*.py "$$target/programs/python" && mkdir -p "$$target/programs/wasm" && \
	    cp programs/wasm/spice.wasm "$$target/programs/wasm"
	@scripts/java.sh --brief && . scripts/environment.sh && $(MAKE) --no-print-directory -C programs/servlet && \
	    $(MAKE) --no-print-directory -C programs/jsp || [ $$? = 3 ]

demo: ## Measure every interface of touchstone beside other servers, and the accelerator
	@scripts/setup.sh --demo
	@scripts/demo.sh

test: ## Run every test; the last line is the sum
	@scripts/setup.sh --brief
	@scripts/test.sh

fuzz: ## Run every fuzz target for half a minute (SECONDS_EACH=30)
	@scripts/setup.sh --brief
	@scripts/fuzz.sh

simulate: ## Run 10,000 simulations (SEED=1 PART=disk SEEDS=10000 SECONDS_TO_RUN=28800)
	@SEED='$(SEED)' PART='$(PART)' SEEDS='$(SEEDS)' PROFILE='$(or $(filter-out release,$(PROFILE)),dev)' \
	    scripts/simulate.sh

planted-faults: ## Show that the simulator finds the faults of crates/simulation/faults
	@scripts/planted-faults.sh

sanitize: ## Run the tests of unsafe code under AddressSanitizer and ThreadSanitizer
	@scripts/setup.sh --brief
	@scripts/sanitize.sh

soak: ## Run the model of what the cache may share with fresh seeds, for an hour (SECONDS_TO_RUN=3600)
	@scripts/setup.sh --brief
	@scripts/soak.sh

soak-all: ## Run everything at once for eight hours (SECONDS_TO_RUN=28800), with a report
	@scripts/soak-all.sh

tck: ## Run the test kit of Jakarta Servlet here and in Tomcat (TCK=ARCHIVE_OR_SOURCES)
	@scripts/setup.sh --brief
	@. scripts/environment.sh && scripts/tck.py --binary "$$target/$(PROFILE)/touchstone" \
	    $(if $(TCK),--kit '$(TCK)')

applications: ## Crawl web applications of others here and in Tomcat (APPLICATIONS='GROUP:NAME:VERSION ...')
	@scripts/setup.sh --brief
	@. scripts/environment.sh && scripts/compare-applications.py --binary "$$target/$(PROFILE)/touchstone" \
	    $(APPLICATIONS)

docs: ## Make the book a site, with a search: target/docs/index.html
	@scripts/setup.sh --brief
	@. scripts/environment.sh && scripts/docs.py "$$target/docs"

bench: ## Measure every kind of work on this build and the other servers that are installed
	@scripts/setup.sh --brief
	@scripts/bench.sh $(if $(WORKS),--works $(WORKS)) $(addprefix --sut ,$(SUT))

load-tools: ## Hold the load engine against wrk, h2load, k6, ghz, Gatling and vegeta, and write docs/load.md
	@scripts/setup.sh --brief --rivals
	@. scripts/environment.sh && cargo build --release --locked -p touchstone && \
	    scripts/compare-load-tools.py --binary "$$target/release/touchstone" --write \
	    $(if $(PARTS),--parts $(PARTS))

lint: ## Check format, lints, and the dependencies' licences and advisories
	@scripts/setup.sh --brief
	@scripts/lint.sh

tidy: ## Draw the imports between crates and modules
	@. scripts/environment.sh && cargo run --quiet --locked -p touchstone-tidy

fmt: ## Format the code
	@. scripts/environment.sh && cargo fmt --all

clean: ## Remove what was built and the results of make demo and make bench
	@. scripts/environment.sh && cargo clean
	@rm -rf results
