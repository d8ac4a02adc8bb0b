"""Functions of anyone on the emulator: jit functions, functions that compile, and what is wrong with either."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

import cute_functions as functions  # noqa: E402
from cutlass.cute.runtime import from_dlpack  # noqa: E402

from cutegen import emulator  # noqa: E402
from cutegen.emulator import CaptureError, CompileError, Fault, FaultError  # noqa: E402
from cutegen.emulator.calls.call import NoSuchTensor, NothingLaunched, WrongArguments  # noqa: E402
from cutegen.emulator.calls.memory import Memory  # noqa: E402


@pytest.fixture
def a() -> Any:
    return torch.randn(50)


@pytest.fixture
def b() -> Any:
    return torch.randn(50)


@pytest.fixture
def c() -> Any:
    return torch.zeros(50)


@pytest.fixture
def dataclasses() -> None:
    """For tests that pass a dataclass: what quack, once imported, puts in the place of a part of CuTeDSL takes none."""
    if "quack" in sys.modules:
        pytest.skip("quack was imported in this process")


def fault_of(function: Any, *arguments: Any, **named: Any) -> Fault:
    with pytest.raises(FaultError) as caught:
        emulator.call(function, *arguments, **named)
    return caught.value.fault


def test_a_jit_function(a: Any, b: Any, c: Any) -> None:
    called = emulator.call(functions.add, a, b, c, target="sm_80", outputs=["c"], orders=3)
    assert torch.equal(c, a + b)
    assert [(one.name, one.role, one.written) for one in called.arguments] == [
        ("a", "in", 0), ("b", "in", 0), ("c", "out", 50)
    ]  # fmt: skip
    (ran,) = called.ran
    assert (ran.asked.grid, ran.asked.block, ran.report.orders) == ((2, 1, 1), (32, 1, 1), 3)
    assert called.result is None and "default stream" in called.notes[0]


def test_places_for_tensors_are_used_again(a: Any, b: Any, c: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call after hundreds of others has addresses that fit a tensor map; its own tensors are still far apart."""
    known: list[list[int]] = []
    regions = Memory.regions

    def noted(*given: Any) -> Any:
        found = regions(*given)
        known.append([region.at >> 48 for region in found])
        return found

    monkeypatch.setattr(Memory, "regions", noted)
    monkeypatch.setattr("cutegen.emulator.calls.emulation.PLACES", 8)

    with emulator.emulating("sm_80"):
        compiled = functions.compiled_add()
        for _ in range(4):
            compiled(a, b, c)
    assert torch.equal(c, a + b)
    assert known == [[1, 2, 3], [4, 5, 6], [1, 2, 3], [4, 5, 6]]


@pytest.mark.usefixtures("dataclasses")
def test_arguments_of_many_kinds(a: Any, b: Any, c: Any) -> None:
    """Tuples, dataclasses, None, constants; and a stream that is left out is torch's current one."""
    scale = functions.Scale(functions.cutlass.Float32(2.0))
    called = emulator.call(functions.add_of_parts, functions.Pair(a, b), c, scale, None, 1.0)
    torch.testing.assert_close(c, (a + b) * 2 + 1)
    assert [one.name for one in called.arguments] == ["pair[0]", "pair[1]", "c"] and not called.notes


def test_what_a_library_compiles(a: Any, b: Any, c: Any) -> None:
    """Once, for several calls, whose arguments the compiled host code checks."""

    def calls(a: Any, b: Any, c: Any) -> None:
        compiled = functions.compiled_add()
        compiled(a, b, c)
        compiled(a[:7], c[:7], c=c[:7])
        for wrong, says in (
            ((a.double(), b, c), "dtype"),
            ((a, b[:3], c), "b.shape"),
            ((a[::2], b[::2], c[::2]), "strides"),
        ):
            with pytest.raises(ValueError, match=says):
                compiled(*wrong)
        with pytest.raises(TypeError, match="add: missing a required argument: 'c'"):
            compiled(a, b)
        with pytest.raises(AttributeError, match="cannot be exported"):
            compiled.export_to_c("x.o")

    called = emulator.call(calls, a, b, c)
    assert len(called.ran) == 2
    torch.testing.assert_close(c[:7], 2 * a[:7] + b[:7])


