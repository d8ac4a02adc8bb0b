"""Code for several targets: it must give the same bits only where PTX says every bit, and is judged for each."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from emulator_kit import go, kernel, tensors
from sweep_kit import sampled
from telling_kit import telling_cases

torch = pytest.importorskip("torch")
pytest.importorskip("cutlass")

from calls_kit import arguments_of  # noqa: E402

from cutegen.atoms.targets import TARGETS  # noqa: E402
from cutegen.codegen import Module, generate  # noqa: E402
from cutegen.emulator import Emulated, on_device, run  # noqa: E402
from cutegen.emulator.host.builds import build, builds  # noqa: E402
from cutegen.verification.cases import Case  # noqa: E402
from cutegen.verification.executor import EmulatorExecutor, load_module  # noqa: E402
from cutegen.verification.runner import verify_case  # noqa: E402

# For sm_80 a fused multiply-add; for sm_100a a packed product and a packed sum, which the assembler fuses.
MULTIPLY_ADD = """\
cutegen: 1
kernel: multiply_add
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Z: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * Z + X
targets: [sm_80, sm_100a]
"""
# For sm_100a halves of f32x2 that nobody has written, and nobody reads.
GATED = f"""\
cutegen: 1
kernel: gated
op: elementwise
tensors:
  X: {{shape: [M, N], dtype: f16}}
  Z: {{shape: [M, N], dtype: f16}}
  Y: {{shape: [M, N], dtype: f16, role: out}}
compute: Y = gelu(X) * Z
targets: [{", ".join(TARGETS)}]
"""
GEMM = f"""\
cutegen: 1
kernel: gemm
op: gemm
tensors:
  A: {{shape: [M, K], dtype: bf16, major: K, align: 16}}
  B: {{shape: [N, K], dtype: bf16, major: K, align: 16}}
  C: {{shape: [M, N], dtype: f32, major: N, align: 16, role: inout}}
scalars: {{alpha: f32, beta: f32}}
compute: C = alpha * (A @ B.T) + beta * C
schedule: {{tiler: {{M: 32, N: 32, K: 8}}}}
targets: [{", ".join(TARGETS)}]
"""


def generated(text: str, folder: Path) -> tuple[Module, Path]:
    (module,) = generate(text, "specs/here.yaml").modules
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(module.text, encoding="utf-8")
    return module, path


PAIR = "cvt.rn.f32.u32 %r5, %r0;\ncvt.rn.f64.u32 %rd5, %r0;\nmov.b64 %rd6, {%r5, %r5};\n"


@pytest.mark.parametrize(
    ("body", "contractible"),
    [
        ("mul.f32 %r6, %r5, %r5;\nadd.f32 %r6, %r6, %r5;", ("mul.f32", "add.f32")),
        ("mul.f32 %r6, %r5, %r5;\nsub.ftz.f32 %r6, %r6, %r5;", ("mul.f32", "sub.ftz.f32")),
        ("mul.f32x2 %rd6, %rd6, %rd6;\nadd.f32 %r6, %r5, %r5;", ("mul.f32x2", "add.f32")),
        ("mul.f64 %rd5, %rd5, %rd5;\nadd.f64 %rd5, %rd5, %rd5;", ("mul.f64", "add.f64")),
        ("mul.f16x2 %r6, %r5, %r5;\nadd.f16x2 %r6, %r6, %r5;", ("mul.f16x2", "add.f16x2")),
        ("mul.rn.f32 %r6, %r5, %r5;\nadd.f32 %r6, %r6, %r5;", ()),
        ("mul.f32 %r6, %r5, %r5;\nadd.rn.f32 %r6, %r6, %r5;", ()),
        ("mul.f32 %r6, %r5, %r5;\nadd.f64 %rd5, %rd5, %rd5;", ()),
        ("add.f32 %r6, %r5, %r5;\nsub.f32 %r6, %r6, %r5;", ()),
        ("mul.f32 %r6, %r5, %r5;\nfma.rn.f32 %r6, %r6, %r5, %r5;", ()),
        ("mul.lo.u32 %r6, %r5, %r5;\nadd.u32 %r6, %r6, %r5;", ()),
    ],
)
def test_what_may_be_contracted_is_reported(body: str, contractible: tuple[str, ...]) -> None:
    report = go(kernel(PAIR + body, 1), tensors((np.zeros(4, np.uint32), "inout")))
    assert report.ok and report.contractible == contractible and report.approximate == ()
    assert report.exact == (not contractible)


def test_an_approximate_result_is_not_exact() -> None:
    report = go(kernel(PAIR + "ex2.approx.f32 %r6, %r5;", 1), tensors((np.zeros(4, np.uint32), "inout")))
    assert report.approximate == ("ex2.approx.f32",) and report.contractible == () and not report.exact


def test_contracted_and_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two differ, neither is a fault, and both can be had."""
    module = load_module(generated(MULTIPLY_ADD, tmp_path)[1])
    x, z, y = arguments_of(module, M=40, N=52)
    made = builds(module, lines=False)
    emulated = Emulated(made, ["x", "z", "y"], {"x": "in", "z": "in", "y": "out"})
    emulated(*map(on_device, (x, z, y)))
    assert [(o.target, o.exact) for o in emulated.outcomes] == [("sm_80", True), ("sm_100a", False)]
    assert [report.exact for report in emulated.reports] == [True, False]
    assert torch.equal(y, x * z + x)  # the last one's, as it is written
    emulated.outcomes[0].restore()
    fused = (x.double() * z + x).float()
    assert torch.equal(y, fused) and not torch.equal(fused, x * z + x)
    monkeypatch.setattr(  # so that they are not compiled again
        "cutegen.emulator.host.modules.builds",
        lambda _, targets: [one for one in made if targets is None or one.target in targets],
    )
    assert len(run(module, x, z, outputs={"y": y}, kernel="multiply_add")) == 2
    run(module, x, z, outputs={"y": y}, kernel="multiply_add", target="sm_80")
    assert torch.equal(y, fused)


