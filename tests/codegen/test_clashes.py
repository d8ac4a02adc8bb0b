"""Names of scalars, kernels and tensors that a module has for something else: they are refused, or kept apart."""

from __future__ import annotations

import re
import symtable
from collections.abc import Iterator

import pytest
from sweep_kit import sampled

from cutegen.codegen import generate
from cutegen.language.diagnostics import Diagnostic, SpecError

ROWS = """\
cutegen: 1
kernel: KERNEL
op: rowwise
tensors:
  TENSOR: {shape: [M, N], dtype: bf16}
  dY: {shape: [M, N], dtype: bf16}
  dX: {shape: [M, N], dtype: bf16, role: out}
  dW: {shape: [N], dtype: f32, role: out}
scalars: {SCALAR: f32}
compute:
  - dX = dY - TENSOR * sum(dY * TENSOR, N) * SCALAR
  - dW = sum(dY * TENSOR, M)
targets: [sm_80, sm_90a]
"""
GEMM = """\
cutegen: 1
kernel: KERNEL
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  TENSOR: {shape: [M, N], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
scalars: {SCALAR: f32}
compute: C = A @ B.T * SCALAR + TENSOR
targets: [TARGET]
"""
SPECS = {
    "rows": ROWS.replace("[sm_80, sm_90a]", "[sm_80]"),
    "tensor cores": GEMM.replace("TARGET", "sm_80") + "schedule: {mma: {atom: mma_sync}}\n",
    "warpgroups": GEMM.replace("TARGET", "sm_90a") + "schedule: {mma: {atom: wgmma}, cluster: {K: 2}}\n",
    "rows of clusters": ROWS,
}


def named(kind: str, *, kernel: str = "product", tensor: str = "R", scalar: str = "alpha") -> str:
    return SPECS[kind].replace("KERNEL", kernel).replace("TENSOR", tensor).replace("SCALAR", scalar)


def errors(text: str) -> list[Diagnostic]:
    try:
        generate(text, "x.yaml")
    except SpecError as error:
        return [d for d in error.diagnostics if d.severity == "error"]
    return []


@pytest.mark.parametrize(
    ("kind", "code", "names"),
    [
        ("rows of clusters", "CG113", {"scalar": "i"}),
        ("rows", "CG113", {"scalar": "blocks"}),
        ("rows", "CG113", {"scalar": "column"}),
        ("rows", "CG113", {"scalar": "RESIDENT"}),
        ("rows", "CG113", {"scalar": "own_dW"}),
        ("tensor cores", "CG113", {"scalar": "tCrA_view"}),
        ("tensor cores", "CG111", {"kernel": "K_BLOCKS"}),
        ("warpgroups", "CG111", {"kernel": "STAGE_BYTES"}),
        ("warpgroups", "CG113", {"tensor": "ute"}),
        ("warpgroups", "CG113", {"tensor": "tage"}),
        ("tensor cores", "CG113", {"tensor": "lices"}),
        ("rows", "CG113", {"tensor": "oord"}),
        ("rows", "CG113", {"tensor": "ax"}),
    ],
)
def test_a_name_of_the_module_is_refused_with_one_that_works(kind: str, code: str, names: dict[str, str]) -> None:
    (said,) = errors(named(kind, **names))
    (place,) = names
    assert said.code == code and f"the {place} cannot be named `{names[place]}`" in said.message
    offered = re.search(r"write `(\w+)`", said.help or "")
    assert offered and not errors(named(kind, **{place: offered[1]}))


def scopes(text: str) -> Iterator[set[str]]:
    """The names that functions of a module know, and the module itself."""
    tables = [symtable.symtable(text, "module", "exec")]
    while tables:
        table = tables.pop()
        yield set(table.get_identifiers())
        tables += table.get_children()


@pytest.mark.parametrize(("kind", "first"), sampled([(kind, first) for kind in SPECS for first in (0, 5)], 8))
def test_a_scalar_takes_no_place_that_the_module_has(kind: str, first: int) -> None:
    """Named as anything beside it, a scalar is refused, or that has another name: never are both called the same."""
    base = generate(named(kind, scalar="zq9"), "x.yaml").modules[0].text
    beside = set().union(*(names for names in scopes(base) if "zq9" in names))
    others = sorted(name for name in beside - {"zq9"} if not name.startswith("_"))
    assert len(others) > 50
    for name in others[first::10]:
        try:
            (made,) = generate(named(kind, scalar=name), "x.yaml").modules
        except SpecError:
            continue
        assert _bare(made.text) != _bare(re.sub(r"\bzq9\b", name, base)), name


def _bare(text: str) -> str:
    return re.sub(r"[\s,()]+", "", re.sub(r"# \w+ sha256.*", "", text))


@pytest.mark.parametrize("name", ["walked", "sums_dW", "tRrdW_all"])
def test_a_value_is_kept_apart_from_what_a_row_kernel_has(name: str) -> None:
    def text(value: str) -> str:
        found = named("rows").replace("compute:\n", f"compute:\n  - {value} = sum(dY * R, N)\n")
        found = found.replace("sum(dY * R, M)", f"sum(dY * {value}, M)")
        return generate(found, "x.yaml").modules[0].text

    base = text("zq9")
    assert name in set().union(*(names for names in scopes(base) if "zq9" in names))
    assert _bare(text(name)) != _bare(re.sub(r"\bzq9\b", name, base))


def test_a_tensor_is_refused_that_makes_a_name_of_another() -> None:
    """`sA_boxes` are the boxes of A, and what is brought of a tensor `A_boxes`: also where no atom is named."""
    text = GEMM.replace("TARGET", "sm_90a").replace("KERNEL", "product").replace("SCALAR", "alpha")
    with pytest.raises(SpecError) as raised:
        generate(text.replace("TENSOR", "A_boxes"), "x.yaml")
    for said in (errors(named("warpgroups", tensor="A_boxes")), raised.value.diagnostics):
        assert said and {d.code for d in said} == {"CG113"}
