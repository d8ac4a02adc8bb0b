"""Tensors whose elements lie gigabytes apart, in functions of anyone and in generated modules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from far_functions import FAR, plus_one, plus_one_of_32_bits, untouched  # noqa: E402

from cutegen import emulator  # noqa: E402
from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator.calls.marks import Marks  # noqa: E402
from cutegen.emulator.host.device_tensors import far_apart  # noqa: E402
from cutegen.emulator.memory.bound_tensors import bind, elements_of  # noqa: E402
from cutegen.emulator.memory.far_tensors import brought_near, is_sparse, settle  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402


def test_offsets_of_more_than_32_bits() -> None:
    """As told by `far`, and as a tensor really has them."""
    x, out, real = torch.randn(2, 32), torch.zeros(2, 32), untouched(2, 32)
    for given, memory in ((emulator.tensor(out, far={0: FAR}, static=True), out), (real, real)):
        called = emulator.call(plus_one, x, given, outputs=["out"])
        assert torch.equal(memory, x + 1) and [one.written for one in called.arguments] == [0, 64]
    for wrong in (emulator.tensor(out, far={0: FAR}), real):
        with pytest.raises(emulator.FaultError) as caught:
            emulator.call(plus_one_of_32_bits, x, wrong)
        fault = caught.value.fault
        assert fault.kind == "out-of-bounds" and fault.block == (1, 0, 0)
        assert fault.tensor == "out" and fault.element == (-1, 16)
        assert "8589934560 bytes before the start of out" in fault.explanation


def test_roles_and_gaps_of_far_rows() -> None:
    x = torch.randn(2, 32)
    with pytest.raises(emulator.FaultError, match="64 of 128 elements of out were never written"):
        emulator.call(plus_one, x, untouched(2, 64), outputs=["out"])
    with pytest.raises(emulator.FaultError, match=r"fault\[write-to-input\]"):
        emulator.call(plus_one, x, untouched(2, 32), outputs=[])
    with pytest.raises(emulator.FaultError, match="in a gap between the rows of out"):
        emulator.call(plus_one, x, untouched(2, 31))


def test_rows_of_two_tensors_in_turn_and_a_part() -> None:
    both = untouched(2, 64)
    x, out = both[:, :32], both[:, 32:]
    x.fill_(3.0)
    emulator.call(plus_one, x, out, outputs=["out"])
    assert (out == 4).all() and (x == 3).all()
    called = emulator.call(plus_one, out[1:], x[:1], outputs=["out"])
    assert (x[0] == 5).all() and (x[1] == 3).all() and called.arguments[1].written == 32


def test_strides_that_cannot_be_told() -> None:
    x = torch.zeros(4, 8)
    for far, says in (({0: 7}, "steps of 7 elements along mode 0, where others reach 8 far"), ({0: 64}, "compact")):
        with pytest.raises(ValueError, match=says):
            emulator.tensor(x, far=far, divisible={1: 8} if "compact" in says else None)


TWICE = """
cutegen: 1
kernel: far_twice
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * 2
static: {N: 32}
targets: [sm_90a]
"""


def test_a_generated_module(tmp_path: Path) -> None:
    (made,) = generate(TWICE, "x.yaml").modules
    (tmp_path / made.name).write_text(made.text, encoding="utf-8")
    module = load_module(tmp_path / made.name)
    emulated = emulator.install(module, "far_twice", roles={"x": "in", "y": "out"})
    x, y = untouched(3, 32), untouched(3, 32)
    x.copy_(torch.randn(3, 32))
    assert module.far_twice(x, y=y) is y and torch.equal(y, 2 * x) and torch.equal(module.far_twice(x), 2 * x)
    assert len(emulated.reports) == 2


def test_a_mode_of_one_element_takes_any_stride_beside_far_rows() -> None:
    """A module gives such modes strides of its own; rows are as far apart as before, and elements where they were."""
    x = torch.randn(2, 1, 32)
    far = far_apart(x, 0, FAR)
    fitted = far.as_strided((2, 1, 32), (FAR, 40, 1))
    assert far.as_strided(far.shape, far.stride()) is far
    assert fitted.stride() == (FAR, 40, 1) and fitted.part is far.part
    assert fitted.data_ptr() == x.data_ptr() and torch.equal(fitted.as_subclass(torch.Tensor), x)


def test_only_few_elements_in_much_memory_are_brought_near() -> None:
    assert not is_sparse(bind(np.zeros((64, 64), np.float32)[:, :1], "x"))
    flat = untouched(2, 32)
    assert is_sparse(bind(flat, "x")) and not is_sparse(bind(flat.as_strided((2, 3, 32), (FAR, 0, 1)), "x"))
    assert not is_sparse(bind(flat[1:], "x"))
    for view in (flat, flat[:, ::2], flat.T, flat.view(2, 4, 8)[:, :, :7]):
        real = bind(view, "x")
        view.copy_(torch.randn(view.shape))
        near = brought_near(real, real.strides)
        assert near is not None and near.span < 2048 and near.fold is not None
        assert all(
            (a - b) * 4 % 512 == 0 for a, b, n in zip(near.strides, real.strides, near.shape, strict=True) if n > 1
        )
        before = view.clone()
        elements_of(near.bytes(), near)[...] ^= 1
        settle(near)
        assert (view.view(torch.int32) ^ before.view(torch.int32) != 0).all()


def test_marks_of_a_sparse_storage() -> None:
    generator = np.random.default_rng(0)
    whole = np.zeros(4096, np.uint16)
    for first in (False, True):
        sparse, dense = (Marks(whole.nbytes, first, sparse=one) for one in (True, False))
        for _ in range(40):
            start, step = int(generator.integers(100)), int(generator.integers(1, 9))
            view = bind(whole[start:][: 50 * step : step], "x")
            offset = view.pointer - whole.ctypes.data
            assert np.array_equal(sparse.read(view, offset), dense.read(view, offset))
            marks = generator.random((*view.shape, 2)) < 0.5
            for each in (sparse, dense):
                each.write(view, offset, marks)
