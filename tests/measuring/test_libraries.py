"""Kernels of quack and Liger run beside those that compute the same, if they are there and right. Here both are
stand-ins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from measuring_kit import FakeWatch, made, module_of, steady

from cutegen.codegen import Module, generate
from cutegen.measuring import contenders, machine, worker
from cutegen.measuring.arguments import make_arguments
from cutegen.measuring.libraries import PACKAGES, library_peers, unsettled
from cutegen.measuring.measure import Bench, Reference, measure_shape
from cutegen.measuring.model import Failure, Measured, Request
from cutegen.measuring.peers import choose
from cutegen.reference.bounds import evaluate
from cutegen.workers import Last

torch = pytest.importorskip("torch")
from libraries_kit import install, remove, softmax_fwd  # noqa: E402  (they need torch)

SPECS = Path(__file__).parents[2] / "specs"
BOTH = ["quack", "Liger"]
KERNELS = {
    "softmax": BOTH,
    "softmax_bwd": BOTH,
    "rms_norm": BOTH,
    "rms_norm_bwd": BOTH,
    "add_rms_norm": BOTH,
    "add_rms_norm_bwd": BOTH,
    "layer_norm": BOTH,
    "layer_norm_bwd": BOTH,
    "rope": ["quack"],
    "rope_bwd": ["quack"],
    "swiglu": ["Liger"],
    "geglu": ["Liger"],
}
SHAPE = {"M": 8, "N": 16}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """torch's threads wait for each other in a busy loop, far longer than these tensors take."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in PACKAGES:
        install(monkeypatch, package)


def of_ours(name: str, without: str = "") -> Module:
    """A spec of the repository, for rows that are short enough for a CPU, and with weights of f32, as quack wants them
    for layer_norm."""
    text = (SPECS / f"{name}.yaml").read_text().replace("static: {N: 4096}", "static: {N: 16}").replace(without, "")
    return generate(text.replace("[N], dtype: bf16", "[N], dtype: f32"), f"specs/{name}.yaml").modules[0]


def softmax(dtype: str = "bf16", out: str = "") -> Module:
    """A softmax of a user's, with no name of ours."""
    tensors = f"  p: {{shape: [M, N], dtype: {dtype}}}\n  q: {{shape: [M, N], dtype: {out or dtype}, role: out}}\n"
    compute = "compute:\n  - e = exp(p - max(p, N))\n  - q = e / sum(e, N)\ntargets: [sm_90a]\n"
    return made(f"cutegen: 1\nkernel: work\nop: rowwise\ntensors:\n{tensors}{compute}")


def ours(p: torch.Tensor, q: torch.Tensor) -> None:
    q.copy_(p.float().softmax(-1))


def measured(module: Module, function: Callable[..., object] = ours, **more: Any) -> tuple[Measured, list[Failure]]:
    watch = FakeWatch(steady())
    request = Request(module.plan, Path("work.py"), "0" * 64, (SHAPE,), rounds=8, **more)
    here = Bench(watch, "cpu", 1 << 12, None)
    return measure_shape(request, module_of(function), SHAPE, here, lambda kind, data: None)


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's code generator takes a minute on a CPU."""
    monkeypatch.setattr("torch.compile", lambda function, **options: function)


