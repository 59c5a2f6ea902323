# The commands of a working day. Each one sets up what it needs; see scripts/.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# Scale factor of the TPC-H data, and runs per measurement.
export SF ?= 1
export RUNS ?= 5
# Where `make install` puts things; none: ~/.local.
export PREFIX DESTDIR

# How much longer than in `make test` the campaigns of `make test-long` run.
ROUNDS ?= 20
SBOM ?= hypostyle.cdx.json
ARCHIVE ?= archive
BENCHES ?= export live append tpch ssb operators planning open transactions

.PHONY: help setup build install uninstall demo test test-long test-drivers test-r test-postgres test-go test-odbc test-java bench bench-protocol bench-design-space bench-cluster report archive fuzz sanitize \
	coverage lint deny sbom format clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 28

setup: ## Install what is missing: system packages, Python environment
	@scripts/setup.sh

build: setup ## Build the program, the bench binary, the library for C, and the Python package
	@. scripts/build_env.sh && cargo build --locked --release -p hypostyle-cli -p hypostyle-bench -p hypostyle-c
	@scripts/wheel.sh

install: ## Install program, man page, completions, Python package, the library for C and the ODBC driver from the build, without root: PREFIX (~/.local), DESTDIR
	@scripts/install_program.sh install

uninstall: ## Take away what `make install` has installed
	@scripts/install_program.sh uninstall

demo: build ## Generate TPC-H, query it, export lineitem; compare with DuckDB and netcat (SF=1)
	@. scripts/env.sh && "$$VENV/bin/python" scripts/demo.py --sf $(SF)

test: setup ## Run all tests
	@scripts/test.sh

bench: build ## Measure against the peers and the bars (SF=1 RUNS=5 BENCHES="export append …")
	@[[ " $(BENCHES) " != *" jdbc "* ]] || scripts/setup_java.sh peers
	@[[ " $(BENCHES) " != *" odbc "* ]] || { scripts/setup_odbc.sh && scripts/setup_odbc.sh peers; }
	@. scripts/env.sh && for bench in $(BENCHES); do \
		"$$VENV/bin/python" bench/$$bench.py --sf $(SF) --runs $(RUNS) || exit 1; \
	done

bench-protocol: RUNS := 3
bench-protocol: build ## Measure the client protocol against its peers, networks and bars (SF=1 RUNS=3), half an hour
	@scripts/setup_peers.sh
	@. scripts/env.sh && cd bench && "$$VENV/bin/python" -m protocol --sf $(SF) --runs $(RUNS)

bench-cluster: RUNS := 3
bench-cluster: build ## Measure a cluster as PosDB was: one node, speedup, scaleup (SF=1 RUNS=3), as root for limits and links
	@. scripts/env.sh && "$$VENV/bin/python" bench/cluster.py --sf $(SF) --runs $(RUNS)

bench-design-space: SF := 0.1
bench-design-space: build ## Measure what the protocol could have been: the chapter's Tables 3.3 to 3.9 (SF=0.1)
	@. scripts/env.sh && "$$VENV/bin/python" bench/design_space.py --sf $(SF) --runs $(RUNS)

report: $(if $(RUN),build) ## Write report/index.html, every table and figure of the papers: RUN=smoke|quick|full measures first, ONLY=STEPS
	@$(if $(RUN),scripts/setup_peers.sh)
	@$(if $(filter quick full,$(RUN)),scripts/setup_r.sh && scripts/setup_report.sh)
	@$(if $(RUN),. scripts/env.sh && )cd bench && $(if $(RUN),"$$VENV/bin/python",python3) -m report \
		$(if $(RUN),--run $(RUN)) $(if $(ONLY),--only $(ONLY))

archive: ## Write what an archive keeps of this commit: sources, records, the report, a list of sums: ARCHIVE=DIRECTORY (archive)
	@scripts/archive.sh $(ARCHIVE)

