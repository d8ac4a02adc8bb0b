"""The largest values of rows and their places: ties, NaN and infinities, and what later statements make of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_kit import changed, module_of, plan_of, problems_in
from lint_kit import found_in

from cutegen.differentiation.backward import backward
from cutegen.differentiation.reverse import DifferentiationError
from cutegen.emulator import install, on_device
from cutegen.expressions.selecting import MOST_KEPT
from cutegen.ops.op import op_of
from cutegen.reference.bounds import evaluate
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import load_module

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

INF, NAN = float("inf"), float("nan")
TOPK = """\
cutegen: 1
kernel: kept
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  V: {shape: [M, K], dtype: f32, role: out}
  P: {shape: [M, K], dtype: i32, role: out}
compute:
  - V = topk(X, N, K)
  - P = argtopk(X, N, K)
targets: [sm_90a]
"""
ROUTER = """\
cutegen: 1
kernel: router
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  weights: {shape: [M, K], dtype: f32, role: out}
  experts: {shape: [M, K], dtype: i32, role: out}
compute:
  - e = exp(X - max(X, N))
  - p = e / sum(e, N)
  - w = topk(p, N, K)
  - experts = argtopk(p, N, K)
  - weights = w / sum(w, K)
static: {N: 24, K: 4}
targets: [sm_90a]
"""
SPECIAL = [
    [1.0, 2.0, 3.0, 2.0, 3.0],
    [1.0, NAN, 3.0, NAN, INF],
    [2.0, 2.0, 2.0, 2.0, 2.0],
    [-INF, -INF, -INF, -INF, -INF],
    [INF, 1.0, INF, -2.0, -INF],
    [-1.0, -2.0, -INF, -4.0, -0.5],
    [0.0, -0.0, -1.0, -0.0, 0.0],
    [-1.0, -0.0, 0.0, -1.0, -2.0],
    [1e-45, -1e-45, 0.0, 1e-38, -1e-38],
    [-NAN, 1.0, -INF, NAN, 0.0],
]
WAYS = {
    "one thread": "schedule: {threads_per_row: 1, tiler: {M: 32}}\nstatic: {N: 5, K: 5}",
    "lanes": "schedule: {threads_per_row: 8, tiler: {M: 4}}\nstatic: {N: 29, K: 3}",
    "warps": "schedule: {threads_per_row: 64, tiler: {M: 2}}\nstatic: {N: 257, K: 2}",
    "reload": "schedule: {keep: reload, threads_per_row: 32, tiler: {N: 128}}\nstatic: {N: 300, K: 3}",
    "cluster": "schedule: {keep: registers, threads_per_row: 32, cluster: {N: 2}}\nstatic: {N: 200, K: 2}",
}


def _sorted(x: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    found = torch.sort(x, dim=-1, descending=True, stable=True)
    return found.values[..., :count], found.indices[..., :count]


def _kept(text: str, x: torch.Tensor, folder: Path, changes: dict[str, str] | None = None) -> list[torch.Tensor]:
    """The outputs V and P of a kernel that keeps values of rows."""
    module = module_of(text)
    path = folder / "kept.py"
    path.write_text(changed(module, changes or {}), encoding="utf-8")
    loaded, count = load_module(path), module.spec.static["K"]
    install(loaded, "kept", lines=False)
    dtypes = [getattr(torch, tensor.dtype.torch) for tensor in module.spec.outputs]
    outputs = [torch.empty(len(x), count, dtype=dtype) for dtype in dtypes]
    loaded.kept(on_device(x), v=on_device(outputs[0]), p=on_device(outputs[1]))
    return outputs


def _is_right(x: torch.Tensor, found: list[torch.Tensor]) -> bool:
    values, places = _sorted(x, found[0].shape[-1])
    return torch.equal(found[1].long(), places) and torch.equal(found[0].nan_to_num(77.0), values.nan_to_num(77.0))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_special_values_have_the_order_of_a_stable_sort(count: int, tmp_path: Path) -> None:
    x = torch.tensor(SPECIAL)
    found = _kept(f"{TOPK}static: {{N: 5, K: {count}}}\n", x, tmp_path)
    assert _is_right(x, found), found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(0x7FFFFFFF - places)", "places"),
        ("cute.full_like(bits, 0x7FFFFFFF)", "cute.full_like(bits, -0x7FFFFFFF)"),
        ("(values + 0.0)", "values"),
        ("bits = bits ^ (bits.apply_op", "bits = bits | (bits.apply_op"),
        ("cute.where(keys < key_1,", "cute.where(keys < key_0,"),
        ("mP[row_M, 2]", "mP[row_M, 1]"),
        ("return 0x7FFFFFFF - cutlass.Int32(key & 0x7FFFFFFF)", "return 0x7FFFFFFF - cutlass.Int32(key & 0x7FFFFFF3)"),
    ],
    ids=["the last of equals", "NaN is lost", "-0 is below 0", "negative backwards", "a round less", "over", "places"],
)
def test_a_wrong_selection_is_seen(old: str, new: str, tmp_path: Path) -> None:
    x, text = torch.tensor(SPECIAL), f"{TOPK}static: {{N: 5, K: 3}}\n"
    assert not _is_right(x, _kept(text, x, tmp_path, {old: new}))
    if old != "(values + 0.0)":  # of both zeros no case of verification has a row
        cases = [case for case in derive_cases(module_of(text).plan) if case.name in ("rows", "special values", "tile")]
        assert next(problems_in(text, cases, tmp_path, {old: new}), None) is not None


@pytest.mark.parametrize("way", WAYS)
def test_selections_are_right_however_a_row_is_shared(way: str, tmp_path: Path) -> None:
    text = f"{TOPK}{WAYS[way]}\n"
    cases = [case for case in derive_cases(module_of(text).plan) if case.name in ("rows", "special values")]
    assert len(cases) == 2 and list(problems_in(text, cases, tmp_path)) == []


@pytest.mark.parametrize("dtype", ["i32", "i8", "f16", "bf16", "bool"])
def test_values_of_other_types(dtype: str, tmp_path: Path) -> None:
    kept = "i32" if dtype == "bool" else dtype
    text = TOPK.replace("X: {shape: [M, N], dtype: f32}", f"X: {{shape: [M, N], dtype: {dtype}}}")
    text = text.replace("V: {shape: [M, K], dtype: f32,", f"V: {{shape: [M, K], dtype: {kept},")
    text = f"{text}static: {{N: 20, K: 3}}\n"
    cases = [case for case in derive_cases(module_of(text).plan) if case.name in ("rows", "special values")]
    assert "rows" in [case.name for case in cases] and list(problems_in(text, cases, tmp_path)) == []


def test_a_router_is_one_kernel(tmp_path: Path) -> None:
    cases = [case for case in derive_cases(module_of(ROUTER).plan) if case.name in ("rows", "special values", "primes")]
    assert len(cases) == 3 and list(problems_in(ROUTER, cases, tmp_path)) == []
    for change in ({"w_3 = key_value_f32(key_3)": "w_3 = w_2"}, {"kept_sum = w_0 + w_1": "kept_sum = w_1"}):
        assert next(problems_in(ROUTER, cases, tmp_path, change), None) is not None


def test_weights_are_those_at_the_places_of_other_values(tmp_path: Path) -> None:
    """Selection by score and bias, weights by score."""
    text = ROUTER.replace("  weights:", "  bias: {shape: [N], dtype: f32}\n  weights:")
    start, end = text.index("  - e ="), text.index("static")
    compute = (
        "  - s = sigmoid(X)\n  - experts = argtopk(s + bias, N, K)\n"
        "  - w = sum(where(coord(N) == experts, s, 0), N)\n  - weights = w / sum(w, K)\n"
    )
    text = text[:start] + compute + text[end:]
    cases = [case for case in derive_cases(module_of(text).plan) if case.name in ("rows", "special values", "primes")]
    assert len(cases) == 3 and list(problems_in(text, cases, tmp_path)) == []


def test_what_is_kept_has_statements_of_its_own(tmp_path: Path) -> None:
    text = """\
