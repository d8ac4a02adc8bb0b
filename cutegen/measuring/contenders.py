"""The kernel and its peers as contenders: what each one calls on each set of arguments, and where its result is."""

from __future__ import annotations

import functools
import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cutegen.codegen.places import put_in
from cutegen.codegen.reference import device_of
from cutegen.codegen.views import packed_results
from cutegen.errors import plain
from cutegen.expressions.tree import MatMul
from cutegen.measuring.arguments import Arguments, like
from cutegen.measuring.asked import op_of
from cutegen.measuring.clock import Contender
from cutegen.peers.libraries import library_calls
from cutegen.peers.peer import Peer
from cutegen.peers.peers import Product, product_of, scaled_of
from cutegen.planning.plan import Plan
from cutegen.verification.executor import load_module

if TYPE_CHECKING:
    import torch

    from cutegen.language.model import KernelSpec, Tensor

    Results = tuple[torch.Tensor, ...]  # one for each output, in the order of `spec.outputs`
    Call = Callable[[], Results]


@dataclass(frozen=True)
class Candidate:
    """A contender whose results can be looked at.

    `results[i]` is what the last call on set `i` gave; `poison` brings the arguments back to what they were, with
    outputs that no right result has.
    """

    contender: Contender
    poison: Callable[[], None]
    results: list[Results | None]

    @property
    def name(self) -> str:
        return self.contender.name


def kernel(name: str, module: ModuleType, arguments: Arguments) -> Candidate:
    """Makes a candidate of the generated function."""
    return function(name, vars(module)[name], arguments)


def function(name: str, called: Callable[..., Any], arguments: Arguments) -> Candidate:
    """Makes a candidate of a function that takes what the generated one takes.

    It writes the outputs, or returns other tensors: one, or for several outputs a tuple.
    """

    taken = [arguments.call(number) for number in range(len(arguments.sets))]

    def result(number: int) -> Results:
        places, named = taken[number]
        given = called(*places, **named)
        if given is None:
            return tuple(arguments.sets[number][place] for place in arguments.outputs)
        several = len(arguments.outputs) > 1 and isinstance(given, tuple | list)
        return tuple(given) if several else (given,)

    return _candidate(name, [functools.partial(result, i) for i in range(len(arguments.sets))], arguments)


def peer(wanted: Peer, plan: Plan, arguments: Arguments) -> Iterator[Candidate]:
    """Makes candidates of a peer on the same arguments; several where the fastest one is to be found."""
    match wanted.kind:
        case "copy":
            (source,) = wanted.tensors
            yield _per_set(wanted.name, arguments, lambda x, out: out.copy_(x[source]))
        case "arithmetic":
            yield _arithmetic(wanted, arguments)
        case "eager" | "cublas eager":
            yield function(wanted.name, expression(plan, inplace=False), arguments)
        case "compile":
            import torch

            torch._dynamo.reset()  # which gives up on a function that it compiled for many kernels before
            compiler = functools.partial(torch.compile, dynamic=False, fullgraph=True)
            yield function(wanted.name, expression(plan, inplace=True, through=compiler), arguments)
        case "cublas":
            yield _cublas(wanted.name, arguments)
        case "scaled":
            yield _scaled(wanted.name, arguments)
        case "cublas best":
            yield from _layouts(wanted.name, arguments)
        case "library":
            sets = [arguments.named(number) for number in range(len(arguments.sets))]
            found = library_calls(wanted, arguments.spec, sets, arguments.scalars, warm=arguments.l2 == "warm")
            restore = found.restore
            yield _candidate(wanted.name, found.calls, arguments, restore, restore, once=restore is not None)


def _written(spec: KernelSpec, tensor: Tensor, values: str) -> str:
    """The expression that writes an output."""
    return put_in(spec, tensor, values, inplace=True) or f"{tensor.argument}.copy_({values})"


def expression(
    plan: Plan, *, inplace: bool, through: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda f: f
) -> Callable[..., torch.Tensor | Results]:
    """`compute` as a function of torch's operations on the generated function's arguments.

    Its statements are those of the operation's `eager`. With `inplace` it writes the outputs; otherwise it returns
    fresh tensors, as eager code does: one, or a tuple of several. Tensors of scalars and constants are made once only:
    a CUDA graph cannot hold the copy of one from the host. `through` is applied to the function of tensors alone.
    """
    import torch

    spec = plan.spec.by_argument
    inputs, named = ([t.argument for t in tensors] for tensors in (spec.inputs, spec.named))
    scalars = [s.argument for s in spec.scalars]
    reference = op_of(spec).eager(plan)
    made = dict(reference.scalars)  # tensors that are made once, by the names that stand for them
    body = "\n".join(reference.statements)
    for call in sorted(set(reference.constants), key=len, reverse=True):
        name = f"constant_{len(made)}"
        body, made[name] = body.replace(call, name), call
    outputs = [t.argument for t in spec.outputs]
    results = {t.name: x for t, x in zip(plan.spec.outputs, reference.results, strict=True)}
    packed = [line for t in spec.outputs if t.views for line in packed_results(spec, t, results, inplace=True)]
    body = "\n".join([body, *packed])
    written = [t.argument if t.views else _written(spec, t, results[t.name]) for t in spec.outputs]
    # Of what is written at places, or in part, the rest stays; segments have all rows where they are measured
    inplace = inplace or any(t.at or t.views for t in spec.outputs)
    lines = [device_of(spec), body, f"return ({', '.join(written if inplace else reference.results)},)"]
    text = f"def expression({', '.join([*inputs, *named, *made])}):\n{textwrap.indent(chr(10).join(lines), '    ')}\n"
    text += f"def constants({', '.join([*scalars, 'device'])}):\n    return [{', '.join(made.values())}]\n"
    space: dict[str, Any] = {"torch": torch}
    exec(compile(text, f"<torch expression of {spec.kernel}>", "exec"), space)
    inner, constants = through(space["expression"]), functools.lru_cache(space["constants"])
    count = len(inputs)

    def called(*places: Any, **by_name: Any) -> torch.Tensor | Results:
        tensors = [*places[:count], *(by_name[name] for name in named)]
        found: Results = inner(*tensors, *constants(*places[count:], tensors[0].device))
        if not inplace:
            given = dict(zip((*inputs, *named), tensors, strict=True))
            likes = [given[output] for output in outputs]
            found = tuple(_fresh(result, like, tensors) for result, like in zip(found, likes, strict=True))
        return found if len(found) > 1 else found[0]

    return called


def _fresh(result: torch.Tensor, output: torch.Tensor, given: Sequence[object]) -> torch.Tensor:
    """The result as a tensor like the output, in memory that is none of an argument's."""
    import torch

    if result.shape == output.shape and not any(result is argument for argument in given):
        return result.to(output.dtype)
    return torch.empty_like(output).copy_(result)