test-long: build ## All campaigns ROUNDS (20) times as long, each allocation refused, sanitizers, cargo-deny; HYPOSTYLE_TEST_SEED repeats a campaign
	@. scripts/build_env.sh && HYPOSTYLE_TEST_ROUNDS=$(ROUNDS) \
		cargo test --locked -p hypostyle-storage --test all \
		-- crash:: images:: faults:: isolation:: model:: --nocapture --test-threads 1
	@. scripts/build_env.sh && HYPOSTYLE_TEST_ROUNDS=$(ROUNDS) HYPOSTYLE_TEST_ALLOCATIONS=all \
		cargo test --locked -p hypostyle-storage --test allocation -- --nocapture --test-threads 1
	@. scripts/build_env.sh && cargo test --locked --release -p hypostyle-placement --lib \
		-- --ignored --nocapture --test-threads 1 larger_models
	@. scripts/build_env.sh && HYPOSTYLE_TEST_ROUNDS=$(ROUNDS) \
		cargo test --locked --release -p hypostyle-placement --test all -- --nocapture random_histories
	@. scripts/build_env.sh && HYPOSTYLE_TEST_ROUNDS=$(ROUNDS) \
		cargo test --locked --release -p hypostyle-cli --test cluster -- --include-ignored --nocapture --test-threads 1
	@scripts/test_upgrade.sh
	@. scripts/env.sh && cd bindings/python && HYPOSTYLE_TEST_ROUNDS=$(ROUNDS) "$$VENV/bin/python" -m pytest -q -s \
		tests/test_survivors.py tests/test_isolation_sql.py tests/test_damage.py \
		tests/test_against_duckdb.py tests/test_against_sqlite.py tests/test_compared.py tests/test_statement_fuzz.py
	@. scripts/build_env.sh && cargo build --release --locked -p hypostyle-server --example pgwire && cd bindings/python \
		&& HYPOSTYLE_PGWIRE="$$CARGO_TARGET_DIR/release/examples/pgwire" HYPOSTYLE_TEST_ROUNDS=$(ROUNDS) \
		"$$VENV/bin/python" -m pytest -q -s tests/test_pgwire_hostile.py
	@scripts/setup_postgres.sh && HYPOSTYLE_TEST_ROUNDS=$(ROUNDS) scripts/test_postgres.sh
	@scripts/sanitize.sh
	@scripts/deny.sh

test-drivers: build ## PostgreSQL's programs, drivers and tools against the server, each through its own client; Java's tools over JDBC; turbodbc and LibreOffice Base over ODBC
	@scripts/pg_drivers.sh
	@scripts/setup_java.sh
	@MODULES=arrow,tools scripts/test_java.sh
	@scripts/setup_odbc.sh tools
	@scripts/test_odbc.sh tools

test-r: build ## Check the R package: R CMD check with DBItest, dplyr's verbs beside RSQLite, surveys, PostgreSQL
	@scripts/setup_r.sh
	@scripts/setup_postgres.sh
	@scripts/test_r.sh

test-postgres: build ## Check the extension for PostgreSQL, and the client in columns, with PostgreSQL 15, 16 and 18
	@scripts/setup_postgres.sh
	@scripts/test_postgres.sh

test-go: build ## Check the Go package: vet, tests with the race detector, examples; Go 1.24 must be there
	@scripts/setup_postgres.sh
	@scripts/test_go.sh

test-java: build ## Check the JDBC driver on each Java from 17 on that is there, its Arrow export, and five tools over it, some minutes
	@scripts/setup_java.sh
	@MODULES=driver,arrow,tools scripts/test_java.sh

test-odbc: build ## Check the ODBC driver: programs in C through unixODBC, also with sanitizers, pyodbc, arrow-odbc, isql, RODBC
	@scripts/setup_odbc.sh
	@scripts/test_odbc.sh

fuzz: setup ## Fuzz what parses bytes, and a server with statements, each target for FUZZ_SECONDS (30)
	@scripts/fuzz.sh

sanitize: setup ## Run the tests of what has `unsafe` under AddressSanitizer, Valgrind and Miri, as far as they are there
	@scripts/sanitize.sh

coverage: setup ## Measure which lines the tests below DataFusion reach
	@scripts/sanitize.sh coverage

lint: setup ## Check formatting and lints of Rust and Python
	@scripts/lint.sh

deny: setup ## Check licences, sources, bans and advisories of all dependencies with cargo-deny
	@scripts/deny.sh

sbom: setup ## Write what the build consists of as a CycloneDX bill of materials: SBOM=FILE (hypostyle.cdx.json)
	@. scripts/env.sh && "$$VENV/bin/python" scripts/dependencies.py sbom $(SBOM)

format: setup ## Format Rust and Python
	@cargo fmt --all
	@. scripts/env.sh && "$$VENV/bin/ruff" format --quiet --config scripts/ruff.toml scripts bench bindings/python bindings/adbc bindings/c bindings/odbc

clean: ## Remove our own build artefacts and the scratch data; keep the dependencies, a quarter of an hour of compiling
	@. scripts/env.sh && rm -rf "$$HYPOSTYLE_CACHE/data" "$$CARGO_TARGET_DIR/wheels" && cargo clean --quiet --workspace
