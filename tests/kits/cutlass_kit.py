"""Hopper's gemms among CUTLASS's examples, compiled without a GPU and run on the emulator as they are.

They are no package: the environment variable CUTLASS_EXAMPLES has the folder examples/python/CuTeDSL/cute of a copy of
the repository NVIDIA/cutlass.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from cutegen.emulator import on_device
from cutegen.emulator.host.builds import Build, build
from cutegen.emulator.host.emulated import Emulated

TARGET = "sm_90a"
FOLDER = os.environ.get("CUTLASS_EXAMPLES", "")
_HOME = "hopper/kernel/dense_gemm"


@dataclass(frozen=True)
class Gemm:
    """One of the examples `dense_gemm` and `dense_gemm_persistent`, of tiles of C of `tile` and clusters of `cluster`.

    `majors` are the modes along which A, B and C are contiguous. The persistent one starts at most `clusters` clusters.
    """

    example: str
    tile: tuple[int, int]
    cluster: tuple[int, int]
    majors: str = "KKN"
    clusters: int = 2

    def compile_for(self, arch: str, options: tuple[Any, ...] = ()) -> Any:
        """The compiled example, for bf16 with sums in f32."""
        import cutlass
        from cutlass import cute
        from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

        sizes = {mode: cute.sym_int() for mode in "MNKL"}

        def fake(modes: str, major: str) -> Any:
            shape = tuple(sizes[mode] for mode in modes)
            strides = tuple(1 if mode == major else cute.sym_int64(divisibility=8) for mode in modes)
            return make_fake_tensor(cutlass.BFloat16, shape, strides, assumed_align=16)

        operands = [fake(modes, major) for modes, major in zip(("MKL", "NKL", "MNL"), self.majors, strict=True)]
        persistent = self.example.endswith("persistent")
        kind = "HopperWgmmaGemmPersistentKernel" if persistent else "HopperWgmmaGemmKernel"
        more = (1, True) if persistent else ()
        gemm = getattr(_module(self.example), kind)(cutlass.Float32, self.tile, self.cluster, *more)
        if persistent:
            operands.append(self.clusters)
        stream = make_fake_stream(use_tvm_ffi_env_stream=True)
        return cute.compile[(cute.GPUArch(arch), cute.EnableTVMFFI(), *options)](gemm, *operands, stream)

    def build(self) -> Build:
        """The example's PTX and host code."""
        return build(SimpleNamespace(compile_for=self.compile_for), TARGET)  # type: ignore[arg-type]

    def run(self, made: Build, sizes: tuple[int, int, int, int], **more: int) -> bool:
        """Whether the result for (M, N, K, L) is right to the bit. `more` is as for `Emulated`. Raises FaultError."""
        m, n, k, batch = sizes
        a, b, c = (
            matrices(rows, columns, batch, by_rows=major in second)
            for (rows, columns, second), major in zip(((m, k, "K"), (n, k, "K"), (m, n, "N")), self.majors, strict=True)
        )
        emulated = Emulated([made], ["a", "b", "c"], {"a": "in", "b": "in", "c": "out"}, **more)
        emulated(*map(on_device, (a, b, c)))
        return torch.equal(c, torch.einsum("mkl,nkl->mnl", a.double(), b.double()).to(torch.bfloat16))


@lru_cache
def _module(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, Path(FOLDER) / _HOME / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def matrices(rows: int, columns: int, batch: int, *, by_rows: bool) -> torch.Tensor:
    """Small whole numbers in matrices of that many rows and columns, whose rows, or columns, are contiguous."""
    if not by_rows:
        return matrices(columns, rows, batch, by_rows=True).transpose(0, 1)
    generator = torch.Generator().manual_seed(rows * 1000 + columns)
    return torch.randint(-4, 5, (batch, rows, columns), generator=generator).to(torch.bfloat16).permute(1, 2, 0)
