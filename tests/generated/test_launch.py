"""Errors that the compiled host code of a generated module raises itself, so that its Python need not check."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import TensorArgument  # noqa: E402
from cutegen.emulator.host.builds import Build, build  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

COPY = """
cutegen: 1
kernel: copy_rows
op: elementwise
tensors:
  S: {shape: [M, N], dtype: i8, major: N, align: 1}
  D: {shape: [M, N], dtype: f16, major: N, align: 2, role: out}
compute: D = S
schedule: {partition: inner_outer, thread_layout: "(8,32):(32,1)", tiler: {M: 32, N: 256}}
targets: [sm_80]
"""
SLABS = """
cutegen: 1
kernel: copy_slabs
op: elementwise
tensors:
  S: {shape: [L, M, N], dtype: i8, major: N, align: 1}
  D: {shape: [L, M, N], dtype: i8, major: N, align: 1, role: out}
compute: D = S
targets: [sm_80]
"""
GEMM = """
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: K, align: 4}
  B: {shape: [N, K], dtype: f32, major: K, align: 4}
  C: {shape: [M, N], dtype: f32, major: N, align: 4, role: out}
compute: C = A @ B.T
schedule: {tiler: {M: 32, N: 32, K: 8}, mma: {thread_layout: "(8,8,1)"}}
targets: [sm_80]
"""
MARGIN = 64  # bytes


@lru_cache(maxsize=4)
def made(text: str, folder: Path) -> tuple[ModuleType, Build]:
    generated = generate(text, "specs/x.yaml").modules[0]
    path = folder / generated.name
    path.write_text(generated.text, encoding="utf-8")
    module = load_module(path)
    return module, build(module, "sm_80", lines=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


def launches(built: Build, *arguments: TensorArgument) -> int:
    """How many it makes; none if it refuses, with the error that a generated module takes for that."""
    from cutlass.cutlass_dsl import DSLCudaRuntimeError

    try:
        return len(built.host(*arguments))
    except DSLCudaRuntimeError as error:
        assert "cudaErrorInvalidValue" in str(error)
        return 0


def tensor(
    at: int, sizes: Sequence[int], strides: Sequence[int], kind: str, bits: int, device: int = 0
) -> TensorArgument:
    return TensorArgument(at, tuple(sizes), tuple(strides), kind, bits, device=device)


def touched(start: int, sizes: Sequence[int], strides: Sequence[int], width: int) -> list[int]:
    """Every byte of every element."""
    places = product(*map(range, sizes))
    offsets = [sum(i * s for i, s in zip(place, strides, strict=True)) for place in places]
    return [start + o * width + byte for o in offsets for byte in range(width)]


@st.composite
def view(draw: st.DrawFn, sizes: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Where a tensor begins, and its strides: the last mode is contiguous."""
    strides = [draw(st.integers(0, 12)) for _ in sizes[:-1]]
    return draw(st.integers(0, 40)), (*strides, 1)


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_it_runs_only_what_shares_no_memory(folder: Path, data: st.DataObject) -> None:
    for text, rank, (kind, bits) in ((COPY, 2, ("f", 16)), (SLABS, 3, ("i", 8))):
        module, built = made(text, folder)
        sizes = tuple(data.draw(st.integers(1, 4)) for _ in range(rank))
        (at, strides), (out_at, out_strides) = data.draw(view(sizes)), data.draw(view(sizes))
        if data.draw(st.booleans()):
            out_strides = strides  # windows of one buffer
        out_at *= bits // 8
        runs = launches(
            built,
            tensor(MARGIN + at, sizes, strides, "i", 8),
            tensor(MARGIN + out_at, sizes, out_strides, kind, bits),
        )
        bytes_in, bytes_out = touched(at, sizes, strides, 1), touched(out_at, sizes, out_strides, bits // 8)
        sound = len(set(bytes_out)) == len(bytes_out) and not set(bytes_in) & set(bytes_out)
        assert sound or not runs
        # The rules with messages say the same
        buffer = torch.zeros(1024, dtype=torch.uint8)
        shift = -buffer.data_ptr() % 64
        dtype = torch.float16 if bits == 16 else torch.int8
        x = buffer[shift:].view(torch.int8).as_strided(sizes, strides, shift + at)
        y = buffer.view(dtype).as_strided(sizes, out_strides, (shift + out_at) * 8 // bits)
        placed = {name: (t.data_ptr(), t.shape, t.stride()) for name, t in zip(module.TENSORS, (x, y), strict=True)}
        assert all(holds for *_, holds in module._rules(placed)) == bool(runs)


@pytest.mark.parametrize("rows", [1, 5])
def test_what_lies_behind_or_before_runs(folder: Path, rows: int) -> None:
    _, built = made(COPY, folder)
    end = 4096 + (rows - 1) * 32 + 8  # of the last row, which has no gap behind it
    source = tensor(4096, (rows, 8), (32, 1), "i", 8)
    for pitch in (8, 11, 16):
        assert launches(built, source, tensor(end, (rows, 8), (pitch, 1), "f", 16))
        begin = 4096 - (rows - 1) * pitch * 2 - 16
        assert launches(built, source, tensor(begin, (rows, 8), (pitch, 1), "f", 16))
        assert not launches(built, source, tensor(end - 2, (rows, 8), (pitch, 1), "f", 16))
        assert not launches(built, source, tensor(begin + 2, (rows, 8), (pitch, 1), "f", 16))


def test_windows_side_by_side_run(folder: Path) -> None:
    _, built = made(COPY, folder)
    left = tensor(4096, (5, 8), (32, 1), "i", 8)
    assert launches(built, left, tensor(4096 + 8, (5, 8), (16, 1), "f", 16))
    assert launches(built, tensor(4096 + 16, (5, 8), (32, 1), "i", 8), tensor(4096, (5, 8), (16, 1), "f", 16))
    assert not launches(built, left, tensor(4096 + 6, (5, 8), (16, 1), "f", 16))  # a column in common
    assert not launches(built, left, tensor(4096 + 18, (5, 8), (16, 1), "f", 16))  # ends in the next row's


def test_tensors_without_memory_are_refused(folder: Path) -> None:
    """As of torch's FakeTensorMode, whose addresses are 0. So are those of empty tensors."""
    _, built = made(COPY, folder)
    for source, target in ((0, 4096), (4096, 0)):
        assert not launches(built, tensor(source, (5, 8), (8, 1), "i", 8), tensor(target, (5, 8), (8, 1), "f", 16))
    _, built = made(GEMM, folder)
    assert launches(
        built, *(tensor(at, shape, (8, 1), "f", 32) for at, shape in ((0, (5, 0)), (0, (6, 0)), (4096, (5, 6))))
    )


@pytest.mark.parametrize(
    ("text", "sizes", "runs"),
    [
        (COPY, {"M": 2**31 - 2**21, "N": 1}, 1),
        (COPY, {"M": 2**31 - 2**21 + 1, "N": 1}, 0),
        (COPY, {"M": 0, "N": 1}, 0),
        (COPY, {"M": 1, "N": 0}, 0),
        (COPY, {"M": 2**27, "N": 2**16}, 1),  # 2**30 tiles
        (COPY, {"M": 2**28, "N": 2**16}, 0),  # 2**31
        (GEMM, {"M": 8, "N": 8, "K": 2**31 - 2**21}, 1),
        (GEMM, {"M": 8, "N": 8, "K": 2**31 - 2**21 + 1}, 0),
        (GEMM, {"M": 8, "N": 8, "K": 0}, 1),
        (GEMM, {"M": 0, "N": 8, "K": 8}, 0),
        (GEMM, {"M": 8, "N": 2**31 - 2**22, "K": 8}, 0),  # more tiles than a grid has in y
    ],
)
def test_sizes_that_cannot_be_launched_are_refused(folder: Path, text: str, sizes: dict[str, int], runs: int) -> None:
    _, built = made(text, folder)
    types = [("MN", "i", 8), ("MN", "f", 16)] if text is COPY else [(shape, "f", 32) for shape in ("MK", "NK", "MN")]
    arguments = [
        tensor((i + 1) << 50, [sizes[m] for m in shape], (max(1, sizes[shape[1]]), 1), kind, bits)
        for i, (shape, kind, bits) in enumerate(types)
    ]
    assert launches(built, *arguments) == runs


def test_a_launch_is_on_the_device_of_its_tensors(folder: Path) -> None:
    _, built = made(COPY, folder)

    def on(device: int) -> list[TensorArgument]:
        return [tensor(at, (4, 8), (8, 1), *kind, device=device) for at, kind in ((4096, ("i", 8)), (8192, ("f", 16)))]

    for device in (0, 1, 3):
        (launch,) = built.host(*on(device))
        assert (launch.device, built.host.device) == (device, 0)  # afterwards what was current is so again
    with pytest.raises(ValueError, match="device"):
        built.host(on(0)[0], on(1)[1])
