"""Measuring for real. Needs a GPU. `pytest -s tests/test_measuring_gpu.py` prints what was found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from measuring_kit import elementwise, gemm

from cutegen.codegen import Module
from cutegen.measuring import KernelResult, Request, Session
from cutegen.peers.peers import choose
from cutegen.verification import gpu_missing

pytestmark = pytest.mark.skipif(gpu_missing() is not None, reason=f"no GPU: {gpu_missing()}")
LARGE = {"M": 8192, "N": 8192}
CUBE = {"M": 2048, "N": 2048, "K": 2048}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as opened:
        yield opened


def request(tmp_path: Path, module: Module, shape: dict[str, int], **more: object) -> Request:
    path = tmp_path / f"{module.spec.kernel}.py"
    path.write_text(module.text)
    return replace(Request(module.plan, path, "0" * 64, (shape,)), **more)


def show(result: KernelResult) -> None:
    print(json.dumps(result.as_json(), indent=1))


KERNELS: dict[str, tuple[Callable[[], Module], dict[str, int]]] = {
    "copy": (lambda: elementwise("D = A"), LARGE),
    "add": (lambda: elementwise("D = A + B"), LARGE),
    "expression": (lambda: elementwise("D = gelu(alpha * A) + minimum(B, 0.5)", "scalars: {alpha: f32}\n"), LARGE),
    "gemm": (gemm, CUBE),
    "scaled gemm": (
        lambda: gemm("C = alpha * (A @ B.T) + beta * C", "scalars: {alpha: f32, beta: f32}\n", "inout"),
        CUBE,
    ),
    "gemm and epilogue": (lambda: gemm("C = relu(A @ B.T)"), CUBE),
}


@pytest.mark.parametrize(("made", "shape"), KERNELS.values(), ids=KERNELS)
def test_kernels_and_all_their_peers_are_measured(
    session: Session, tmp_path: Path, made: Callable[[], Module], shape: dict[str, int]
) -> None:
    module = made()
    result = session.measure(request(tmp_path, module, shape))
    show(result)
    assert not result.failures
    (found,) = result.measured
    wanted = {peer.name for peer in choose(module.spec)}
    assert set(found.peers) | {"torch.compile"} >= wanted, found.absent  # its compiler may not be there
    assert set(found.peers) | set(found.absent) == wanted
    assert found.l2 == "cold" and found.ratio is not None and found.ratio <= 1
    assert found.of_limit is not None and 0.05 < found.of_limit < 1.1
    assert set(result.host) == {"call", "compiled", "torch.add"}
    assert all(0.5 < timing.us < 100 for timing in result.host.values())


def test_the_limits_are_below_the_datasheet_and_not_far(session: Session, tmp_path: Path) -> None:
    from cutegen.atoms.gpus import CUDA_F32, GPUS
    from cutegen.measuring.machine import ARCHITECTURES

    session.measure(request(tmp_path, elementwise("D = A"), {"M": 64, "N": 64}, peers=False, host=False))
    machine = session.machine
    assert machine is not None and machine.limits is not None
    print(json.dumps(machine.as_json(), indent=1))
    assert machine.driver and machine.l2_bytes > 1 << 20
    limits, gpu = machine.limits, GPUS[ARCHITECTURES[machine.capability]]
    assert limits.fma is not None
    if gpu.name.split()[0] in machine.gpu:
        assert 0.6 * gpu.bandwidth < limits.copy * 1e9 < gpu.bandwidth
        assert 0.6 * gpu.flops[CUDA_F32] < limits.fma * 1e12 < 1.05 * gpu.flops[CUDA_F32]


def test_a_warm_l2_is_faster(session: Session, tmp_path: Path) -> None:
    """Data that fit the L2 come from memory if it is cold."""
    session.measure(request(tmp_path, elementwise("D = A"), {"M": 64, "N": 64}, peers=False, host=False))
    assert session.machine is not None
    rows = session.machine.l2_bytes // 4 // (2 * 1024 * 4)  # input and output are a quarter of it
    asked = request(tmp_path, elementwise("D = A"), {"M": rows, "N": 1024}, peers=False, host=False)
    cold, warm = (session.measure(replace(asked, l2=l2)).measured[0] for l2 in ("cold", "warm"))
    print(f"cold {cold.timing.us:.2f} us, warm {warm.timing.us:.2f} us")
    assert (cold.l2, warm.l2) == ("cold", "warm")
    assert warm.timing.us < cold.timing.us


def test_it_is_repeatable(session: Session, tmp_path: Path) -> None:
    asked = request(tmp_path, elementwise("D = A"), LARGE, host=False)
    first, second = (session.measure(asked).measured[0] for _ in range(2))
    assert first.timing.us == pytest.approx(second.timing.us, rel=0.05)


def test_a_wrong_kernel_is_found(session: Session, tmp_path: Path) -> None:
    module = elementwise("D = A")
    asked = request(tmp_path, elementwise("D = A + A"), LARGE, host=False)
    result = session.measure(replace(asked, plan=module.plan))
    assert [f.kind for f in result.failures] == ["wrong"] and not result.measured


def test_a_kernel_that_loses_the_device_ends_alone(session: Session, tmp_path: Path) -> None:
    asked = request(tmp_path, elementwise("D = A"), {"M": 512, "N": 512}, peers=False, host=False)
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import torch\ndef work(a, d):\n"
        "    d.copy_(a)\n"
        "    torch.ones(4, device='cuda')[torch.full((8,), 1 << 40, device='cuda')]\n"
    )
    result = session.measure(replace(asked, module=bad))
    assert result.failures and not result.measured
    assert session.measure(asked).ok


def test_a_function_of_the_user_is_a_peer(session: Session, tmp_path: Path) -> None:
    mine, away = tmp_path / "mine.py", tmp_path / "away.py"
    mine.write_text("def copy(a, d):\n    d.copy_(a)\n")
    away.write_text("import torch\ndef copy(a, d):\n    torch.cuda.synchronize()\n    d.copy_(a)\n")
    places = (f"{mine}:copy", f"{away}:copy")
    result = session.measure(request(tmp_path, elementwise("D = A"), LARGE, peers=False, host=False, vs=places))
    show(result)
    (found,) = result.measured
    assert set(found.peers) == {places[0]} and set(found.absent) == {places[1]}, "a graph holds no synchronisation"
    assert session.measure(request(tmp_path, elementwise("D = A"), LARGE, peers=False, host=False)).ok