@pytest.mark.usefixtures("dataclasses")
def test_a_stream_that_nobody_passes(a: Any, b: Any, c: Any) -> None:
    scale = functions.Scale(functions.cutlass.Float32(1.0))
    with emulator.emulating() as emulation:
        functions.compiled_on_a_stream()(functions.Pair(a, b), c, scale, None)
    torch.testing.assert_close(c, a + b + 1)
    assert not emulation.notes


def test_what_was_compiled_here_is_of_no_use_elsewhere(a: Any) -> None:
    with emulator.emulating("sm_80"):
        compiled = functions.compiled_add()
        with pytest.raises(ValueError, match="sm_90a was asked for, within an emulation of sm_80"):
            emulator.call(functions.add, a, a, a, target="sm_90a")
    with pytest.raises(CaptureError, match="called where nothing is emulated"):
        compiled(a, a, a)
    with emulator.emulating("sm_90a"), pytest.raises(CaptureError, match="compiled for sm_80, and is emulated for"):
        compiled(a, a, a)


def test_an_access_out_of_bounds_is_shown_in_the_users_file(a: Any) -> None:
    fault = fault_of(functions.without_predicate, a, torch.zeros(64))
    lines = Path(functions.__file__).read_text(encoding="utf-8").splitlines()
    assert (fault.kind, fault.tensor, fault.element, fault.thread) == ("out-of-bounds", "a", (50,), (18, 0, 0))
    assert fault.source_file == functions.__file__ and lines[(fault.source_line or 0) - 1].strip() == "c[i] = a[i]"


def test_a_fault_in_another_file_is_shown_there(a: Any, c: Any) -> None:
    fault = fault_of(functions.shift, a, c)
    assert (fault.kind, fault.element) == ("out-of-bounds", (50,)) and not fault.near
    assert Path(fault.source_file or "").name == "cute_helpers.py" and fault.source_text == "return tensor[index + 1]"


def test_a_fault_in_a_kernel_within_a_function_is_shown_there(a: Any) -> None:
    fault = fault_of(functions.made_without_predicate(), a, torch.zeros(64))
    assert fault.kind == "out-of-bounds" and fault.source_text == "c[i] = a[i] + 1" and not fault.near


def test_outputs_are_held_to(a: Any, b: Any, c: Any) -> None:
    few = emulator.call(functions.one_block_too_few, a, b, c)
    assert few.arguments[2].written == 32
    fault = fault_of(functions.one_block_too_few, a, b, c, outputs=["c"])
    assert (fault.kind, fault.tensor, fault.element) == ("output-not-written", "c", (32,))
    assert fault_of(functions.add, a, b, c, outputs="b").kind == "never-written"
    assert fault_of(functions.add, a, b, c, outputs=[]).kind == "write-to-input"
    emulator.call(functions.add, a, b, c, outputs=[], inouts=["c"])
    with pytest.raises(NoSuchTensor, match="no tensor `d`"):
        emulator.call(functions.add, a, b, c, outputs=["d"])


def test_memory_that_the_function_makes(a: Any, b: Any) -> None:
    called = emulator.call(functions.twice_the_sum, a, b)
    torch.testing.assert_close(called.result, (a + b) * 2)
    assert type(called.result) is torch.Tensor and called.results[0].written == 50
    assert fault_of(functions.sum_with_nothing, a, False).kind == "never-written"
    assert torch.equal(emulator.call(functions.sum_with_nothing, a, True).result, a)
    fault = fault_of(functions.all_but_the_last, a, b)
    assert (fault.kind, fault.element) == ("output-not-written", (50,))
    assert fault_of(functions.keeps_quiet, a).kind == "never-written"


def test_tensors_that_share_memory() -> None:
    x, before, out = torch.arange(40.0), torch.arange(40.0), torch.zeros(39)
    emulator.call(functions.add, x[1:], x[:-1], out)
    assert torch.equal(out, before[1:] + before[:-1])
    emulator.call(functions.add, x[:20], x[20:], x[:20])
    assert torch.equal(x[:20], before[:20] + before[20:]) and torch.equal(x[20:], before[20:])
    columns = torch.randn(20, 3)
    emulator.call(functions.add, columns[:, 0], columns[:, 1], columns[:, 2])
    assert torch.equal(columns[:, 2], columns[:, 0] + columns[:, 1])


def test_pointers_lie_in_tensors() -> None:
    a, c = torch.randn(64), torch.zeros(64)
    emulator.call(functions.copy_by_pointers, a, c, 64)
    assert torch.equal(a, c)
    assert fault_of(functions.copy_by_pointers, a, c, 65).kind == "out-of-bounds"
    with pytest.raises(CaptureError, match="in none of the tensors"):
        emulator.call(partial(functions.copy_by_pointers, a), c, 64)