cutegen: 1
kernel: several
op: rowwise
tensors:
  X: {shape: [B, M, N], dtype: f32}
  a: {shape: [B, M], dtype: f32, role: out}
  b: {shape: [B, M], dtype: bool, role: out}
  c: {shape: [B, M, K], dtype: i64, role: out}
  d: {shape: [B, M, J], dtype: f32, role: out}
  Y: {shape: [B, M, N], dtype: f32, role: out}
compute:
  - t = topk(X, N, K)
  - a = mean(t, K) + prod(t, K) + max(t, K) - min(t, K)
  - b = any(t > 1, K) and not all(t > 2, K)
  - c = coord(K) + argtopk(X, N, K) * 2
  - low = min(t, K)
  - d = topk(where(X < low, X, -inf), N, J)
  - Y = where(X >= low, X, -inf)
static: {N: 21, K: 3, J: 2}
targets: [sm_80]
"""
    cases = [case for case in derive_cases(module_of(text).plan) if case.name in ("rows", "special values")]
    assert len(cases) == 2 and list(problems_in(text, cases, tmp_path)) == []


def test_only_places_that_are_sure_are_judged() -> None:
    """Of values with an error those near each other may have either order; of exact ones the order is known."""
    spec = module_of(f"{TOPK.replace('(X, N, K)', '(exp(X), N, K)')}static: {{N: 5, K: 3}}\n").spec
    x = torch.tensor([[5.0, 1.0, 3.0, 2.0, 4.0], [5.0, 3.0, 5.0, 2.0, 1.0]])
    found = evaluate(spec, {"X": x}, {})["P"]
    assert found.value.tolist() == [[0, 4, 2], [0, 2, 1]]
    assert found.bound.isinf().tolist() == [[False] * 3, [True, True, False]]
    exact = module_of(f"{TOPK}static: {{N: 5, K: 3}}\n").spec
    assert not evaluate(exact, {"X": x}, {})["P"].bound.any()


def test_one_key_serves_values_and_places() -> None:
    plan = plan_of(ROUTER)
    keys = [one for one in plan.program.reductions if one.function == "max" and one.dtype.value == "i64"]
    assert len(keys) == 4, "as many rounds as values are kept"


STATIC = "static: {N: 40, K: 3}\n"


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        (", K: 3}", "}", "CG127", "`topk` needs to know how many values it keeps, and the size of `K` is not fixed"),
        ("N: 40, ", "", "CG127",
         "`topk` needs to know the length of a row that it selects from, and the size of `N` is not fixed"),
        ("K: 3}", f"K: {MOST_KEPT + 1}}}", "CG127", f"`topk` keeps {MOST_KEPT + 1} values of a row, and at most "
         f"{MOST_KEPT} are possible"),
        ("N: 40", "N: 2", "CG127", "`topk` keeps 3 of 2 values: `K` is larger than `N`"),
        ("topk(X, N, K)", "topk(X, N, 8)", "CG120",
         "`topk` takes a value, the mode that it goes along, and a mode for what it selects"),
        ("V = topk(X, N, K)", "V = topk(X, N, N)", "CG127",
         "the K values that `topk` keeps need a mode of their own, other than `N`"),
        ("V = topk(X, N, K)", "V = topk(X, N, K) / var(topk(X, N, K), K)", "CG127",
         "`var` goes along `K`, of what is kept of a row"),
        ("V = topk(X, N, K)", "V = topk(X, N, K) - sum(X * argtopk(X, N, K), N, K)", "CG127",
         "sum goes along N and K at once, and `K` is what a row keeps"),
        ("V = topk(X, N, K)", "V = topk(cast(X, f64), N, K)", "CG128", "`topk` orders values of 32 bits, not f64"),
        ("V: {shape: [M, K]", "V: {shape: [M]", "CG129", "`V` is [M], and the value assigned to it varies along K"),
        ("V: {shape: [M, K]", "V: {shape: [K, M]", "CG129",
         "the modes of `V` are in another order than those of `X`"),
        ("V: {shape: [M, K]", "V: {shape: [M, N, K]", "CG129",
         "`V` has the mode `N` of a row, and the mode `K` of the values kept of one"),
        ("f32, role: out", "f32, role: inout", "CG129",
         "`V` is read, and `K` is the mode of the values that `compute` keeps of a row"),
    ],
)  # fmt: skip
def test_what_is_no_selection_is_told(old: str, new: str, code: str, message: str) -> None:
    text = f"{TOPK}{STATIC}"
    assert old in text
    first = next(d for d in found_in(text.replace(old, new, 1)) if d.severity == "error")
    assert (first.code, first.message) == (code, message) and first.help


def test_a_gradient_of_a_selection_is_refused_by_name() -> None:
    with pytest.raises(DifferentiationError, match="`topk` has no gradient here"):
        backward(module_of(ROUTER).spec)


def test_eager_code_has_torchs_own_topk() -> None:
    """A stable sort, which says the order of equal values, is no fair peer."""
    plan = module_of(ROUTER).plan
    op = op_of(plan.spec)
    eager, reference = (" ".join(make(plan).statements) for make in (op.eager, op.reference))
    assert eager.count("torch.topk(") == 1 and "torch.sort(" not in eager
    assert reference.count("torch.sort(") == 1 and "torch.topk(" not in reference
