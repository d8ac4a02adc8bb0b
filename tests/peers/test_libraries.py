"""Kernels of quack and Liger run beside those that compute the same, if they are there and right. Here both are
stand-ins.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measuring_kit import FakeWatch, elementwise, made, module_of, steady

from cutegen.codegen import Module, generate
from cutegen.measuring import contenders, machine, worker
from cutegen.measuring.arguments import make_arguments
from cutegen.measuring.measure import Bench, Reference, measure_shape
from cutegen.measuring.model import Failure, Measured, Request
from cutegen.measuring.worker import Job
from cutegen.peers import libraries
from cutegen.peers.given import PACKAGES
from cutegen.peers.libraries import MOST_COPIES, library_peers, unsettled
from cutegen.peers.peers import choose
from cutegen.reference.bounds import evaluate
from cutegen.workers import Last

torch = pytest.importorskip("torch")
from libraries_kit import install, remove  # noqa: E402  (they need torch)
from liger_kit import Launched  # noqa: E402
from quack_kit import softmax_fwd  # noqa: E402

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
    "cross_entropy": ["Liger"],
    "cross_entropy_vocabulary": BOTH,
    "kl_div": ["Liger"],
    "jsd": ["Liger"],
    "rope": BOTH,
    "rope_bwd": BOTH,
    "swiglu": ["Liger"],
    "swiglu_bwd": ["Liger"],
    "geglu": ["Liger"],
    "geglu_bwd": ["Liger"],
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


def of_ours(name: str, *changes: tuple[str, str]) -> Module:
    """A spec of the repository, for rows that are short enough for a CPU, and with weights of f32, as quack wants them
    for layer_norm; then with other texts in the place of some that it has."""
    text = (SPECS / f"{name}.yaml").read_text().replace("smoothing / 4096", "smoothing / 16")
    text = re.sub(r"static: {N: \d+}", "static: {N: 16}", text).replace("[N], dtype: bf16", "[N], dtype: f32")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return generate(text, f"specs/{name}.yaml").modules[0]


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
    reference = Reference(evaluate(spec, arguments.named(0), arguments.scalars)).for_peer(spec)
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
    assert not reference.judge(results).ok and reference.for_peer(spec).judge(results).ok


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
    for without in ((), [("  rstd: {shape: [M], dtype: f32, role: out}\n", "")]):
        norm = of_ours("rms_norm", *without)
        (candidate,) = contenders.peer(
            library_peers(norm.spec)[0], norm.plan, make_arguments(norm.spec, SHAPE, 1, "cpu")
        )
        candidate.contender.calls[0]()
    assert asked == [True, False]


OVERWRITING = ["cross_entropy", "cross_entropy_vocabulary", "rope", "swiglu_bwd", "geglu_bwd"]


@pytest.mark.parametrize("name", OVERWRITING)
def test_one_that_overwrites_what_it_reads_has_a_copy_for_each_call_that_is_timed(name: str, installed: None) -> None:
    """It is measured on what the kernel is measured on: each replay makes all copies anew, and uses each once."""
    module = of_ours(name)
    spec = module.spec
    sizes = dict(zip(spec.modes, (8, 16, 8), strict=False)) | dict(spec.static)
    arguments = make_arguments(spec, sizes, 3, "cpu")
    (candidate,) = contenders.peer(library_peers(spec)[-1], module.plan, arguments)
    calls = candidate.contender.calls
    assert candidate.contender.once and len(calls) % 3 == 0 and 3 < len(calls) <= MOST_COPIES
    reference = Reference(evaluate(spec, arguments.named(0), arguments.scalars)).for_peer(spec)
    for restore in (candidate.contender.reset, candidate.poison):
        restore()
        for call in calls:
            call()
        for results in candidate.results:
            assert results is not None and reference.judge(results).ok
    calls[0]()
    assert candidate.results[0] is not None and not reference.judge(candidate.results[0]).ok


def test_copies_take_no_more_memory_than_is_worth_a_recording(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    module = of_ours("swiglu_bwd")
    arguments = make_arguments(module.spec, SHAPE, 1, "cpu")
    size = 2 * 8 * 16 * 2  # of two operands of 8 x 16, in bf16
    for bytes_of_copies, count in [(size * 5, 5), (size * 5 - 1, 4), (1, 1)]:
        monkeypatch.setattr(libraries, "COPIED_BYTES", bytes_of_copies)
        (candidate,) = contenders.peer(library_peers(module.spec)[0], module.plan, arguments)
        assert len(candidate.contender.calls) == count


@pytest.mark.parametrize(("heads", "queries", "keys"), [(40, 32, 8), (32, 16, 16), (2, 1, 1)])
def test_the_heads_of_a_token_are_queries_and_keys_that_fill_their_blocks(
    heads: int, queries: int, keys: int, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = of_ours("rope")
    arguments = make_arguments(module.spec, {"T": 2, "H": heads, "D": 8}, 1, "cpu")
    seen: list[tuple[int, ...]] = []
    kernel = Launched(lambda grid, *x, **more: seen.append(x[11:13]))
    monkeypatch.setattr(sys.modules["liger_kernel.ops.rope"], "_triton_rope", kernel)
    (candidate,) = contenders.peer(library_peers(module.spec)[1], module.plan, arguments)
    candidate.contender.calls[0]()
    assert seen == [(queries, keys)]


def test_what_is_copied_before_each_call_is_not_measured_warm(installed: None) -> None:
    """As other contenders find their arguments in the L2, and it would not."""
    module = of_ours("swiglu_bwd")
    arguments = make_arguments(module.spec, SHAPE, 1, "cpu", l2="warm")
    with pytest.raises(ValueError, match="overwrites what it reads"):
        next(contenders.peer(library_peers(module.spec)[0], module.plan, arguments))


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("layer_norm", [("[N], dtype: f32", "[N], dtype: bf16")], "a bias in f32, and here they are torch.bfloat16"),
        ("cross_entropy_vocabulary", [("scale: f32, ", ""), ("0, scale)", "0, 0.5)")], "is multiplied by 0.5"),
        ("kl_div", [("scalars: {scale: f32}", ""), ("* scale", "* 0.5")], "is multiplied by 0.5"),
    ],
)
def test_what_a_library_has_no_function_for_is_said(
    name: str, changes: list[tuple[str, str]], reason: str, installed: None
) -> None:
    module = of_ours(name, *changes)
    arguments = make_arguments(module.spec, SHAPE, 1, "cpu")
    with pytest.raises((TypeError, ValueError), match=reason):
        next(contenders.peer(library_peers(module.spec)[0], module.plan, arguments))


def test_what_arguments_mean_is_what_they_are_measured_with() -> None:
    """Targets are columns, probabilities those of a distribution, and gradients are without a factor."""
    spec = of_ours("cross_entropy").spec
    arguments = make_arguments(spec, {"M": 4096, "N": 16}, 2, "cpu")
    for number in range(2):
        assert arguments.named(number)["target"].unique().tolist() == list(range(16))
    assert arguments.scalars["scale"] == 1 and 0 < arguments.scalars["smoothing"] < 1
    named = make_arguments(of_ours("kl_div").spec, SHAPE, 1, "cpu").named(0)
    assert all(row.float().sum().item() == pytest.approx(1, rel=0.02) for row in (*named["P"], *named["L"].exp()))
    assert make_arguments(softmax().spec, SHAPE, 1, "cpu").named(0)["p"].min() < -1


def test_a_process_with_a_changed_cutedsl_takes_no_job_of_another_module(monkeypatch: pytest.MonkeyPatch) -> None:
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
    request = Request(elementwise("D = A").plan, Path("a.py"), "ab", ({"M": 4, "N": 4},))
    alone, followed = Job(request, None), Job(replace(request, coming=request.shapes), None)
    assert not unsettled() and run(alone) is None
    install(monkeypatch, "quack")
    assert unsettled() and run(alone) == Last(None)
    assert run(followed) is None  # its kernels are compiled, and so are those of the next jobs


def test_figures_are_of_the_versions_of_libraries_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a receipt's figures beside one version are not taken for those beside another."""
    monkeypatch.setattr("importlib.metadata.version", lambda package: f"of {package}")
    versions = machine._versions("13.0")
    assert [versions[package] for package in PACKAGES.values()] == ["of quack-kernels", "of liger-kernel"]
