"""Rows that go along several modes: however a row is shared, and of tensors that have only some of these modes."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from lint_kit import found_in

from cutegen.codegen import Module, generate
from cutegen.codegen.cplusplus import header_text
from cutegen.emulator import install, on_device
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.report import CaseReport
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

GROUP_NORM = """\
cutegen: 1
kernel: group_norm
op: rowwise
tensors:
  X: {shape: [B, G, C, HW], dtype: DTYPE}
  W: {shape: [G, C], dtype: DTYPE}
  shift: {shape: [B, 1, C, 1], dtype: f32}
  mask: {shape: [HW], dtype: bool}
  Y: {shape: [B, G, C, HW], dtype: DTYPE, role: out}
  mu: {shape: [B, G], dtype: f32, role: out}
scalars: {eps: f32}
compute:
  - mu = mean(X, C, HW)
  - x = X - mu
  - rstd = rsqrt(mean(x * x, C, HW) + eps)
  - Y = where(mask, x * rstd * W, 0) + shift + 0.25 * coord(C) - 0.125 * coord(HW)
schedule: {SCHEDULE}
"""
WAYS = {
    "lanes": ("f32", "threads_per_row: 8, tiler: {G: 4}", "static: {C: 3, HW: 7}\ntargets: [sm_80]"),
    "warps": ("f16", "threads_per_row: 64, tiler: {G: 2}", "static: {C: 9, HW: 13}\ntargets: [sm_80]"),
    "whole accesses": ("bf16", "threads_per_row: 32", "static: {C: 5, HW: 16}\ntargets: [sm_80]"),
    "reload": ("bf16", "keep: reload, threads_per_row: 32, tiler: {G: 2, C*HW: 256}", "targets: [sm_80]"),
    "reload, HW fixed": (
        "f32",
        "keep: reload, threads_per_row: 8, tiler: {G: 2, C*HW: 32}",
        "static: {HW: 9}\ntargets: [sm_80]",
    ),
    "smem, next": (
        "f16",
        "keep: smem, threads_per_row: 32, tiler: {C*HW: 256}, pipeline: {stages: 2}, "
        "scheduler: {kind: persistent, blocks: 2}",
        "static: {C: 6, HW: 64}\ntargets: [sm_90a]",
    ),
    "cluster": (
        "f32",
        "threads_per_row: 32, tiler: {G: 2}, cluster: {C*HW: 2}",
        "static: {C: 5, HW: 44}\ntargets: [sm_90a]",
    ),
    "next": (
        "bf16",
        "keep: registers, threads_per_row: 32, tiler: {G: 2}, scheduler: {kind: persistent, blocks: 3}",
        "static: {C: 4, HW: 25}\ntargets: [sm_80]",
    ),
    "few": ("f32", "shorter: fewer_threads, threads_per_row: 64, tiler: {C*HW: 128}", "targets: [sm_80]"),
}
CASES = (
    *("tile", "all one more", "all 1", "primes", "rows", "rows of two pieces", "few of a row's modes"),
    *("many of a row's modes", "special values", "several rows a block", "G = 0", "C = 0", "HW = 0", "padded residue"),
)


def _module(text: str, folder: Path, change: tuple[str, str] = ("", "")) -> tuple[Module, ModuleType]:
    (module,) = generate(text, "x.yaml").modules
    path = folder / f"{module.spec.kernel}.py"
    assert change[0] in module.text
    path.write_text(module.text.replace(*change), encoding="utf-8")
    return module, load_module(path)


def _reports(text: str, folder: Path, change: tuple[str, str] = ("", "")) -> list[CaseReport]:
    module, loaded = _module(text, folder, change)
    executor = EmulatorExecutor(lines=False)
    cases = [c for c in derive_cases(module.plan) if c.name in CASES or c.name.removesuffix(", narrow") in CASES]
    return [verify_case(module.plan, case, loaded, executor) for case in cases]


def _text(way: str) -> str:
    dtype, schedule, rest = WAYS[way]
    return GROUP_NORM.replace("DTYPE", dtype).replace("SCHEDULE", schedule) + rest + "\n"


@pytest.mark.parametrize("way", WAYS)
def test_a_row_of_two_modes_is_right_however_it_is_shared(way: str, tmp_path: Path) -> None:
    found = _reports(_text(way), tmp_path)
    assert {"rows", "special values"} <= {one.name for one in found}
    assert [(one.name, one.message) for one in found if one.status != "passed"] == []
    ordinary = [one for one in found if one.name != "special values"]
    assert all(one.unbounded < one.elements / 2 for one in ordinary if one.elements), "most elements are judged"


MISTAKES = [
    ("another channel", "lanes", ("mW[row_G, place // 7]", "mW[row_G, place // 8 % 3]")),
    ("another group", "warps", ("mW[row_G, place", "mW[0, place")),
    ("another place in the mode", "lanes", ("mmask[place % 7]", "mmask[cutlass.min(place, 6)]")),
    ("one element of several", "next", ("tXrW[value_idx] = mW[", "tXrW[vector * width] = mW[")),
    ("past the weights", "lanes", ("        if tXpX[vector]:\n", "        if True:\n")),
    ("coordinates", "next", ("coord_C_values[value_idx] = place // 25", "coord_C_values[value_idx] = place // 24")),
]


@pytest.mark.parametrize(("what", "way", "change"), MISTAKES, ids=[what for what, *_ in MISTAKES])
def test_elements_of_other_places_are_found(what: str, way: str, change: tuple[str, str], tmp_path: Path) -> None:
    assert any(one.status != "passed" for one in _reports(_text(way), tmp_path, change)), what


NORM = """\
cutegen: 1
kernel: norm
op: rowwise
tensors:
  X: {shape: [MODES], dtype: f32}
  W: {shape: [WEIGHTS], dtype: f32}
  V: {shape: [WEIGHTS], dtype: f32}
  Y: {shape: [MODES], dtype: f32, role: out}
  q: {shape: [ROWS], dtype: f32, role: out}
