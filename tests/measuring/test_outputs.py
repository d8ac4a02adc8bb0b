"""A kernel with several outputs: all of them are held to the reference, whoever computed them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from measuring_kit import FakeWatch, called, module_of, steady
from verification_fakes import ADD_TILE, HandPlan, both_spec, plan_of

from cutegen.codegen.reference import Reference
from cutegen.measuring import contenders
from cutegen.measuring.arguments import Arguments, make_arguments
from cutegen.measuring.measure import Bench, Refused, measure_shape
from cutegen.measuring.model import Failure, Measured, Request
from cutegen.ops.elementwise import Elementwise
from cutegen.peers.peers import EAGER, choose
from cutegen.reference.bounds import evaluate
from cutegen.verification.compare import compare

torch = pytest.importorskip("torch")
SHAPE = {"M": 6, "N": 8}
LINES = (
    "device = d.device",
    "b = b[None, :]",
    "t = x + b",
    "coord_n = torch.arange(d.shape[1], dtype=torch.int32, device=device)",
    "first = t * torch.tensor(2.0, device=device)",
    "second = (t > first).to(torch.int32) + coord_n",
)


@pytest.fixture(autouse=True)
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Those of a module's `reference`."""
    monkeypatch.setattr(Elementwise, "reference", lambda op, plan: Reference(LINES, ("first", "second")))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def plan() -> HandPlan:
    return plan_of(replace(both_spec(), targets=("sm_90a",)), ADD_TILE)


def results(x, b):  # type: ignore[no-untyped-def]
    t = x + b
    return 2 * t, (t > 2 * t).int() + torch.arange(t.shape[1], dtype=torch.int32)


def right(x, b, d, e):  # type: ignore[no-untyped-def]
    first, second = results(x, b)
    return d.copy_(first), e.copy_(second)


def second_wrong(x, b, d, e):  # type: ignore[no-untyped-def]
    first, second = results(x, b)
    return d.copy_(first), e.copy_(second + 1)


def second_left_out(x, b, d, e):  # type: ignore[no-untyped-def]
    d.copy_(results(x, b)[0])


def fresh(x, b, d, e):  # type: ignore[no-untyped-def]
    return results(x, b)


def alone(x, b, d, e):  # type: ignore[no-untyped-def]
    return results(x, b)[0]


def numbers(x, b, d, e):  # type: ignore[no-untyped-def]
    return results(x, b)[0], 1


def measured(kernel: Callable[..., object], *vs: Callable[..., object]) -> tuple[Measured, list[Failure]]:
    names = {f"mine:{function.__name__}": function for function in vs}
    request = Request(plan(), Path("both.py"), "0" * 64, (SHAPE,), rounds=5, peers=False, vs=tuple(names))
    bench = Bench(FakeWatch(steady()), "cpu", 1 << 10, None, names.__getitem__)
    return measure_shape(request, module_of(kernel, "both"), SHAPE, bench, lambda kind, data: None)


def test_bytes_of_all_outputs_count() -> None:
    found, failures = measured(right)
    elements = SHAPE["M"] * SHAPE["N"]
    assert failures == [] and found.bytes == 4 * (3 * elements + SHAPE["N"])
    assert found.error is not None and found.ratio is not None and found.ratio <= 1


@pytest.mark.parametrize("kernel", [second_wrong, second_left_out])
def test_a_kernel_that_is_wrong_in_one_output_has_no_figure(kernel: Callable[..., object]) -> None:
    with pytest.raises(Refused, match=r"the result is wrong: E\[.*\] is ") as refused:
        measured(kernel)
    assert refused.value.kind == "wrong"


def test_functions_of_the_user_write_the_outputs_or_return_a_tuple() -> None:
    found, failures = measured(right, fresh, second_wrong, alone, numbers)
    assert list(found.peers) == ["mine:fresh"]
    assert {failure.what.removeprefix("mine:"): failure.message for failure in failures} == {
        "second_wrong": found.absent["mine:second_wrong"],
        "alone": "mine:alone gave 1 of 2 results",
        "numbers": "mine:numbers gave int, not a tensor",
    }
    assert "E[" in found.absent["mine:second_wrong"]


def judged(arguments: Arguments, found: tuple[torch.Tensor, ...]) -> None:
    expected = evaluate(arguments.spec, arguments.named(0), arguments.scalars)
    for result, (name, wanted) in zip(found, expected.items(), strict=True):
        comparison = compare(result, *wanted)
        assert comparison.ok and comparison.count == 48, f"{name}{comparison.reason}"


def test_its_peers_are_torch_compiled_and_eager() -> None:
    assert [peer.name for peer in choose(plan().spec)] == ["torch.compile", "torch eager"]


def test_eager_torch_computes_all_outputs() -> None:
    arguments = make_arguments(plan().spec, SHAPE, 2, "cpu")
    (candidate,) = contenders.peer(EAGER, plan(), arguments)
    for call in candidate.contender.calls:
        call()
    for number, found in enumerate(candidate.results):
        assert found is not None and not {x.data_ptr() for x in found} & {x.data_ptr() for x in arguments.sets[number]}
        judged(arguments, found)


def test_what_is_compiled_writes_all_outputs() -> None:
    arguments = make_arguments(plan().spec, SHAPE, 1, "cpu")
    arguments.poison()
    outputs = tuple(arguments.sets[0][place] for place in arguments.outputs)
    found = called(contenders.expression(plan(), inplace=True), arguments)
    assert isinstance(found, tuple) and all(x is y for x, y in zip(found, outputs, strict=True))
    judged(arguments, outputs)


def test_an_eager_result_is_no_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    """Returning what already exists would take no time."""
    made = Reference(("second = x.to(torch.int32)",), ("x", "second"))
    monkeypatch.setattr(Elementwise, "reference", lambda op, plan: made)
    arguments = make_arguments(plan().spec, SHAPE, 1, "cpu")
    first, second = called(contenders.expression(plan(), inplace=False), arguments)
    assert first is not arguments.sets[0][0] and torch.equal(first, arguments.sets[0][0])
    assert second.dtype is torch.int32
