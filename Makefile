# make            what CI runs first: check, then test
# make demo       three simulated replicas, the gateway, a load under four strategies (STAY=1: stays up)
# make test       all tests but those of real vLLM
# make coverage   the same, slower, and which lines and branches they miss
# make test-vllm  tests against two real vLLM replicas on the CPU
# make check      format, lint, types, import rules     make fmt   format     make bench   what things cost
#                 (VLLM_ROUTER=path: beside a vllm-router 0.1.17)

VENV ?= .venv
PYTHON ?= python3
VLLM_ENV ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/prefixway/vllm
BIN := $(VENV)/bin
STAY ?=
VLLM_ROUTER ?=

.PHONY: all check test coverage fmt bench demo test-vllm clean
all: check test

$(VENV)/.demo: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing prefixway into $(VENV)"
	@$(BIN)/python -m pip --disable-pip-version-check install -q -e .
	@touch $@

$(VENV)/.test: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing prefixway and its test tools into $(VENV)"
	@$(BIN)/python -m pip --disable-pip-version-check install -q -e '.[hub,loadtest,redis,test]'
	@touch $@ $(VENV)/.demo

# Programs that tests run and no registry of Python has: unpacked, not installed. Without apt those tests are skipped.
$(VENV)/.debian: scripts/debian.sh | $(VENV)/.test
	@if command -v apt-get >/dev/null; then scripts/debian.sh $(VENV)/debian prometheus libnss-wrapper; \
	else echo "no apt-get: tests that need Debian packages are skipped"; fi
	@touch $@

# Docker Compose, to read our own file with. It is there as a program for Linux on x86-64.
$(VENV)/.compose: scripts/compose.sh | $(VENV)/.test
	@if [ "$$(uname -sm)" = "Linux x86_64" ]; then scripts/compose.sh $(VENV)/compose; \
	else echo "no Docker Compose for this machine: its tests use the installed one, if any"; fi
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/prefixway demo $(if $(STAY),--stay)

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/check_mirror.py

test: $(VENV)/.test $(VENV)/.debian $(VENV)/.compose
	$(BIN)/python -m pytest -n 2 --dist worksteal

coverage: $(VENV)/.test $(VENV)/.debian $(VENV)/.compose
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -n 2 --dist worksteal
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

fmt: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks.kv
	$(BIN)/python -m benchmarks.shared_index
	$(BIN)/python -m benchmarks.decide
	$(BIN)/python -m benchmarks.onlookers
	$(BIN)/python -m benchmarks.prediction_error
	$(BIN)/python -m benchmarks.learning
	$(BIN)/python -m benchmarks.relay_cost --rounds 3 --seconds 2 $(if $(VLLM_ROUTER),--vllm-router $(VLLM_ROUTER))
	$(BIN)/python -m benchmarks.long_prompt
	$(BIN)/python -m benchmarks.many_streams

test-vllm: $(VENV)/.test
	scripts/vllm/install.sh $(VLLM_ENV)
	VLLM_ENV=$(VLLM_ENV) $(BIN)/python -m pytest tests/vllm

clean:
	rm -rf $(VENV) dist build .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis
