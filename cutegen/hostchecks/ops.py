"""The op that torch knows a kernel by: what it gives, and whether it keeps what torch asks of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from cutegen.codegen.views import constants_of
from cutegen.dtypes import Dtype
from cutegen.hostchecks import op_gradients
from cutegen.hostchecks.judging import Check, Host, same_bits
from cutegen.hostchecks.op_calls import OpCall, arranged, call, calls, edges, made, overload, taken, wrong_values
from cutegen.hostchecks.opchecks import IN_GRAPHS, opcheck, possible
from cutegen.hostchecks.strides import turned
from cutegen.hostchecks.wrong_tensors import OTHER_DTYPE
from cutegen.language.model import Tensor
from cutegen.reference.bounds import evaluate
from cutegen.reference.packed import of_arguments
from cutegen.reference.taking import index_of
from cutegen.verification.executor import CannotRun

if TYPE_CHECKING:
    import torch

UTILITIES = ("test_schema", "test_faketensor", IN_GRAPHS)
"""Of `torch.library.opcheck`: that an op writes and aliases what its schema says, works on tensors without data, and
in a graph of dynamic sizes. Those of its gradient are made with that."""

NUMBERS = {True: "Float", False: "SymInt"}
"""The types of numbers in schemas, by whether they are floats: whole ones may be sizes of a graph."""


def checks(host: Host) -> Iterator[Check]:
    """That the op of a module, if it has one, gives what its kernel does, and passes what torch checks of ops."""
    if host.spec.torch.op is None or not host.executor.generated:
        return
    op, argument = f"the op {host.spec.torch.op}", host.spec.output.argument
    for what, check in (
        ("its results", _results),
        ("sizes, types and strides of its results without data", _fakes),
        ("its arguments under autocast", _autocast),
        ("arguments that its kernel does not take", _refused),
    ):
        yield Check(argument, f"{op}: {what}", partial(_known, host, check))
    yield Check(argument, f"{op}: its schema", partial(_declared, host))
    for utility in possible(UTILITIES, host):
        yield Check(argument, f"{op}: {utility} of torch.library.opcheck", partial(_opcheck, host, utility))
    yield from op_gradients.checks(host)


def _known(host: Host, check: Any) -> str:
    """Runs a check on calls of the op while torch knows it; returns the first problem, empty if there is none."""
    executor = host.executor.for_targets(host.spec.targets[:1])
    with executor.known(host.module, host.spec):
        for one in chain(calls(host), edges(host)):
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
    """Checks the results of the op, and the contents of its arguments after the call."""
    spec, given = host.spec, one.fresh()
    before = {name: x.clone() for name, x in given.items()}
    expected = evaluate(spec, {**one.values, **given}, one.scalars)
    expected = of_arguments(spec, expected, {**one.values, **given})
    results = call(overload(host), spec, given, one.scalars)
    for tensor in made(spec):
        found = results[tensor.name]
        if problem := _unlike(tensor, found, given):
            return f"{tensor.argument} {problem}"
    if problem := wrong_values(expected, results):
        return problem
    written = {t: index_of(t, before) or (...,) for t in taken(spec) if t.writes}
    if problem := wrong_values(expected, {t.name: given[t.name][index] for t, index in written.items()}):
        return f"of the arguments that it writes, {problem}"
    for tensor in (t for t in written if t.at):
        before[tensor.name][written[tensor]] = given[tensor.name][written[tensor]]
        if not same_bits(given[tensor.name], before[tensor.name]):
            return f"{tensor.argument}: the call changed elements that are not at its places"
    for tensor in (t for t in taken(spec) if not t.writes):
        if not same_bits(given[tensor.name], before[tensor.name]):
            return f"{tensor.argument}, was changed by the call, though it is only read"
    return ""


def _unlike(tensor: Tensor, found: torch.Tensor, given: Mapping[str, torch.Tensor]) -> str:
    """Checks the type and the memory of a tensor that the op returns, independent of its values."""
    if str(found.dtype) != f"torch.{tensor.dtype.torch}":
        return f"is {found.dtype}"
    shared = {x.untyped_storage().data_ptr() for x in given.values() if x.numel()}
    return "shares the memory of an argument" if found.untyped_storage().data_ptr() in shared else ""


def _fakes(host: Host, one: OpCall) -> str:
    """Differences between the fake results for torch and the real ones: sizes, types, strides."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    given = one.fresh()
    others = dict(given)
    for tensor in taken(host.spec):
        x = given[tensor.name]
        if strides := turned(tensor, x):
            others[tensor.name] = x.new_empty_strided(x.shape, strides).copy_(x)
    for what, tensors in (("", given), ("with modes in another order in memory, ", others)):
        with FakeTensorMode() as mode:
            fakes = {name: mode.from_tensor(x) for name, x in tensors.items()}
            told = call(overload(host), host.spec, fakes, one.scalars)
        if problem := _unlike_told(host, told, call(overload(host), host.spec, tensors, one.scalars)):
            return what + problem
    return _of_any_size(host, one)


