PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Specs that take long to verify, and that `make test` leaves to `make sweep`: their kernels are like those of other specs
# and of tests. Each was verified when its modules were built. tests/house/test_verified_specs.py checks that the other
# specs have a kernel of each kind.
LISTS := $(patsubst %,specs/%.yaml,add_bias_gelu_bf16 add_rms_norm_bwd attention attention_bwd_kv attention_bwd_q attention_causal \
	attention_decode attention_padded \
	attention_window bmm_bf16 cross_entropy gather_gemm_bf16 gemm_f8_blocks permuted_gemm_bf16 grouped_gemm_bf16 grouped_swiglu_bf16 \
	cross_entropy_vocabulary geglu_bwd gemm_bf16 gemm_bf16_cases gemm_bf16_odd gemm_bf16_pingpong gemm_f32_fma \
	gemm_f32_fma_workspace gemm_f8 gemm_f8_ada gemm_f8_rows gemm_few_rows gemm_short_k hgemm_bf16 jsd kl_div \
	layer_norm_bwd linear_gelu_bf16 linear_gelu_preact_bf16 linear_residual_bf16 rms_norm_bwd rope_bwd sgemm sgemm_axpby \
	sgemm_mmajor softmax swiglu_bf16)

# Where this is set, every one of the tests' processes would compile the package anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test style types current verified sweep docs links pages pictures bench-render receipts-table clean
.DELETE_ON_ERROR:

demo: $(STAMP)
	$(BIN)/cutegen build specs/sgemm_mmajor.yaml
	@echo
	@echo "The kernel is in generated/sgemm_mmajor.py. On a machine with a GPU, run it with"
	@echo "  $(BIN)/python generated/sgemm_mmajor.py --M 256 --N 128 --K 64 --bench"

# mypy keeps one processor busy for most of a minute. Meanwhile the other one runs the checks that need no kernel, and
# starts to verify. Three processes test on two processors: a quarter of the time a test waits, for what it has started
# or for a time to pass.
test: $(STAMP)
	$(MAKE) -j 2 types style links current verified
	$(BIN)/python -m pytest -n 3 --dist loadfile

style: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

current: $(STAMP)
	$(BIN)/cutegen build --check specs/

verified: $(STAMP)
	$(BIN)/cutegen verify $(filter-out $(LISTS),$(wildcard specs/*.yaml)) --on cpu

# What `make test` leaves out of long lists, of which it takes a part.
sweep: $(STAMP)
	$(BIN)/cutegen verify $(LISTS) --on cpu
	$(BIN)/python -m pytest -n 3 --dist loadfile -m sweep

# Fails on a link or an anchor that leads nowhere, and on a page that nothing leads to. With --quiet it would not.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The same without the index of the search and the colours of code, which take most of the time and tell nothing of links.
links: $(STAMP)
	NO_MKDOCS_2_WARNING=1 CUTEGEN_DOCS_IN_FULL=false $(BIN)/mkdocs build --strict --site-dir build/site

# The pages, and parts of pages, that are made and committed; the tests hold them current.
pages: $(STAMP)
	PYTHONPATH=docs $(BIN)/python -m making.committed

pictures: $(STAMP)
	PYTHONPATH=docs $(BIN)/python -m making.pictures

bench-render: $(STAMP)
	$(BIN)/python benchmarks/render_matrix.py

receipts-table: $(STAMP)
	$(BIN)/cutegen receipts specs/ --into docs/receipts.md

# Done again only when one of these two files changes: the package itself is installed in place.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[dev,docs]' -c constraints.txt
	$(BIN)/cutegen schema > specs/.cutegen.schema.json
	$(BIN)/python -m cutegen.emulator.native
	touch $@

clean:
	rm -rf $(VENV) build site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