def test_an_op_for_gpus(a: Any, b: Any, c: Any) -> None:
    emulator.call(torch.ops.cutegen_tests.add, a, b, c)
    assert torch.equal(c, a + b)


def test_kernels_in_a_backward_pass() -> None:
    with emulator.emulating("sm_80") as emulation:
        x = torch.ones(3, device="cuda", requires_grad=True)
        functions.Doubled.apply(x).backward(torch.arange(3.0, device="cuda"))
    assert x.grad is not None and x.grad.tolist() == [0.0, 2.0, 4.0] and len(emulation.ran) == 2


def test_what_a_function_may_assume_of_a_tensor() -> None:
    """Only with an alignment, and sizes that it divides, four elements are copied at once."""
    a, c = torch.randn(256), torch.zeros(256)
    aligned = partial(emulator.tensor, align=16, divisible={0: 4})
    counts = []
    for pair in ((a, c), (aligned(a), aligned(c))):
        c.zero_()
        counts.append(emulator.call(functions.copy_of_fours, *pair).ran[0].report.instructions)
        assert torch.equal(a, c)
    assert counts[0] - counts[1] == 2 * 3 * 64  # of each thread, a load and a store where there were four of each
    for wrong, says in (
        ({"align": 6}, "6 is not a power of two"),
        ({"align": 8}, "4 bytes behind a multiple of 8"),
        ({"divisible": {0: 4}}, "4 does not divide 255"),
        ({"static": True, "divisible": {0: 5}}, "static says"),
    ):
        with pytest.raises(ValueError, match=says):
            emulator.tensor(a[1:], **wrong)
    with pytest.raises(ValueError, match="the stride of mode 0 is 2"):
        emulator.tensor(a[::2], leading=0)


def test_addresses_are_aligned_as_on_a_gpu(a: Any, c: Any) -> None:
    """The memory of torch starts at multiples of 512 bytes there, and views as far behind as they are."""
    for tensor, behind in ((a, 0), (a[3:], 12)):
        for arguments in ((tensor, tensor, c[: len(tensor)]), (c[: len(tensor)], tensor, tensor)):
            (ran,) = emulator.call(functions.add, *arguments).ran
            address = int.from_bytes(ran.asked.parameters[:8], "little")
            assert address >> 48 == 1, "the first argument is the first one, wherever its memory is"
            assert address % 512 == (behind if arguments[0] is tensor else 0)
    with emulator.emulating():
        made = from_dlpack(torch.zeros(8, device="cuda"), assumed_align=16)
        assert str(made.memspace).endswith("gmem")


def test_what_cannot_be_run(a: Any, b: Any) -> None:
    with pytest.raises(CompileError, match="not_compiling does not compile: TypeError: a is of no use"):
        emulator.call(functions.not_compiling, a)
    with pytest.raises(CaptureError, match="printf in a kernel is not emulated"):
        emulator.call(functions.talking, a)
    with pytest.raises(WrongArguments, match="add: missing a required argument: 'c'"):
        emulator.call(functions.add, a, b)
    for function in (functions.add_kernel, torch.add):
        with pytest.raises(NothingLaunched):
            emulator.call(function, a, b)
    with pytest.raises(CaptureError, match="there is no target sm_70"):
        emulator.call(functions.add, a, b, a, target="sm_70")
    outside = from_dlpack(a)
    with pytest.raises(CaptureError, match="made before the emulation began"):
        emulator.call(functions.add, a, b, outside)


def test_the_gpu_is_gone_afterwards() -> None:
    there = torch.cuda.is_available()
    with emulator.emulating("sm_80"):
        assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (8, 0)
        assert torch.cuda.default_stream().cuda_stream == 0 != torch.cuda.current_stream().cuda_stream
        made = torch.ones(3).cuda()
        assert made.is_cuda and made.cpu().device.type == "cpu" and (made + 1).to("cuda").is_cuda
        assert torch.zeros(2, device=made.device).is_cuda and not torch.zeros(2).is_cuda
        leaf = torch.ones(3, device="cuda", requires_grad=True)
        (leaf * 2).sum().backward()
        assert leaf.grad is not None and leaf.grad.tolist() == [2.0, 2.0, 2.0]
    assert torch.cuda.is_available() == there