@pytest.mark.parametrize("sets", [1, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_every_library_computes_what_the_spec_says(name: str, sets: int, installed: None) -> None:
    """Against the float64 reference, on every set, without touching what it is given."""
    module = of_ours(name)
    spec = module.spec
    arguments = make_arguments(spec, dict(zip(spec.modes, (8, 16, 8), strict=False)) | dict(spec.static), sets, "cpu")
    before = [[x.clone() for x in tensors] for tensors in arguments.sets]
    reference = Reference(evaluate(spec, arguments.named(0), arguments.scalars)).for_library(spec)
    peers = library_peers(spec)
    assert [peer.name for peer in peers] == KERNELS[name]
    for peer in peers:
        (candidate,) = contenders.peer(peer, module.plan, arguments)
        for number, call in enumerate(candidate.contender.calls):
            call()
            results = candidate.results[number]
            assert results is not None
            found = reference.judge(results)
            assert found.ok and found.judged, f"{peer.name}: {found.reason}"
    for tensors, kept in zip(arguments.sets, before, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(tensors, kept, strict=True))


def test_they_come_after_those_of_torch() -> None:
    assert [peer.name for peer in choose(softmax().spec)] == ["torch.compile", "torch eager", *BOTH]


def test_a_softmax_under_another_name_is_timed_beside_them(installed: None) -> None:
    found, failures = measured(softmax())
    assert list(found.peers) == ["torch.compile", "torch eager", *BOTH]
    assert not failures and not found.absent


@pytest.mark.parametrize("package", PACKAGES)
def test_a_library_that_is_missing_is_named_and_left_out(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for each in PACKAGES:
        (remove if each == package else install)(monkeypatch, each)
    name = {"quack": "quack", "liger_kernel": "Liger"}[package]
    found, failures = measured(softmax())
    assert not failures and name not in found.peers and len(found.peers) == 3
    assert found.absent == {name: f"not available: ModuleNotFoundError: {PACKAGES[package]} is not installed"}


def test_one_that_is_of_another_version_is_named_and_left_out(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its function has another name, or takes something else."""
    monkeypatch.delattr(sys.modules["quack.softmax"], "softmax_fwd")
    monkeypatch.setattr(sys.modules["liger_kernel.ops.softmax"], "LigerSoftmaxFunction", type("F", (), {"apply": int}))
    found, failures = measured(softmax())
    assert not failures and list(found.peers) == ["torch.compile", "torch eager"]
    assert "has no attribute 'softmax_fwd'" in found.absent["quack"]
    assert found.absent["Liger"].startswith("not available: ")


def test_one_that_gives_something_else_differs_and_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "quack", softmax_fwd=lambda x: softmax_fwd(x * 1.1))
    install(monkeypatch, "liger_kernel")
    found, failures = measured(softmax())
    assert not failures and "quack" not in found.peers and "Liger" in found.peers
    assert found.absent["quack"].startswith("differs from the kernel: [")


def test_one_that_goes_wrong_while_it_is_timed_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def tiring(x: torch.Tensor) -> torch.Tensor:
        return softmax_fwd(x) * (1 if calls.count < 100 else 2)

    calls = install(monkeypatch, "quack", softmax_fwd=tiring)
    install(monkeypatch, "liger_kernel")
    found, failures = measured(softmax())
    assert not failures and "quack" not in found.peers
    assert found.absent["quack"].startswith("differs from the kernel after it was timed: ")


def test_one_that_rounds_before_the_end_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of ours must not, nor a function of the user's: their bound knows the spec's roundings alone."""

    def rough(x: torch.Tensor) -> torch.Tensor:
        e = (x - x.max(-1, keepdim=True).values).exp()
        return e * (1 / e.sum(-1, keepdim=True))

    install(monkeypatch, "quack", softmax_fwd=rough)
    install(monkeypatch, "liger_kernel")
    found, _ = measured(softmax())
    assert "quack" in found.peers
    spec = softmax().spec
    tensors = make_arguments(spec, SHAPE, 1, "cpu").named(0)
    reference, results = Reference(evaluate(spec, tensors, {})), (rough(tensors["p"]),)
    assert not reference.judge(results).ok and reference.for_library(spec).judge(results).ok


def test_in_f32_it_may_differ_by_less(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "quack", softmax_fwd=lambda x: softmax_fwd(x.bfloat16().float()))
    install(monkeypatch, "liger_kernel")
    found, _ = measured(softmax("f32"))
    assert found.absent["quack"].startswith("differs") and "Liger" in found.peers


def test_one_that_writes_fewer_bytes_is_no_peer(installed: None) -> None:
    found, failures = measured(softmax("bf16", "f32"))
    assert not failures and list(found.peers) == ["torch.compile", "torch eager"]
    assert found.absent == dict.fromkeys(
        BOTH, "not available: TypeError: it gives torch.bfloat16, and the kernel torch.float32"
    )


def test_without_peers_nothing_is_asked_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [install(monkeypatch, package) for package in PACKAGES]
    found, _ = measured(softmax(), peers=False)
    assert not found.peers and not found.absent and not any(each.count for each in calls)


def test_only_what_is_wanted_is_stored(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["quack.rmsnorm"]
    asked: list[bool] = []
    function = module.rmsnorm_fwd
    monkeypatch.setattr(
        module, "rmsnorm_fwd", lambda *x, **more: asked.append(more["store_rstd"]) or function(*x, **more)
    )
    for without in ("", "  rstd: {shape: [M], dtype: f32, role: out}\n"):
        norm = of_ours("rms_norm", without)
        (candidate,) = contenders.peer(
            library_peers(norm.spec)[0], norm.plan, make_arguments(norm.spec, SHAPE, 1, "cpu")
        )
        candidate.contender.calls[0]()
    assert asked == [True, False]


def test_a_process_with_a_changed_cutedsl_takes_no_other_job(monkeypatch: pytest.MonkeyPatch) -> None:
    class Quiet:
        watch = type("Watch", (), {"torn": False})()

        def __init__(self, tell: object) -> None:
            pass

        def start(self) -> None:
            pass

        def run(self, job: object) -> None:
            pass

    monkeypatch.setattr(worker, "Worker", Quiet)
    run = worker.start(lambda kind, data: None)
    remove(monkeypatch, "quack")
    assert not unsettled() and run(None) is None  # type: ignore[arg-type]
    install(monkeypatch, "quack")
    assert unsettled() and run(None) == Last(None)  # type: ignore[arg-type]


def test_figures_are_of_the_versions_of_libraries_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a receipt's figures beside one version are not taken for those beside another."""
    monkeypatch.setattr("importlib.metadata.version", lambda package: f"of {package}")
    versions = machine._versions("13.0")
    assert [versions[package] for package in PACKAGES.values()] == ["of quack-kernels", "of liger-kernel"]