@pytest.mark.parametrize("targets", ["sm_89, sm_90a", "sm_90a, sm_89"])
def test_products_that_ada_sums_otherwise_are_code_of_its_own(targets: str, tmp_path: Path) -> None:
    """The PTX is the same: what differs is what it says for sm_89."""
    text = GEMM[: GEMM.index("scalars:")].replace("bf16", "f8e4m3").replace("inout", "out")
    text += "compute: C = A @ B.T\nschedule: {mma: {atom: mma_sync}, tiler: {M: 32, N: 32}}\n"
    made = builds(load_module(generated(f"{text}targets: [{targets}]\n", tmp_path)[1]), lines=False)
    assert [one.target for one in made] == targets.split(", ")
    assert len({re.sub(r"(?m)^\.(target|version).*$", "", one.ptx) for one in made}) == 1


@pytest.mark.parametrize("wrong", sampled([0, 1]))  # the last one is the easier one to see
def test_each_code_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    """Not only the last one's, where bits cannot be compared."""
    module, path = generated(MULTIPLY_ADD, tmp_path)
    loaded = load_module(path)
    text = MULTIPLY_ADD.replace("+ X", "+ X * 1.001").replace("multiply_add", "another")
    other = load_module(generated(text, tmp_path)[1])
    made = [
        build(other if number == wrong else loaded, t, lines=False) for number, t in enumerate(("sm_100a", "sm_80"))
    ]
    monkeypatch.setattr("cutegen.emulator.host.modules.builds", lambda *_: tuple(made))
    report = verify_case(module.plan, Case("here", "a test", {"M": 3, "N": 52}), loaded, EmulatorExecutor(lines=False))
    assert report.status == "failed"
    assert report.message.startswith(f"the code for {made[wrong].target}: Y["), report.message


@pytest.mark.parametrize("text", [MULTIPLY_ADD, GATED, GEMM], ids=["multiply-add", "gelu of f16", "gemm"])
def test_a_right_kernel_passes_for_all_its_targets(text: str, tmp_path: Path) -> None:
    """In the telling cases but those of many tiles: how tiles are counted is the same for all of them."""
    module, path = generated(text, tmp_path)
    executor, loaded = EmulatorExecutor(lines=False), load_module(path)
    reports = [verify_case(module.plan, case, loaded, executor) for case in telling_cases(module.plan)]
    assert len(reports) > 4 and [(r.name, r.message) for r in reports if r.status != "passed"] == []