scalars: {eps: f32}
compute:
  - x = X - mean(X, ALONG)
  - q = sum(x * x, ALONG)
  - Y = x * rsqrt(mean(x * x, ALONG) + eps) * W + V
targets: [sm_80]
"""


def _norm(modes: str, rows: str, along: str, weights: str, sizes: str, folder: Path) -> ModuleType:
    words = {"MODES": modes, "ROWS": rows, "ALONG": along, "WEIGHTS": weights}
    text = NORM + f"static: {sizes}\n"
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    loaded = _module(text, folder)[1]
    install(loaded, "norm", lines=False)
    return loaded


def _normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _is_near(found: torch.Tensor, wanted: torch.Tensor) -> None:
    assert torch.allclose(found.double(), wanted, rtol=1e-5, atol=1e-5)


def test_a_group_norm_is_torchs(tmp_path: Path) -> None:
    norm = _norm("B, G, C, HW", "B, G", "C, HW", "G, C", "{C: 3, HW: 35}", tmp_path).norm
    x, w, v = _normal(2, 15, 5, 7), _normal(15), _normal(15)
    y, q = norm(on_device(x.view(2, 5, 3, 35)), on_device(w.view(5, 3)), on_device(v.view(5, 3)), 1e-3)
    _is_near(y.view(x.shape), torch.nn.functional.group_norm(x.double(), 5, w.double(), v.double(), 1e-3))
    _is_near(q, x.double().view(2, 5, -1).var(-1, unbiased=False) * 105)


def test_an_instance_norm_is_torchs(tmp_path: Path) -> None:
    norm = _norm("B, C, H, W_", "B, C", "H, W_", "C", "{H: 5, W_: 9}", tmp_path).norm
    x, w, v = _normal(3, 4, 5, 9), _normal(4), _normal(4)
    y, _ = norm(on_device(x), on_device(w), on_device(v), 1e-3)
    _is_near(y, torch.nn.functional.instance_norm(x.double(), None, None, w.double(), v.double(), True, 0.1, 1e-3))


@pytest.mark.parametrize("weights", ["C, H, W_", "H, W_", "H", "C, 1, W_"])
def test_a_layer_norm_over_three_modes_is_torchs(weights: str, tmp_path: Path) -> None:
    norm = _norm("B, C, H, W_", "B", "C, H, W_", weights, "{C: 3, H: 5, W_: 7}", tmp_path).norm
    sizes = {"C": 3, "H": 5, "W_": 7, "1": 1}
    names = weights.split(", ")
    x = _normal(2, 3, 5, 7)
    w, v = (_normal(*(sizes[name] for name in names)) + i for i in range(2))
    y, _ = norm(on_device(x), on_device(w), on_device(v), 1e-3)
    full = [
        one.double().view([sizes[m] if m in names else 1 for m in ("C", "H", "W_")]).expand(3, 5, 7) for one in (w, v)
    ]
    _is_near(y, torch.nn.functional.layer_norm(x.double(), (3, 5, 7), *full, 1e-3))


def test_a_tensor_with_gaps_in_its_rows_is_refused(tmp_path: Path) -> None:
    norm = _norm("B, G, C, HW", "B, G", "C, HW", "G, C", "{C: 3, HW: 8}", tmp_path).norm
    w, v = on_device(_normal(2, 3)), on_device(_normal(2, 3))
    gaps, rows = (on_device(torch.randn(2, 2, *shape)) for shape in ((3, 9), (4, 8)))
    with pytest.raises(
        ValueError, match="x: expected C and HW without gaps, as a row, got a stride of 36 bytes along C"
    ):
        norm(gaps[..., :8], w, v, 1e-3)
    y, _ = norm(rows[:, :, :3], w, v, 1e-3)  # between rows there may be any
    assert torch.isfinite(y).all()


def test_every_case_of_a_schedule_has_rows_without_gaps(tmp_path: Path) -> None:
    """Of a fixed size that Hopper keeps in shared memory and others hold in registers: a case for each."""
    text = NORM.replace("MODES", "B, C, HW").replace("ROWS", "B").replace("ALONG", "C, HW").replace("WEIGHTS", "C")
    text = text.replace("targets: [sm_80]", "targets: [sm_80, sm_90a]") + "static: {C: 64, HW: 256}\n"
    (module,) = generate(text, "x.yaml").modules
    assert len(module.plan.kernels) == 2
    assert {t.name: t.dense for t in module.spec.tensors if t.dense} == {"X": ("C", "HW"), "Y": ("C", "HW")}
    assert '"x": ("C", "HW"),' in module.text


def test_what_blocks_have_of_a_column_is_as_long_as_a_row() -> None:
    """Where sizes are open, too: workspaces, and what `explain` says of them."""
    text = """\
