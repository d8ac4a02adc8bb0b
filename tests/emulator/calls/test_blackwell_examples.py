"""CUTLASS's gemms and attention for Blackwell as they are, on the emulator; where the examples are.

The environment variable CUTLASS_EXAMPLES has the folder examples/python/CuTeDSL/cute of a copy of NVIDIA/cutlass.
Nothing here was compared with a GPU.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

cutlass = pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from cutlass_kit import FOLDER  # noqa: E402

from cutegen import emulator  # noqa: E402
from cutegen.emulator.arithmetic.f8_formats import F8_FORMATS  # noqa: E402
from cutegen.emulator.arithmetic.small_formats import SCALES, SMALL_FORMATS  # noqa: E402

pytestmark = pytest.mark.skipif(not FOLDER, reason="CUTLASS_EXAMPLES does not say where CUTLASS's examples are")

F32 = cutlass.Float32
TARGET = "sm_100a"


def example(path: str) -> Any:
    """A module of the examples; those import files beside them, and helpers from the folder above theirs."""
    place = Path(FOLDER) / "blackwell" / path
    for folder in (place.parent, Path(FOLDER), Path(FOLDER).parent):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(f"blackwell_{place.stem}", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def integers(rows: int, columns: int, dtype: Any, *, by_rows: bool = True, batch: int = 1) -> Any:
    """Small whole numbers, of shape (rows, columns, batch)."""
    if not by_rows:
        return integers(columns, rows, dtype, batch=batch).permute(1, 0, 2)
    return torch.randint(-2, 3, (batch, rows, columns)).to(dtype).permute(1, 2, 0)


@pytest.mark.parametrize("number", ["0", "1", "2", "3", "3_1", "5"])
def test_tutorials(number: str) -> None:
    """One block and pairs, specialised warps, multicasts, and cluster launch control."""
    m, n, k = 512, 512, 256
    a, b, c = (integers(*shape, torch.float16)[:, :, 0].contiguous() for shape in ((m, k), (n, k), (m, n)))
    given = (emulator.tensor(t, align=32, leading=1, divisible={1: t.shape[1]}) for t in (a, b, c))
    function = example(f"tutorial/tutorial_gemm/fp16_gemm_{number}.py").host_function
    more = () if number in "012" else (2,)
    emulator.call(function, *given, *more, target=TARGET, outputs=["c"], orders=2)
    assert torch.equal(c, (a.double() @ b.double().T).half())


def gemm(
    kind: Any,
    sizes: tuple[int, int, int],
    dtype: Any,
    majors: str,
    *more: Any,
    batch: int = 1,
    out: Any = torch.float32,
) -> bool:
    """Whether a gemm of the examples is right to the bit, with A, B and C contiguous along the modes `majors`."""
    m, n, k = sizes
    a = integers(m, k, dtype, by_rows=majors[0] == "K", batch=batch)
    b = integers(n, k, dtype, by_rows=majors[1] == "K", batch=batch)
    c = integers(m, n, out, by_rows=majors[2] == "N", batch=batch)
    given = (emulator.tensor(t, align=16, leading=t.stride().index(1)) for t in (a, b, c))
    emulator.call(kind, *given, *more, target=TARGET, outputs=["c"], orders=2)
    return torch.equal(c, torch.einsum("mkl,nkl->mnl", a.double(), b.double()).to(out))


BF16, F16, E4M3 = torch.bfloat16, torch.float16, torch.float8_e4m3fn
TF32 = torch.float32


@pytest.mark.parametrize(
    ("pairs", "tile", "cluster", "dtype", "majors"),
    [
        (False, (128, 128), (1, 1), BF16, "KKN"),
        (False, (64, 128), (1, 1), BF16, "MNM"),
        (False, (128, 64), (2, 2), TF32, "KKN"),
        (False, (128, 64), (1, 1), TF32, "MNN"),
        (True, (256, 128), (2, 1), E4M3, "KKN"),
        (True, (128, 128), (2, 1), BF16, "MNM"),
        (True, (256, 64), (4, 1), TF32, "KKN"),
    ],
)
def test_dense_gemm(pairs: bool, tile: tuple[int, int], cluster: tuple[int, int], dtype: Any, majors: str) -> None:
    kind = example("kernel/dense_gemm/dense_gemm.py").DenseGemmKernel(F32, pairs, tile, cluster, True)
    assert gemm(kind, (272, 144, 208), dtype, majors)


@pytest.mark.parametrize(
    ("pairs", "tile", "cluster"), [(False, (64, 64), (1, 1)), (False, (128, 64), (1, 1)), (True, (256, 64), (2, 1))]
)
def test_accumulators_of_16_bits(pairs: bool, tile: tuple[int, int], cluster: tuple[int, int]) -> None:
    kind = example("kernel/dense_gemm/dense_gemm.py").DenseGemmKernel(cutlass.Float16, pairs, tile, cluster, True)
    assert gemm(kind, (272, 144, 208), F16, "KKN", out=F16)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("pairs", "tile", "cluster"),
    [(False, (128, 128), (1, 1)), (True, (256, 128), (2, 1)), (True, (256, 256), (2, 2))],
)
def test_persistent_gemms(dynamic: bool, pairs: bool, tile: tuple[int, int], cluster: tuple[int, int]) -> None:
    path = f"kernel/dense_gemm/dense_gemm_persistent{'_dynamic' * dynamic}.py"
    kind = example(path).PersistentDenseGemmKernel(F32, pairs, tile, cluster, True)
    assert gemm(kind, (272, 272, 264), F16, "KKN", *(() if dynamic else (2,)), batch=2)


TABLES = {"e4m3": F8_FORMATS["e4m3"].values, "e5m2": F8_FORMATS["e5m2"].values, **SMALL_FORMATS}
NAMES = {
    "e4m3": cutlass.Float8E4M3FN,
    "e5m2": cutlass.Float8E5M2,
    "e2m3": cutlass.Float6E2M3FN,
    "e3m2": cutlass.Float6E3M2FN,
    "e2m1": cutlass.Float4E2M1FN,
    "ue8m0": cutlass.Float8E8M0FNU,
    "ue4m3": cutlass.Float8E4M3FN,
}
WIDTHS = {"e2m3": 6, "e3m2": 6, "e2m1": 4}


def aligned(raw: Any) -> Any:
    """Bytes or floats as a tensor whose memory starts at a multiple of 256 bytes, as pointers in host code need it."""
    source = torch.from_numpy(np.ascontiguousarray(raw).reshape(-1))
    size = source.numel() * source.element_size()
    room = torch.zeros(size + 256, dtype=torch.uint8)
    start = -room.data_ptr() % 256
    made = room[start : start + size].view(source.dtype)
    made.copy_(source)
    return made


def small(kind: str, rows: int, depth: int, random: np.random.Generator) -> tuple[np.ndarray, Any]:
    """Small whole numbers in a type, and their bytes, packed."""
    table = TABLES[kind]
    bits = random.choice(np.flatnonzero(np.isin(table, range(-4, 5))), (rows, depth)).astype(np.uint8)
    width = WIDTHS.get(kind, 8)
    each = (bits[:, :, None] >> np.arange(width, dtype=np.uint8) & 1).reshape(rows, -1)
    return table[bits], aligned(np.packbits(each, axis=1, bitorder="little"))


def scales(kind: str, rows: int, count: int, random: np.random.Generator) -> tuple[np.ndarray, Any]:
    """Powers of two as scale factors, and their bytes in blocks of 128 rows by 4."""
    table = SCALES[kind]
    bits = random.choice(np.flatnonzero(np.isin(table[:128], [0.5, 1, 2])), (rows, count)).astype(np.uint8)
    return table[bits], aligned(bits.reshape(rows // 128, 4, 32, count // 4, 4).transpose(0, 3, 2, 1, 4))


@pytest.mark.parametrize(
    ("types", "factors", "vector", "tile", "cluster"),
    [
        (("e4m3", "e5m2"), "ue8m0", 32, (128, 128), (1, 1)),
        (("e4m3", "e4m3"), "ue8m0", 32, (256, 128), (2, 1)),
        (("e2m1", "e2m1"), "ue8m0", 32, (128, 128), (1, 1)),
        (("e2m1", "e2m1"), "ue4m3", 16, (256, 256), (2, 1)),
        (("e4m3", "e2m3"), "ue8m0", 32, (128, 128), (1, 1)),
        (("e3m2", "e2m1"), "ue8m0", 32, (128, 128), (1, 1)),
    ],
)
def test_block_scaled_gemm(
    types: tuple[str, str], factors: str, vector: int, tile: tuple[int, int], cluster: tuple[int, int]
) -> None:
    import cuda.bindings.driver as cuda
    from cutlass import cute, utils
    from cutlass.cute.nvgpu import OperandMajorMode
    from cutlass.cute.runtime import make_ptr

    m, n, k = 256, 256, 256
    path = "kernel/blockscaled_gemm/dense_blockscaled_gemm_persistent.py"
    kind = example(path).Sm100BlockScaledPersistentDenseGemmKernel(vector, tile, cluster)
    random = np.random.default_rng(0)
    (a, raw_a), (b, raw_b) = (small(one, rows, k, random) for one, rows in zip(types, (m, n), strict=True))
    (of_a, raw_of_a), (of_b, raw_of_b) = (scales(factors, rows, k // vector, random) for rows in (m, n))
    c = aligned(np.zeros((m, n), np.float32))

    def launch(*tensors: Any) -> None:
        dtypes = (*(NAMES[one] for one in (*types, factors, factors)), F32)
        pointers = [
            make_ptr(dtype, t.data_ptr(), cute.AddressSpace.gmem, assumed_align=32)
            for dtype, t in zip(dtypes, tensors, strict=True)
        ]
        layouts = OperandMajorMode.K, OperandMajorMode.K, utils.LayoutEnum.ROW_MAJOR
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        kind(*pointers, layouts, (m, n, k, 1), 2, stream)

    emulator.call(launch, raw_a, raw_b, raw_of_a, raw_of_b, c, target=TARGET, orders=2)
    expected = (a * np.repeat(of_a, vector, 1)) @ (b * np.repeat(of_b, vector, 1)).T
    assert (c.numpy() == expected.reshape(-1)).all()


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's own run, which compares with its own reference; nothing is timed."""
    module = example("kernel/attention/fmha/fmha.py")
    monkeypatch.setattr(module.testing, "benchmark", lambda *given, **named: 0.0)
    shape, f16 = (1, 256, 1, 128), cutlass.Float16
    options = {"enable_ex2_emulation": False, "enable_skip_correction": False, "is_persistent": False}
    options |= {"is_causal": causal, "bottom_right_align": False, "lse_calculation": False, "skip_ref_check": False}
    options |= {"skip_softmax_threshold": 0.0, "tolerance": 0.1, "warmup_iterations": 0, "iterations": 1}
    ones = dict.fromkeys(("scale_q", "scale_k", "scale_v", "inv_scale_o"), 1.0)
    with emulator.emulating(TARGET) as emulation:
        types = f16, f16, f16, F32, F32
        module.run(shape, shape, *types, (128, 128), window_size=(-1, -1), scale_softmax=0.0, **ones, **options)
    assert any("Attention" in ran.report.kernel or "fmha" in ran.report.kernel for ran in emulation.ran)