def _unlike_told(host: Host, told: Mapping[str, torch.Tensor], results: Mapping[str, torch.Tensor]) -> str:
    """Differences between results and torch's fakes of them."""
    for name, found in results.items():
        fake = told[name]
        for what, a, b in (
            ("sizes", list(fake.shape), list(found.shape)),
            ("strides", list(fake.stride()), list(found.stride())),
            ("type", fake.dtype, found.dtype),
            ("place", fake.device.type, found.device.type),
        ):
            if a != b and (what != "strides" or found.numel()):  # which mean nothing without elements
                return f"{host.spec.tensor(name).argument} is to have the {what} {a}, and has {b}"
    return ""


def _of_any_size(host: Host, one: OpCall) -> str:
    """Which size is that of this call alone, where sizes are symbols, as in graphs of any size."""
    from torch import SymInt
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    def symbolic(tensor: Tensor, x: torch.Tensor) -> Any:
        free = [mode not in fixed for mode in tensor.shape]
        known = [DimDynamic.DYNAMIC if one else DimDynamic.STATIC for one in free]
        return mode.from_tensor(x, symbolic_context=StatelessSymbolicContext(dynamic_sizes=known))

    spec = host.spec
    fixed = constants_of(spec)
    sizes = {m: n for t in spec.tensors for m, n in zip(t.shape, one.tensors[t.name].view.shape, strict=True)}
    free = [m for m in sizes if m not in fixed]
    if any(sizes[m] < 2 for m in free) or len({sizes[m] for m in free}) < len(free):
        return ""  # of which torch itself says more
    plain = one.fresh()
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        given = {t.name: symbolic(t, plain[t.name]) for t in taken(spec)}
        told = call(overload(host), spec, given, one.scalars)
        for tensor in (*taken(spec), *made(spec)):
            for m, n in zip(tensor.shape, {**given, **told}[tensor.name].shape, strict=True):
                if m in free and not (isinstance(n, SymInt) and n.node.maybe_as_int() is None):
                    return f"{tensor.argument} is said to have {m} = {n} in calls of any size"
    return ""


def _refused(host: Host, one: OpCall) -> str:
    """Which arguments the op takes, though a call of the function refuses them: what it would do is copy them."""
    import torch

    for tensor in taken(host.spec):
        view = one.fresh()[tensor.name]
        wrong = [("of another type", view.view(getattr(torch, OTHER_DTYPE[tensor.dtype])))]
        if dict(zip(tensor.shape, view.shape, strict=True)).get(tensor.contiguous, 1) > 1:
            apart = view.new_empty_strided(view.shape, [2 * s for s in view.stride()]).copy_(view)
            wrong.append(("with every other element of its memory", apart))
        for what, other in wrong if view.numel() else ():
            given = {**one.fresh(), tensor.name: other}
            try:
                call(overload(host), host.spec, given, one.scalars)
            except (TypeError, ValueError):
                continue
            return f"{tensor.argument} is taken {what}"
    return ""