def imported(place: str) -> Callable[..., Any]:
    """Imports a function from `package.module:function` or `FILE.py:function`. Raises ValueError with what is wrong."""
    where, colon, name = place.rpartition(":")
    if not colon or not where or not name:
        raise ValueError(f"`{place}` is not `module:function` or `FILE.py:function`")
    try:
        if where.endswith(".py"):
            folder = str(Path(where).resolve().parent)
            sys.path[:] = [folder, *(entry for entry in sys.path if entry != folder)]  # its own imports come first
            module = load_module(Path(where).resolve())
        else:
            module = importlib.import_module(where)
    except Exception as error:
        raise ValueError(f"{where} does not load: {type(error).__name__}: {plain(str(error))}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise ValueError(f"{where} has no function `{name}`")
    called: Callable[..., Any] = found
    return called


def _candidate(
    name: str,
    calls: Sequence[Call],
    arguments: Arguments,
    reset: Callable[[], None] | None = None,
    poison: Callable[[], None] | None = None,
    once: bool = False,
) -> Candidate:
    results: list[Results | None] = [None] * len(calls)

    def call(number: int) -> None:
        # Kept until the set comes round again: a fresh result must not reuse the memory of one still in the cache
        results[number] = calls[number]()

    wrapped = [functools.partial(call, number) for number in range(len(calls))]
    return Candidate(Contender(name, wrapped, reset or arguments.reset, once), poison or arguments.poison, results)


def _per_set(
    name: str, arguments: Arguments, call: Callable[[dict[str, torch.Tensor], torch.Tensor], torch.Tensor]
) -> Candidate:
    """Makes a candidate of a function that computes the one output.

    `call` is given the tensors of a set by name, and the output.
    """

    def result(named: dict[str, torch.Tensor], output: torch.Tensor) -> Results:
        return (call(named, output),)

    sets = [(arguments.named(i), arguments.sets[i][arguments.output]) for i in range(len(arguments.sets))]
    return _candidate(name, [functools.partial(result, *given) for given in sets], arguments)


def _arithmetic(wanted: Peer, arguments: Arguments) -> Candidate:
    import torch

    left, right = wanted.tensors
    operation = getattr(torch, wanted.function)
    return _per_set(wanted.name, arguments, lambda x, out: operation(x[left], x[right], out=out))


def _cublas(name: str, arguments: Arguments) -> Candidate:
    spec = arguments.spec
    matmul, wanted = spec.compute.matmul, product_of(spec, arguments.scalars)
    assert matmul is not None and wanted is not None

    def call(x: dict[str, torch.Tensor], out: torch.Tensor) -> torch.Tensor:
        return _gemm(wanted, x[matmul.a], x[matmul.b], out, x.get(wanted.addend or ""))

    return _per_set(name, arguments, call)


def _gemm(
    wanted: Product, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, addend: torch.Tensor | None
) -> torch.Tensor:
    """Calls cuBLAS once, into `out`."""
    import torch

    if out.dim() > 2:  # of a batch; an operand without that is the same in every product
        a, b = (x if x.dim() == out.dim() else x.expand(len(out), *x.shape) for x in (a, b))
        if addend is None and wanted.alpha == 1:
            return torch.bmm(a, b.mT, out=out)
        given = out if addend is None else addend
        return torch.baddbmm(given, a, b.mT, beta=wanted.beta, alpha=wanted.alpha, out=out)
    if addend is None and wanted.alpha == 1:
        return torch.mm(a, b.T, out=out)
    # With beta 0 what `input` holds is ignored, and it is the output already: nothing is copied
    given = out if addend is None else addend
    return torch.addmm(given, a, b.T, beta=wanted.beta, alpha=wanted.alpha, out=out)


def _scaled(name: str, arguments: Arguments) -> Candidate:
    """Makes a candidate of torch._scaled_mm, into the output; scales that are no arguments are made once."""
    import torch

    spec = arguments.spec
    matmul, wanted = spec.compute.matmul, scaled_of(spec, arguments.scalars)
    assert matmul is not None and wanted is not None
    device = arguments.sets[0][arguments.output].device
    rows, columns = wanted.rows, wanted.columns
    if wanted.blocks:
        return _per_set(name, arguments, functools.partial(_scaled_blocks, matmul))
    m, n = (arguments.sizes[mode] if rows or columns else None for mode in spec.output.shape)
    # The number is one of a scale that the expression does not have: scales of both operands leave none
    left = torch.full((m, 1) if m else (), wanted.number if not rows else 1.0, dtype=torch.float32, device=device)
    right = torch.full((1, n) if n else (), wanted.number if rows else 1.0, dtype=torch.float32, device=device)

    def call(x: dict[str, torch.Tensor], out: torch.Tensor) -> torch.Tensor:
        scales = x[rows][:, None] if rows else left, x[columns][None, :] if columns else right
        a, b = x[matmul.a], x[matmul.b]
        return torch._scaled_mm(a, b.T, *scales, out_dtype=out.dtype, use_fast_accum=True, out=out)

    return _per_set(name, arguments, call)


def _scaled_blocks(matmul: MatMul, x: dict[str, torch.Tensor], out: torch.Tensor) -> torch.Tensor:
    """Calls torch._scaled_mm with scales for blocks, which sums each block of 128 apart."""
    import torch

    assert matmul.a_scale is not None and matmul.b_scale is not None
    scales = x[matmul.a_scale], x[matmul.b_scale].T
    return torch._scaled_mm(x[matmul.a], x[matmul.b].T, *scales, out_dtype=out.dtype, out=out)


def _layouts(name: str, arguments: Arguments) -> Iterator[Candidate]:
    """Makes candidates of cuBLAS with operands and output in each combination of majornesses, the
    given one included.
    """
    spec = arguments.spec
    matmul, wanted = spec.compute.matmul, product_of(spec, arguments.scalars)
    assert matmul is not None and wanted is not None
    orders = ((0, 1), (1, 0))  # row-major, column-major
    for order_a, order_b, order_c in product(orders, repeat=3):
        sets = []
        for number in range(len(arguments.sets)):
            x = arguments.named(number)
            out = x[spec.output.name]
            copies = {n: _ordered(x[n], order) for n, order in ((matmul.a, order_a), (matmul.b, order_b))}
            addend = None if wanted.addend is None else _ordered(x[wanted.addend], order_c)
            mine = addend if wanted.addend == spec.output.name and addend is not None else _ordered(out, order_c)
            sets.append((copies[matmul.a], copies[matmul.b], mine, addend))
        yield _laid_out(name, arguments, wanted, sets)


def _ordered(x: torch.Tensor, order: tuple[int, int]) -> torch.Tensor:
    """A copy of matrices whose modes lie in that order, one matrix of a batch after the other."""
    batch = x.dim() - 2
    return like(x, (*range(batch), *(batch + mode for mode in order)))


def _laid_out(
    name: str,
    arguments: Arguments,
    wanted: Product,
    sets: Sequence[tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]],
) -> Candidate:
    original = arguments.originals.get(arguments.output)

    def reset() -> None:
        if original is not None:
            for _, _, out, _ in sets:
                out.copy_(original)

    def poison() -> None:
        for _, _, out, _ in sets:
            if original is None:
                out.fill_(float("nan"))
            else:
                out.copy_(original)

    def result(number: int) -> Results:
        return (_gemm(wanted, *sets[number]),)

    calls = [functools.partial(result, number) for number in range(len(sets))]
    return _candidate(name, calls, arguments, reset, poison)
