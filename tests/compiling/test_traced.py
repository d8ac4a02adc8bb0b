"""A module is traced once for targets of which its kernels know nothing, and compiles to the same PTX."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")
pytest.importorskip("cutlass")

from cutlass.base_dsl.dsl import BaseDSL
from cutlass.cutlass_dsl.cutlass import SMEM_CAPACITY_MAP

from cutegen.atoms.targets import TARGETS
from cutegen.compiling.loading import load
from cutegen.emulator.host import builds as emulated
from cutegen.emulator.host.builds import builds

SCALED = """\
import cutlass
import cutlass.cute as cute
from cutlass.base_dsl.dsl import BaseDSL
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

TARGETS = ("sm_80", "sm_90a")
FACTOR = 2.0


@cute.kernel
def scaled_kernel(x: cute.Tensor, factor: cutlass.Constexpr):
    tidx, _, _ = cute.arch.thread_idx()
    x[tidx] = x[tidx] * FACTOR * factor


@cute.jit
def launch(x: cute.Tensor, stream, factor: cutlass.Constexpr):
    scaled_kernel(x, factor).launch(grid=(1, 1, 1), block=(32, 1, 1), stream=stream)


def compile_for(arch, options=()):
    x = make_fake_tensor(cutlass.Float32, (cute.sym_int(),), (1,), assumed_align=4)
    compiler = cute.compile[(cute.GPUArch(arch), cute.EnableTVMFFI(), *options)]
    return compiler(launch, x, make_fake_stream(use_tvm_ffi_env_stream=True), 1.0)
"""
TOLD = "BaseDSL._get_dsl().get_arch_enum().major"
"""Asks CuTeDSL for the target while a kernel is traced."""

OTHER = """\


@cute.jit
def other(x, stream, factor):
    launch(x, stream, 5.0)


launches = dict(zip(TARGETS, (launch, other)))


def compile_for"""
DEPENDENT = {
    "a kernel asks": {"* FACTOR * factor": f"* FACTOR * {TOLD}"},
    "an argument": {", 1.0)": ", 1.0 if arch == TARGETS[0] else 3.0)"},
    "an argument in a tuple": {", 1.0)": ", (1.0 if arch == TARGETS[0] else 3.0,))", "* factor": "* factor[0]"},
    "an argument of another kind": {", 1.0)": ", {0: 1.0 if arch == TARGETS[0] else 3.0})", "* factor": "* factor[0]"},
    "a type": {"(1,), assumed": "(1 if arch == TARGETS[0] else 2,), assumed"},
    "a name of the module": {
        "    x = make": "    globals()['FACTOR'] = 1.5 if arch == TARGETS[0] else 2.5\n    x = make"
    },
    "another function": {"\n\n\ndef compile_for": OTHER, "compiler(launch": "compiler(launches[arch]"},
}
"""Texts in the module, and what stands in their place, by what depends on the target then."""


def made(text: str, folder: Path) -> ModuleType:
    (path := folder / "scaled.py").write_text(text, encoding="utf-8")
    return load(path, "traced")


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that CuTeDSL traces."""
    found: list[str] = []
    trace = BaseDSL.generate_original_ir

    def noted(self: BaseDSL, *given: object, **named: object) -> object:
        found.append(str(given[3]))
        return trace(self, *given, **named)

    monkeypatch.setattr(BaseDSL, "generate_original_ir", noted)
    return found


def test_a_module_is_traced_once_and_compiled_for_each_target(tmp_path: Path, traces: list[str]) -> None:
    module = made(SCALED, tmp_path)
    (one,) = builds(module, lines=False)
    assert (one.target, one.others) == ("sm_80", ("sm_90a",)) and len(traces) == 1

    traced = emulated.Traced()
    with traced.recording():
        emulated._compile_to_ptx(module, "sm_80", lines=False)
    for target in ("sm_90a", "sm_100a"):
        assert emulated._traced_to_ptx(module, target, traced) == emulated._compile_to_ptx(module, target, False)[0]


@pytest.mark.parametrize("how", DEPENDENT)
def test_a_module_whose_kernels_depend_on_the_target_is_traced_again(
    how: str, tmp_path: Path, traces: list[str]
) -> None:
    text = SCALED
    for old, new in DEPENDENT[how].items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    module = made(text, tmp_path)
    first, second = builds(module, lines=False)
    assert (first.target, second.target) == ("sm_80", "sm_90a") and len(traces) == 2
    assert second.ptx == emulated._compile_to_ptx(module, "sm_90a", lines=False)[0]


def test_code_that_one_target_does_not_have_is_refused_for_it(tmp_path: Path) -> None:
    """Also where the compiler makes it, and only the assembler knows."""
    text = SCALED.replace('("sm_80", "sm_90a")', '("sm_90a", "sm_80")')
    text = text.replace("    tidx, _", "    cute.arch.griddepcontrol_wait()\n    tidx, _")
    module = made(text, tmp_path)
    traced = emulated.Traced()
    with traced.recording():
        emulated._compile_to_ptx(module, "sm_90a", lines=False)
    assert emulated._traced_to_ptx(module, "sm_80", traced) is None
    with pytest.raises(Exception, match="ptxas rejected the PTX"):
        builds(module, lines=False)


def test_launches_can_be_checked_for_every_target() -> None:
    """Of what host code asks of the target, the compiler refuses nothing else."""
    assert {f"sm_{''.join(filter(str.isdigit, target))}" for target in TARGETS} <= SMEM_CAPACITY_MAP.keys()
