"""Kernels of a module that differ in numbers alone: what only the first of them is verified on, and what all are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.cases.forms import forms_of
from cutegen.codegen import Module, generate
from cutegen.codegen.variables import Variables
from cutegen.planning.plan import Plan
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.forms import kernels_by_form, runners_of_forms
from cutegen.verification.orders import cases_for_orders
from cutegen.verification.runner import verify_case

ROWS = """\
cutegen: 1
kernel: rows
op: rowwise
targets: [sm_90a]
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = X / sum(X, N)
"""
COMMON = {"all one less", "all 1", "offset residue", "rows", "the longest rows"}
OF_FORM = {"all one more", "several and a residue", "rows of all blocks", "tile", "primes", "padded residue"}
OF_FORM |= {"special values", "rows of all magnitudes"}
OF_TESTED = OF_FORM - {"several and a residue"}  # which with as many rows as it has are the longest rows


@pytest.fixture(scope="module")
def module() -> Module:
    (found,) = generate(ROWS, "rows.yaml").modules
    return found


def firsts_of_form(kernels: Sequence[Plan]) -> set[int]:
    """The first kernel of each form."""
    return {places[0] for places in kernels_by_form(kernels)}


def clusters(module: Module) -> list[int]:
    return [(kernel.spec.schedule.cluster or {"N": 1})["N"] for kernel in module.plan.kernels]  # type: ignore[attr-defined]


def is_for_few(kernel: Plan) -> bool:
    """Whether a kernel is for few rows, by a bound on M besides that on N."""
    return "M <= " in kernel.case


def names(cases: list[Case], kernel: str) -> set[str]:
    return {case.name.removesuffix(f", {kernel}") for case in cases if case.of == (kernel, 0)}


def test_kernels_of_clusters_are_of_one_form_whatever_their_size(module: Module) -> None:
    sizes = clusters(module)
    firsts = firsts_of_form(module.plan.kernels)
    usual = [place for place, kernel in enumerate(module.plan.kernels) if not is_for_few(kernel)]
    many = [place for place in usual if sizes[place] > 1]
    assert len(many) > 1 and firsts & set(many) == {many[0]}  # the smallest cluster's
    assert firsts >= {place for place in usual if sizes[place] == 1}


def test_a_kernel_without_a_form_is_like_none(module: Module) -> None:
    first = (
        generate(ROWS.replace("rowwise", "elementwise").replace(" / sum(X, N)", " * 2"), "rows.yaml").modules[0].plan
    )
    assert first.spec.family.form(first) is None
    assert firsts_of_form([first, first]) == {0, 1}


def test_each_kernel_has_cases_of_its_lengths_and_one_those_of_the_form(module: Module) -> None:
    tested, cases = runners_of_forms(module.plan), list(derive_cases(module.plan))
    for place, kernel in enumerate(module.plan.kernels):
        own = names(cases, kernel.case)
        if clusters(module)[place] > 1 and not is_for_few(kernel):
            assert own >= COMMON, kernel.case
            assert (own >= OF_TESTED) if place in tested else not own & OF_FORM, kernel.case


def test_a_kernel_that_takes_few_rows_is_tested_for_its_form(module: Module) -> None:
    """Where one before it takes few rows of its lengths, each case has more rows than that."""
    kernels = module.plan.kernels
    several = [place for place, sizes in enumerate(clusters(module)) if sizes > 1 and not is_for_few(kernels[place])]
    (place,) = runners_of_forms(module.plan) & {*several}
    assert len(several) > 1 and place != several[0]
    sizes = {
        place: [case.sizes for case in derive_cases(module.plan) if case.of == (kernels[place].case, 0)]
        for place in several
    }
    assert min(size["M"] for size in sizes[place] if size["M"]) == 1
    assert min(size["M"] for size in sizes[several[0]] if size["M"]) > 1


def test_each_kernel_has_its_sizes_and_addresses_that_it_is_not_for(module: Module) -> None:
    """Each has conditions of its own, whatever its form."""
    cases = [case.name for case in derive_cases(module.plan)]
    for kernel in (kernel for kernel in module.plan.kernels[:-1] if not is_for_few(kernel)):
        of = re.escape(kernel.case)
        asked = ("N alone does not fit( by \\d+)?", "X alone stands at \\d+", "Y alone stands at \\d+")
        for what in (*asked, *["N beyond"] * ("<= 65536" not in kernel.case)):  # what is longer is seen by the last one
            assert any(re.fullmatch(f"{what},? {of}", name) for name in cases), (what, kernel.case)


def test_kernels_of_other_statements_are_of_other_forms() -> None:
    """One thread a row has no reduction; many threads of a block load what broadcasts late; few rows are no form."""
    text = ROWS.replace("targets: [sm_90a]\n", "targets: [sm_90a]\nstatic: {N: 1024}\n")
    text = text.replace("compute:", "schedule: {tiler: {M: ROWS, N: 1024}, threads_per_row: THREADS}\ncompute:")

    def kernel(rows: int, threads: int) -> Plan:
        own = text.replace("ROWS", str(rows)).replace("THREADS", str(threads))
        (found,) = generate(own, "rows.yaml").modules
        return replace(found.plan, spec=replace(found.plan.spec, within={}), values=1)  # type: ignore[call-arg]

    warps = [kernel(1, 64), kernel(1, 128)]
    assert firsts_of_form(warps) == {0}
    assert firsts_of_form([*warps, kernel(8, 16)]) == {0, 2}
    few = replace(warps[1], spec=replace(warps[1].spec, within={"M": (0, 2)}))
    assert firsts_of_form([few, warps[0]]) == {0, 1}


OF_GEMMS = {"primes", "M = 0", "N = 0"}
OF_FIRST_GEMMS = {"tile integers", "all one less", "all 1", "special values", "K 1 tiles", "offset primes"}


@lru_cache(maxsize=1)
def gemms() -> Module:
    path = Path(__file__).parents[2] / "specs" / "gemm_bf16_cases.yaml"
    (module,) = generate(path.read_text(encoding="utf-8"), str(path)).modules
    return module


def test_gemms_of_a_form_share_functions_and_each_has_its_own_tiles_in_turn() -> None:
    module = gemms()
    kernels, cases = module.plan.kernels, list(derive_cases(module.plan))
    firsts, shared = firsts_of_form(kernels), forms_of(module.plan, Variables(module.plan.spec))  # type: ignore[arg-type]
    counts: set[tuple[object, bool]] = set()
    for place, kernel in enumerate(kernels):
        own = names(cases, kernel.case)
        assert own >= OF_GEMMS and own & {"tiles in turn", "stages of parts"}, kernel.case
        assert any(re.fullmatch(r"K \d\d tiles and 1", name) for name in own) == (place in firsts), kernel.case
        assert ("few tiles in turn" in own) == (place in firsts and "tiles in turn" in own), kernel.case
        assert own >= OF_FIRST_GEMMS | {"all one more"} if place in firsts else not own & OF_FIRST_GEMMS, kernel.case
        alike = next((group for group in shared[place].groups if place in group), ()) if place in shared else place
        of_form = alike, kernel.consumers > 1  # type: ignore[attr-defined]
        assert (of_form in counts) == (place not in firsts), kernel.case
        counts.add(of_form)
    assert 1 < len(firsts) < len(kernels)
    assert [case.of[0] for case in cases_for_orders(module.plan, cases)] == [kernels[i].case for i in sorted(firsts)]


WRONG = [
    # number of a case that is not the first of its form, constant, text, the cases that show it
    (10, "ROTATES", "False", {"tiles in turn"}),
    (5, "PIECES", "4", {"primes", "tiles in turn"}),
    (3, "PIECES", "2", {"primes"}),
    (3, "STAGE_BYTES", "20480", {"primes", "tiles in turn"}),
    (16, "CONSUMERS", "2", {"primes", "stages of parts"}),
    (10, "BOX_BYTES_B", "4096", {"primes", "tiles in turn"}),
    (16, "OWN_N", "48", {"primes", "stages of parts"}),
    (22, "ROTATES", "False", {"tiles in turn"}),
]


@pytest.mark.parametrize(
    ("number", "constant", "text", "shown"), sampled(WRONG), ids=[f"{n} {c}" for n, c, *_ in WRONG]
)
def test_a_constant_of_one_kernel_that_is_wrong_shows(
    number: int, constant: str, text: str, shown: set[str], tmp_path: Path
) -> None:
    pytest.importorskip("cutlass")
    module = gemms()
    rows = list(re.finditer(r"^    (Case\w*)\((.*)\),", module.text, re.MULTILINE))
    assert len(rows) == len(module.plan.kernels)
    made = rows[number - 1]
    fields = re.findall(
        r"^    (\w+): \w+\b", module.text.split(f"class {made[1]}:")[1].split("\n\n\n")[0], re.MULTILINE
    )
    values, type_ = made[2].split(", "), made[1]
    form = forms_of(module.plan, Variables(module.plan.spec))[number - 1]  # type: ignore[arg-type]
    formula, changed = form.in_functions[constant], module.text
    if constant in fields:
        values[fields.index(constant)] = text
    elif constant not in form.in_place:  # a property
        type_ = f'type("Wrong", ({made[1]},), {{"{constant}": {text}}})'
    if formula not in changed:  # which stands in a line of its own
        formula = formula.removeprefix("(").removesuffix(")")
    assert formula in changed
    changed = f"{changed[: made.start(1)]}{type_}({', '.join(values)}{changed[made.end(2) :]}"
    if constant in form.in_place:
        changed = changed.replace(formula, text)
    changed = changed.replace("kernels: tuple = ALL", f"kernels: tuple = ({number - 1},)")  # which takes less time
    path = tmp_path / "gemm_bf16_cases.py"
    path.write_text(changed, encoding="utf-8")
    loaded, executor, kernel = load_module(path), EmulatorExecutor(lines=False), module.plan.kernels[number - 1]
    own = [case for case in derive_cases(module.plan) if case.of == (kernel.case, 0) and not case.empty]
    failed = {case.name for case in own if verify_case(module.plan, case, loaded, executor).status == "failed"}
    assert {name.removesuffix(f", {kernel.case}") for name in failed} == shown
