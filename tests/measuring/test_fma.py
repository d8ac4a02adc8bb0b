"""The kernel that measures a GPU's arithmetic: its loop is multiply-adds and nothing else, and all of them count."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from compiling_kit import Compiler

from cutegen.atoms.targets import TARGETS
from cutegen.compiling import Compiled, Job
from cutegen.measuring.machine import ARCHITECTURES
from cutegen.sass.control_flow import loops
from cutegen.sass.instructions import histogram, parse

pytest.importorskip("cutlass")
SOURCE = Path(__file__).parents[2] / "cutegen" / "measuring" / "fma.py"


def test_there_is_an_architecture_for_every_target() -> None:
    assert set(ARCHITECTURES.values()) == set(TARGETS)
    for capability, target in ARCHITECTURES.items():
        assert target.removeprefix("sm_").rstrip("a") == capability.replace(".", "")


def test_the_loop_is_multiply_adds(compiler: Compiler) -> None:
    from cutegen.measuring import fma

    outcomes = compiler([Job(SOURCE.read_text(), "fma_kernel", target, sass=True) for target in ("sm_80", "sm_90a")])
    for outcome in outcomes:
        assert isinstance(outcome, Compiled), outcome
        resources = outcome.artefact.resources
        assert resources.spill_stores == resources.spill_loads == resources.stack == 0
        assert resources.registers is not None
        assert fma.BLOCKS * fma.THREADS * resources.registers <= 65536, "all blocks of an SM run at a time"
        assert 2 * fma.PAIRS < resources.registers < 64
        (function,) = parse(outcome.artefact.sass)
        found = loops(function)
        assert found is not None
        (loop,) = found
        counts = {name: n for kind in histogram(loop.instructions).values() for name, n in kind.items()}
        assert counts["FFMA"] == fma.PER_PASS
        assert len(loop.instructions) - counts["FFMA"] <= 4, "a counter, its comparison and a branch"


def test_it_computes_what_its_reference_says(compiler: Compiler) -> None:
    """On the emulator, with the PTX that is compiled for Hopper."""
    torch = pytest.importorskip("torch")
    from cutegen.emulator import bind, launch, place
    from cutegen.measuring import fma
    from cutegen.measuring.limits import TURN

    (outcome,) = compiler([Job(SOURCE.read_text(), "fma_kernel", "sm_90a")])
    assert isinstance(outcome, Compiled)
    x = torch.randn(2 * fma.THREADS, generator=torch.Generator().manual_seed(0))
    for passes in (0, 1, 2):
        result = x.numpy().copy()
        tensor = bind(result, "x", "inout", place(result.ctypes.data, 0))
        parameters = struct.pack("<QiiIf", tensor.at, result.size, 0, passes, TURN)
        launch(outcome.artefact.ptx, None, 2, fma.THREADS, parameters, [tensor])
        wanted = fma.reference(x, passes, TURN)
        assert float((torch.from_numpy(result) - wanted).abs().max()) < 1e-3
        assert float(wanted.abs().max()) < 1e3, "neither grows"
        assert len(wanted.unique()) == wanted.numel(), "nor settles: each thread's numbers are its own"
