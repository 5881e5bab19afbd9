# Every target sets up what it needs: Python >= 3.11, git and make are enough.
PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# Files whose sha256 is not the one of requirements/*.txt are refused (`make lock` writes those).
HASHED := env -u PIP_CONSTRAINT $(PIP) --require-hashes --no-deps --requirement

.PHONY: quickstart fast test slow attack lint format bench pretrained wheel docs audit lock clean

quickstart: $(VENV)/.run
	$(VENV)/bin/adlm quickstart

fast: $(VENV)/.run
	$(VENV)/bin/adlm quickstart --fast

# Two tests at a time, one thread each: threads of several processes would hinder one another.
test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(PY) -m pytest --numprocesses 2 --dist worksteal

slow: $(VENV)/.dev
	$(PY) -m pytest -m slow

# Seeded and resumable: results/attack.json and results/mutation.json say what is done already.
SECONDS_EACH ?= 3600
attack: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(PY) -m attack --seconds $(SECONDS_EACH)
	OMP_NUM_THREADS=1 $(PY) -m attack.mutation --seconds $(SECONDS_EACH)

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(VENV)/.dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(VENV)/.dev
	$(PY) benchmarks/train_step.py

# The models that are shipped: about two hours of one core. They are committed once, not each time.
pretrained: $(VENV)/.dev
	$(VENV)/bin/adlm train shipped-mdlm --resume
	$(VENV)/bin/adlm train shipped-bd3lm --base runs/shipped-mdlm --resume
	$(VENV)/bin/adlm train shipped-ar --resume
	for model in mdlm bd3lm ar; do \
		rm -rf adlm/pretrained/$$model && \
		$(VENV)/bin/adlm export runs/shipped-$$model --to adlm/pretrained/$$model --bits 16 && \
		rm adlm/pretrained/$$model/*.py adlm/pretrained/$$model/README.md && \
		$(VENV)/bin/adlm eval likelihood adlm/pretrained/$$model --split test \
			--out results/eval-pretrained-$$model.json && \
		cp results/eval-pretrained-$$model.json adlm/pretrained/$$model/results.json && \
		$(PY) tools/made.py runs/shipped-$$model adlm/pretrained/$$model || exit 2; \
	done
	$(VENV)/bin/adlm sample --json results/pretrained-samples.jsonl
	$(PY) docs/build.py

wheel: $(VENV)/.dev
	$(PY) -m build

docs: $(VENV)/.dev
	$(PY) docs/build.py
	$(PY) docs/build.py --site

# Known holes in the pinned packages (needs the network), and the licence of each.
audit: $(VENV)/.dev
	$(PY) tools/audit.py

lock: $(VENV)/.dev
	$(PY) tools/lock.py

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis

# A GPU build of torch: make quickstart PIP_ARGS="--index-url ..."; the pinned version stays. torch
# alone has no hash: it is another file on every kind of machine.
$(VENV)/.run: pyproject.toml constraints.txt requirements/run.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "adlm needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV) || \
		{ echo "the Python venv module is missing (Debian: apt-get install python3-venv)"; exit 2; }
	@echo "installing into $(VENV) (once, a few minutes)"
	@$(HASHED) requirements/run.txt || $(NO_NETWORK)
	@$(PIP) $(PIP_ARGS) torch==2.13.0 || $(NO_NETWORK)
	@$(PIP) --no-build-isolation --editable '.[plots]' || $(NO_NETWORK)
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	@$(HASHED) requirements/dev.txt || $(NO_NETWORK)
	@$(PIP) --no-build-isolation --editable '.[data,tokenizers,tensorboard,plots,judge,harness,serve,docs,dev]' || $(NO_NETWORK)
	@touch $@

NO_NETWORK = { echo "installing failed: is the network up? 'make $(MAKECMDGOALS)' continues where it stopped"; exit 2; }
