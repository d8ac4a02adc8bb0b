"""Kernels of several cases: their modules, and that the emulator finds a mistake in any case and in the choice."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest
from specs_kit import modules_of
from sweep_kit import sampled

from cutegen.analysis.proof import prove
from cutegen.codegen import Module, generate
from cutegen.codegen.formatting import WIDTH
from cutegen.drawing.kernels import draw_kernel
from cutegen.hostchecks import host_checks
from cutegen.hostchecks.checks import _checks
from cutegen.hostchecks.judging import Host
from cutegen.language.writer import write_spec
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.report import CaseReport
from cutegen.verification.runner import verify_case
from cutegen.verification.tensors import make_tensors

SCALE = """\
cutegen: 1
kernel: scale
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  B: {shape: [N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * B
schedule:
  - for: {N: "% 16 == 0", align: 16}
    partition: thread_value
    thread_layout: (2,16):(16,1)
    value_layout: (2,4):(4,1)
  - for: {N: "<= 8"}
    partition: inner
    threads: 32
    copy: {bits: 32}
  - partition: inner
    threads: 64
    copy: {bits: 32}
targets: [sm_80]
"""
SUMS = """\
cutegen: 1
kernel: sums
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  s: {shape: [M], dtype: f32, role: out}
  Y: {shape: [N], dtype: f32, role: out}
compute:
  - s = sum(X * X, N)
  - Y = sum(X, M)
schedule:
  - for: {target: sm_90a, N: 64}
    cluster: {N: 2}
    tiler: {N: 32}
    threads_per_row: 32
    scheduler: {blocks: 4}
  - for: {N: "<= 32"}
    threads_per_row: 8
    keep: registers
    tiler: {M: 4, N: 32}
    scheduler: {blocks: 2}
  - keep: reload
    threads_per_row: 32
    tiler: {M: 2, N: 64}
    scheduler: {blocks: 3}
targets: [sm_80, sm_90a]
"""
PRODUCT = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, align: 4}
  B: {shape: [N, K], dtype: f32, align: 4}
  C: {shape: [M, N], dtype: f32, align: 4, role: out}
compute: C = A @ B.T
schedule:
  - for: {M: "<= 16"}
    tiler: {M: 16, N: 32, K: 8}
    mma: {thread_layout: "(4,8,1)"}
  - for: {K: "% 4 == 0", align: 16}
    tiler: {M: 32, N: 32, K: 8}
    mma: {thread_layout: "(8,8,1)"}
    copies: {A: {atom: universal, bits: 128}}
  - tiler: {M: 32, N: 16, K: 8}
    mma: {thread_layout: "(8,4,1)"}
divisible: {M: 1, N: 4}
targets: [sm_80]
"""
TEXTS = {"scale": SCALE, "sums": SUMS, "product": PRODUCT}


@lru_cache
def module_of(name: str) -> Module:
    (module,) = generate(TEXTS[name], "x.yaml").modules
    return module


@pytest.mark.parametrize("name", TEXTS)
def test_explain_builds_to_the_same_bytes(name: str) -> None:
    explained = write_spec(module_of(name).spec, dict.fromkeys(module_of(name).inferred, "why"))
    (again,) = generate(explained, "x.yaml").modules
    assert again.text == module_of(name).text


def test_modules_are_formatted_and_use_what_they_define(tmp_path: Path) -> None:
    for name in TEXTS:
        (tmp_path / f"{name}.py").write_text(module_of(name).text, encoding="utf-8")
    for command in (("check",), ("format", "--check", "--diff")):
        options = ["--isolated", "--no-cache", "--config", f"line-length={WIDTH}"]
        arguments = [sys.executable, "-m", "ruff", *command, *options, "."]
        result = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]


def test_what_cases_define_alike_stands_once() -> None:
    text = module_of("scale").text
    assert text.count("def vectors(") == text.count("def launch(") == 1
    assert [text.count(f"def scale_kernel_{i}(") for i in (1, 2, 3)] == [1, 1, 1]


@pytest.mark.parametrize("name", TEXTS)
def test_every_case_is_proved_drawn_and_told_apart_in_the_regions(name: str) -> None:
    module = module_of(name)
    proof = prove(module.plan)
    assert proof.holds
    for number in (1, 2, 3):
        assert any(claim.text.startswith(f"case {number} (") for claim in proof.claims)
        assert any(figure.name.endswith(f"-{number}") for figure in draw_kernel(module.plan))
        assert any(region.path[:2] == ("schedule", number - 1) for region in module.regions)


@pytest.mark.parametrize("name", TEXTS)
def test_sizes_of_a_verification_case_are_those_of_its_kernel(name: str) -> None:
    """Each kernel has as full a plan of cases as if it were alone, and its sizes get to it."""
    plan = module_of(name).plan
    for number, kernel in enumerate(plan.kernels):
        own = [case for case in derive_cases(plan) if case.name.endswith(kernel.case)]
        assert len(own) >= 10 and {case.data for case in own} >= {"integers", "special"}
        for case in (case for case in own if not {"alone", "beyond"} & set(case.name.split())):
            assert kernel.spec.takes(case.sizes), (kernel.case, case)
            before = [one for one in plan.conditions[:number] if one.align == 1 and not one.targets]
            assert not any(one.takes_sizes(case.sizes) for one in before), (kernel.case, case)


def test_the_least_size_that_a_case_is_not_for_is_run() -> None:
    """Aligned as that case asks, so that nothing but the size keeps it from being taken."""
    found = {case.name: case.sizes["N"] for case in derive_cases(module_of("scale").plan) if "beyond" in case.name}
    assert found == {"N beyond case 2 (N <= 8)": 9}


def test_the_largest_size_that_a_case_is_for_is_run() -> None:
    """On several rows: those of a workspace that is too small for them reach into each other."""
    plan = modules_of("softmax")["softmax"].plan
    bounded = [kernel for kernel in plan.kernels if "N <=" in kernel.case]
    assert len(bounded) > 5
    for kernel in bounded:
        _, most = kernel.spec.sizes_of("N")
        sizes = [case.sizes for case in derive_cases(plan) if case.of[0] == kernel.case]
        assert any(one["N"] == most and one["M"] > 1 for one in sizes), kernel.case


def test_of_a_target_those_cases_count_that_it_has() -> None:
    """The blocks of a multiprocessor are not fewer because of a case for another target."""
    text = SUMS.replace("{target: sm_90a, N: 64}", "{target: sm_90a, N: 8192}").replace("tiler: {N: 32}", "keep: smem")
    plan = generate(text.replace("    threads_per_row: 32\n    scheduler: {blocks: 4}\n", ""), "x.yaml").modules[0].plan
    first, *others = plan.kernels
    assert first.smem_bytes > max(kernel.smem_bytes for kernel in others)
    assert plan.smem_on("sm_80") == max(kernel.smem_bytes for kernel in others) < plan.smem_on("sm_90a")
    assert plan.threads_on("sm_80") == max(kernel.threads for kernel in others)
    for part, kernel in zip(prove(plan).parts, plan.kernels, strict=True):
        assert [room.target for room in part.occupancy] == list(kernel.spec.targets)
        for room in part.occupancy:
            assert (room.threads, room.shared_memory) == (kernel.threads, kernel.smem_bytes)


def test_what_a_case_needs_is_asked_of_all_calls() -> None:
    """A requirement of one schedule is a promise of the module, unless it is a condition of the case."""
    assert [tensor.align for tensor in module_of("scale").spec.tensors] == [4, 4, 4]
    needs = SCALE.replace('{N: "% 16 == 0", align: 16}', '{M: "> 8"}')
    (module,) = generate(needs.replace("(4,1)\n", "(4,1)\n    copy: {fallback: refuse}\n"), "x.yaml").modules
    assert [tensor.align for tensor in module.spec.tensors] == [16, 16, 16]
    assert module.spec.divisible == {"N": 4} and ("divisible", "N") in module.inferred


def test_each_tensor_stands_at_half_of_what_a_case_asks_for() -> None:
    """Then a case that asks for less than its accesses need is taken wrongly."""
    kernels = [case for case in derive_cases(module_of("scale").plan) if "alone stands at 8" in case.name]
    assert [case.name[0] for case in kernels] == ["X", "B", "Y"]
    for case in kernels:
        for guarded in make_tensors(module_of("scale").spec, case, "cpu"):
            bytes_ = 4 * math.gcd(guarded.view.data_ptr() // 4, *(s for s in guarded.view.stride() if s > 1))
            assert (bytes_ % 16 == 8) == (guarded.tensor.name == case.name[0])


def test_what_every_case_takes_is_the_least_of_them() -> None:
    """Of the whole kernel sizes are tried that any case must take, whichever one they get to."""
    plan = module_of("product").plan
    assert plan.spec.family.covered(plan) == {"M": 16, "K": 8, "N": 16}
    assert plan.spec.family.largest(plan) == {"N": 65535 * 16}


def test_the_memory_of_a_call_is_that_of_all_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """So checks that run a case on much of a mode do not make more of it for another case than there is."""
    text = PRODUCT.replace("copies: {A: {atom: universal, bits: 128}}", "workspace: {B: {major: N}}")
    plan = generate(text, "x.yaml").modules[0].plan
    hosts: list[Host] = []
    monkeypatch.setattr("cutegen.hostchecks.long_sums.checks", lambda host: hosts.append(host) or ())
    case = Case("small", "", {"M": 4, "N": 4, "K": 4})
    tensors = make_tensors(plan.spec, case, "cpu")
    assert list(_checks(Host(plan, ModuleType("x"), EmulatorExecutor(lines=False), case, tensors)))
    assert [len(list(kernel.spec.family.scratch(kernel))) for kernel in plan.kernels] == [0, 1, 0]
    assert [len(host.scratch) for host in hosts] == [1, 1, 1]


TELLING = ("tile", "all one more", "primes", "all one less", "special values", "rows", "padded residue")


def loaded(name: str, folder: Path, changes: dict[str, str]) -> ModuleType:
    text = module_of(name).text
    for old, new in changes.items():
        assert old in text, f"{old} is not in the module: adapt the change"
        text = text.replace(old, new)
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return load_module(path)


def reports(name: str, module: ModuleType, executor: EmulatorExecutor) -> Iterator[CaseReport]:
    for case in derive_cases(module_of(name).plan):
        if case.name.partition(",")[0] in TELLING or "alone" in case.name:
            yield verify_case(module_of(name).plan, case, module, executor)


@pytest.mark.parametrize("name", TEXTS)
def test_every_case_is_right_and_so_is_the_host(name: str, tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    module, executor = loaded(name, tmp_path, {}), EmulatorExecutor(lines=False)
    found = list(reports(name, module, executor))
    assert [(report.name, report.message) for report in found if report.status != "passed"] == []
    checks = list(host_checks(module_of(name).plan, module, executor))
    assert [(check.what, check.message) for check in checks if check.status != "passed"] == []


MUTANTS = [
    ("scale", "a size that does not fit", {"mX.shape[1] % 16 == 0": "mX.shape[1] % 2 == 0"}),
    ("scale", "one tensor's address is not looked at", {"_stand(16, mX, mB, mY)": "_stand(16, mX, mY)"}),
    ("scale", "strides are not looked at", {"isinstance(stride, int)": "True"}),
    ("sums", "any size is taken for 64", {"mX.shape[1] == 64": "mX.shape[1] >= 64"}),
    ("sums", "longer rows than a block holds", {"mX.shape[1] <= 32": "mX.shape[1] <= 64"}),
    ("sums", "a barrier of the second case", {"BLOCKS_2": "BLOCKS_3"}),
    ("sums", "memory of another case", {"mY, workspace_Y_2, stream": "mY, workspace_Y_3, stream"}),
    ("product", "a k that no vector fits", {"mA.shape[1] % 4 == 0": "mA.shape[1] % 2 == 0"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "what", "changes"), sampled(MUTANTS), ids=[f"{name}: {what}" for name, what, _ in MUTANTS]
)
def test_a_mistake_in_the_choice_is_found(name: str, what: str, changes: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    found = reports(name, loaded(name, tmp_path, changes), EmulatorExecutor(lines=False))
    failed = next((report for report in found if report.status == "failed"), None)
    assert failed is not None, f"{what}: all cases pass"
