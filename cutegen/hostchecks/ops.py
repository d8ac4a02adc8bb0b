"""The op that torch knows a kernel by: what it gives, and whether it keeps what torch asks of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from cutegen.dtypes import Dtype
from cutegen.hostchecks import op_gradients
from cutegen.hostchecks.judging import Check, Host
from cutegen.hostchecks.op_calls import OpCall, arranged, call, calls, made, overload, taken, wrong_values
from cutegen.hostchecks.opchecks import IN_GRAPHS, opcheck, possible
from cutegen.language.model import Tensor
from cutegen.reference.bounds import evaluate
from cutegen.verification.executor import CannotRun

if TYPE_CHECKING:
    import torch

UTILITIES = ("test_schema", "test_faketensor", IN_GRAPHS)
"""Of `torch.library.opcheck`: that an op writes and aliases what its schema says, works on tensors without data, and
in a graph of dynamic sizes. Those of its gradient are made with that."""


def checks(host: Host) -> Iterator[Check]:
    """That the op of a module, if it has one, gives what its kernel does, and passes what torch checks of ops."""
    if host.spec.torch.op is None or not host.executor.generated:
        return
    op, argument = f"the op {host.spec.torch.op}", host.spec.output.argument
    for what, check in (
        ("its results", _results),
        ("sizes, types and strides of its results without data", _fakes),
        ("its arguments under autocast", _autocast),
    ):
        yield Check(argument, f"{op}: {what}", partial(_known, host, check))
    for utility in possible(UTILITIES, host):
        yield Check(argument, f"{op}: {utility} of torch.library.opcheck", partial(_opcheck, host, utility))
    yield from op_gradients.checks(host)


def _known(host: Host, check: Any) -> str:
    """What a check has against the op, which is known to torch meanwhile."""
    executor = host.executor.for_targets(host.spec.targets[:1])
    with executor.known(host.module, host.spec):
        for one in calls(host):
            try:
                problem = check(host, one)
                executor.synchronize()
            except CannotRun:
                raise
            except Exception as error:
                one.look_at_memory(host, error)
                problem = f"raises {type(error).__name__}: {str(error)[:300]}"
            if problem:
                return f"with {one.what}: {problem}"
    return ""


def _results(host: Host, one: OpCall) -> str:
    """What is wrong with what the op returns, and with what it leaves in its arguments."""
    spec, given = host.spec, one.fresh()
    before = {name: x.clone() for name, x in given.items()}
    expected = evaluate(spec, {**one.values, **given}, one.scalars)
    results = call(overload(host), spec, given, one.scalars)
    for tensor in made(spec):
        found = results[tensor.name]
        if problem := _unlike(tensor, found, given):
            return f"{tensor.argument} {problem}"
    if problem := wrong_values(expected, results):
        return problem
    if problem := wrong_values(expected, {t.name: given[t.name] for t in taken(spec) if t.writes}):
        return f"of the arguments that it writes, {problem}"
    for tensor in (t for t in taken(spec) if not t.writes):
        if not _same(given[tensor.name], before[tensor.name]):
            return f"{tensor.argument}, was changed by the call, though it is only read"
    return ""


def _unlike(tensor: Tensor, found: torch.Tensor, given: Mapping[str, torch.Tensor]) -> str:
    """What is wrong with a tensor that the op returns, whatever it holds."""
    if str(found.dtype) != f"torch.{tensor.dtype.torch}":
        return f"is {found.dtype}"
    shared = {x.untyped_storage().data_ptr() for x in given.values() if x.numel()}
    return "shares the memory of an argument" if found.untyped_storage().data_ptr() in shared else ""


def _fakes(host: Host, one: OpCall) -> str:
    """How what torch is told of results differs from these: sizes, types, strides."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    given = one.fresh()
    with FakeTensorMode() as mode:
        told = call(overload(host), host.spec, {name: mode.from_tensor(x) for name, x in given.items()}, one.scalars)
    for name, found in call(overload(host), host.spec, given, one.scalars).items():
        fake = told[name]
        for what, a, b in (
            ("sizes", list(fake.shape), list(found.shape)),
            ("strides", list(fake.stride()), list(found.stride())),
            ("type", fake.dtype, found.dtype),
            ("place", fake.device.type, found.device.type),
        ):
            if a != b:
                return f"{host.spec.tensor(name).argument} is to have the {what} {a}, and has {b}"
    return ""


def _autocast(host: Host, one: OpCall) -> str:
    """What is wrong with a call under autocast: what is read comes in another type of float, and is cast."""
    import torch

    op, spec = overload(host), host.spec
    cast = [t for t in taken(spec) if t.dtype.is_float and not t.writes]
    if not cast or not one.compact:  # what torch casts has no gaps between its rows
        return ""
    given, direct = one.fresh(), one.fresh()
    for tensor in cast:
        own = getattr(torch, tensor.dtype.torch)
        other = torch.bfloat16 if tensor.dtype is Dtype.f32 else torch.float32
        x = given[tensor.name]
        given[tensor.name] = torch.empty_strided(x.shape, x.stride(), dtype=other, device=x.device).copy_(x)
        direct[tensor.name] = torch.empty_strided(x.shape, x.stride(), dtype=own, device=x.device)
        direct[tensor.name].copy_(given[tensor.name])
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
    for x in given.values():
        keys = keys | torch._C._dispatch_keys(x)
    results = call(partial(op.redispatch, keys), spec, given, one.scalars)
    for name, wanted in call(op, spec, direct, one.scalars).items():
        if results[name].dtype != wanted.dtype or not _same(results[name], wanted):
            return f"{spec.tensor(name).argument} differs from that of arguments which are cast before"
    for tensor in (t for t in taken(spec) if t.writes):
        if not _same(given[tensor.name], direct[tensor.name]):
            return f"{tensor.argument}, which is written, differs from that of arguments which are cast before"
    return ""


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    import torch

    a, b = (x.detach().flatten().view(torch.uint8) for x in (a, b))
    return torch.equal(a, b)


def _opcheck(host: Host, utility: str) -> str:
    """What torch says against the op."""
    *_, one = calls(host)
    with host.executor.for_targets(host.spec.targets[:1]).known(host.module, host.spec):
        return opcheck(overload(host), *arranged(host.spec, one.fresh(), one.scalars), utility)