cutegen: 1
kernel: columns
op: rowwise
tensors:
  X: {shape: [B, C, HW], dtype: f32}
  Y: {shape: [B, C, HW], dtype: f32, role: out}
  s: {shape: [C, HW], dtype: f32, role: out}
compute:
  - Y = X - mean(X, C, HW)
  - s = sum(X, B)
targets: [sm_80]
"""
    (module,) = generate(text, "x.yaml").modules
    (scratch,) = module.spec.family.scratch(module.plan)
    unit, rows = module.plan.column_unit, module.plan.column_rows
    assert scratch.bytes({"B": 3, "C": 5, "HW": 1000}) == -(-5000 // unit) * unit * 4 * rows
    assert "x.shape[1] * x.shape[2]" in module.text
    assert "int64_t c, int64_t hw" in header_text(module, "x.yaml").lower()


WIDE = """\
cutegen: 1
kernel: wide
op: rowwise
tensors:
  X: {shape: [B, C, HW], dtype: f16, align: 16}
  W: {shape: [B, C], dtype: f16}
  Y: {shape: [B, C, HW], dtype: f16, role: out, align: 16}
compute: Y = X * rsqrt(mean(X * X, C, HW)) * W
schedule: {copy: {bits: 128, fallback: refuse}, threads_per_row: 32}
targets: [sm_80]
"""


def test_what_accesses_need_of_a_row_is_asked_of_its_last_open_mode() -> None:
    (module,) = generate(WIDE, "x.yaml").modules
    assert module.spec.divisible == {"HW": 8} and "8 elements" in module.inferred["divisible", "HW"]
    assert module.spec.tensor("W").align == 2, "its rows are read element by element"
    (module,) = generate(f"{WIDE}static: {{HW: 12}}\n", "x.yaml").modules
    assert module.spec.divisible == {"C": 2}
    (module,) = generate(f"{WIDE}static: {{HW: 16}}\n", "x.yaml").modules
    assert not module.spec.divisible
    (error,) = [d for d in found_in(f"{WIDE}divisible: {{HW: 4}}\n") if d.severity == "error"]
    assert error.code == "CG224" and error.message == "HW is a multiple of 4, and the schedule needs one of 8"


def test_a_tensor_with_as_many_modes_as_rows_have_is_none_of_the_rows() -> None:
    text = WIDE.replace("W: {shape: [B, C], dtype: f16}", "W: {shape: [B, C], dtype: f64}").replace(
        "[sm_80]", "[sm_90a]"
    )
    schedule = "{keep: smem, threads_per_row: 32, copy: {bits: 128}}"
    text = text.replace("{copy: {bits: 128, fallback: refuse}, threads_per_row: 32}", schedule)
    (module,) = generate(f"{text}static: {{C: 6, HW: 64}}\n", "x.yaml").modules
    assert module.plan.kept == ("X",) and module.plan.vector == 8


def test_no_rows_make_no_divisor() -> None:
    """A divisor of 0 tiles would end the process of the host."""
    text = (Path(__file__).parents[3] / "generated" / "softmax.py").read_text(encoding="utf-8")
    assert "    if grid > 0:\n        # Common to all launches\n        same = (" in text


REDUCED = """\
cutegen: 1
kernel: reduced
op: rowwise
tensors:
  U: {shape: [M, W, N], dtype: f32}
  D: {shape: [M, W, N], dtype: f32, role: out}
  Z: {shape: [M], dtype: f32, role: out}