def _autocast(host: Host, one: OpCall) -> str:
    """Checks calls under autocast: inputs that are only read have another float type, which is cast, or their own."""
    import torch

    op, spec = overload(host), host.spec
    if problem := _cast_though_written(op, one):
        return problem
    cast = [t for t in taken(spec) if t.dtype.is_float and not t.writes]
    if not cast or not one.compact:  # what torch casts has no gaps between its rows
        return ""
    for keep in (False, True):
        given, direct = one.fresh(), one.fresh()
        for tensor in cast:
            own = getattr(torch, tensor.dtype.torch)
            other = own if keep else torch.bfloat16 if tensor.dtype is Dtype.f32 else torch.float32
            x = given[tensor.name]
            given[tensor.name] = torch.empty_strided(x.shape, x.stride(), dtype=other, device=x.device).copy_(x)
            direct[tensor.name] = torch.empty_strided(x.shape, x.stride(), dtype=own, device=x.device)
            direct[tensor.name].copy_(given[tensor.name])
        results = call(_under_autocast(op, given), spec, given, one.scalars)
        for name, wanted in call(op, spec, direct, one.scalars).items():
            if results[name].dtype != wanted.dtype or not same_bits(results[name], wanted):
                return f"{spec.tensor(name).argument} differs from that of arguments which are cast before"
        for tensor in (t for t in taken(spec) if t.writes):
            if not same_bits(given[tensor.name], direct[tensor.name]):
                return f"{tensor.argument}, which is written, differs from that of arguments which are cast before"
    return ""


def _cast_though_written(op: Any, one: OpCall) -> str:
    """An argument that is written and that has another type of float: a copy of it would be written in its place."""
    import torch

    for tensor in (t for t in taken(one.spec) if t.dtype.is_float and t.writes):
        given = one.fresh()
        given[tensor.name] = given[tensor.name].to(torch.bfloat16 if tensor.dtype is Dtype.f32 else torch.float32)
        try:
            call(_under_autocast(op, given), one.spec, given, one.scalars)
        except (TypeError, ValueError):
            continue
        return f"{tensor.argument}, which is written, is taken as {given[tensor.name].dtype}"
    return ""


def _under_autocast(op: Any, given: Mapping[str, torch.Tensor]) -> Any:
    """The op as it is called for these tensors where autocast is on."""
    import torch

    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
    for x in given.values():
        keys = keys | torch._C._dispatch_keys(x)
    return partial(op.redispatch, keys)


def _declared(host: Host) -> str:
    """How the schema that torch has of the op differs from the spec, and what tag it lacks."""
    import torch

    spec = host.spec
    with host.executor.for_targets(host.spec.targets[:1]).known(host.module, spec):
        op = overload(host)
    wanted = [(t.argument, "Tensor", t.writes, False) for t in spec.inputs]
    wanted += [(s.argument, NUMBERS[s.dtype.is_float], False, False) for s in spec.scalars]
    wanted += [(t.argument, "Tensor", True, True) for t in taken(spec) if not t.reads]
    declared = op._schema.arguments
    writes = [x.alias_info is not None and x.alias_info.is_write for x in declared]
    found = [
        (x.name, x.real_type.kind().removesuffix("Type"), w, x.kwarg_only)
        for x, w in zip(declared, writes, strict=True)
    ]
    if found != wanted:
        return f"it takes {_told(found)}, not {_told(wanted)}"
    if optional := [x.name for x in declared if x.has_default_value()]:
        return f"{optional[0]} may be left out"
    written = [x.alias_info.before_set for x in declared if x.alias_info is not None]
    if any(a & b for i, a in enumerate(written) for b in written[:i]):
        return "two of its arguments are said to be the same memory"
    results = [(x.real_type.kind().removesuffix("Type"), x.alias_info) for x in op._schema.returns]
    if results != [("Tensor", None)] * len(made(spec)):
        return f"it returns {len(results)} results, {', '.join(kind for kind, _ in results)}"
    lacking = [tag for tag in (torch.Tag.pt2_compliant_tag, torch.Tag.needs_fixed_stride_order) if tag not in op.tags]
    return f"it lacks the tag {lacking[0]}" if lacking else ""


def _told(arguments: Sequence[tuple[str, str, bool, bool]]) -> str:
    """Arguments as they are printed."""
    return ", ".join(f"{kind}{'!' * writes} {name}{'=' * named}" for name, kind, writes, named in arguments)


def _opcheck(host: Host, utility: str) -> str:
    """Checks the op with a utility of `torch.library.opcheck`; returns its complaint, empty if it passes."""
    *_, one = calls(host)
    with host.executor.for_targets(host.spec.targets[:1]).known(host.module, host.spec):
        return opcheck(overload(host), *arranged(host.spec, one.fresh(), one.scalars), utility)