compute:
LARGEST
  - middle = mean(U, W, N)
  - D = middle / more
  - Z = more
static: {W: 3, N: 8}
targets: [sm_90a]
"""


LARGEST = "max(where(U > coord(N), U + U, U), W, N)"


@pytest.mark.parametrize("more", [f"  - largest = {LARGEST}\n  - more = largest + 1", f"  - more = {LARGEST} + 1"])
def test_what_is_reduced_along_all_modes_of_a_row_varies_along_none(more: str, tmp_path: Path) -> None:
    """Also where an element's place along one of the modes tells what is reduced: it is computed once for a row."""
    (module,) = generate(REDUCED.replace("LARGEST", more), "x.yaml").modules
    (tmp_path / module.name).write_text(module.text, encoding="utf-8")
    loaded, executor = load_module(tmp_path / module.name), EmulatorExecutor(lines=False)
    for case in derive_cases(module.plan)[:4]:
        report = verify_case(module.plan, case, loaded, executor)
        assert report.status == "passed", report.message


COUNTED = """\
cutegen: 1
kernel: counted
op: rowwise
tensors:
  mask: {shape: [M, C, HW], dtype: bool}
  X: {shape: [M, C, HW], dtype: f32}
  Y: {shape: [M, C, HW], dtype: f32, role: out}
compute: ["count = TEXT", "Y = X * count"]
static: {C: 3, HW: 7}
targets: [sm_80]
"""


@pytest.mark.parametrize("text", ["sum(mask, C, HW)", "sum(sum(mask, HW), C)", "sum(mask * 3, C, HW)"])
def test_truths_are_counted_along_several_modes_in_one_type(text: str, tmp_path: Path) -> None:
    """Their number along one mode fits in 32 bits, and that along both need not: it is one reduction, in 64 bits."""
    found = _reports(COUNTED.replace("TEXT", text), tmp_path)
    assert found and [(one.name, one.message) for one in found if one.status != "passed"] == []
