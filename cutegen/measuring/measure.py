"""One kernel, shape by shape, in the process that has the device: check, record, time, judge."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cutegen.measuring import contenders
from cutegen.measuring.arguments import Arguments, make_arguments, sets_for
from cutegen.measuring.clock import Contender, Prepared, Stopwatch, interleaved, prepare
from cutegen.measuring.contenders import Candidate
from cutegen.measuring.limits import limit_us, work_of
from cutegen.measuring.model import SPREAD_LIMIT, Failure, Kind, Limits, Measured, Request, Timing
from cutegen.peers.peer import Peer
from cutegen.peers.peers import choose, rounds_between
from cutegen.reference.bounds import Expected, evaluate
from cutegen.reference.taking import Index, index_of, view_of
from cutegen.verification.compare import Comparison, compare, together
from cutegen.verification.runner import describe

if TYPE_CHECKING:
    import torch

    from cutegen.language.model import KernelSpec

Tell = Callable[[str, Any], None]
Parted = Callable[[Sequence[Any]], Sequence[Any]]
LIBRARY_SHARE = 1e-4  # that a library may differ by in any type: its functions of f32 are fast ones


@dataclass(frozen=True)
class Bench:
    """The device on which measurements run: `device` as torch names it, the size of its L2, its limits if known, and
    what its driver calls it.

    `imported` gets the users' functions, each module run once for all shapes.
    """

    watch: Stopwatch[Any]
    device: str
    l2_bytes: int
    limits: Limits | None
    imported: Callable[[str], Callable[..., Any]] = field(
        default_factory=lambda: functools.cache(contenders.imported), compare=False
    )
    gpu: str = ""


class Refused(Exception):
    """Says that there is no figure for this kernel at this shape.

    `what` is the contender that is to blame, None for the kernel itself.
    """

    def __init__(self, kind: Kind, message: str, what: str | None = None) -> None:
        super().__init__(message)
        self.kind, self.what = kind, what


@dataclass(frozen=True)
class Reference:
    """The expected values of a contender's results, by output.

    A peer may compute the formula with roundings of its own, which no bound of ours knows. `share` is what it may
    differ by besides, of the value itself and of the values' root mean square: a rounding before a sum or a difference
    shows in small values too.
    """

    expected: Mapping[str, Expected]
    share: float = 0.0
    indices: Mapping[str, Index] = field(default_factory=dict)  # of outputs whose elements are at places
    parted: Parted = tuple  # of results those that are expected: the views of packed ones
    packed: int | None = None  # how many results there are, where not as many as are expected

    @property
    def outputs(self) -> int:
        """How many results there are."""
        return len(self.expected) if self.packed is None else self.packed

    def for_peer(self, spec: KernelSpec) -> Reference:
        """The same with room for a few roundings to the narrowest of the spec's types; factors of 8 bits are none,
        whose product nobody rounds to 8 bits again.
        """
        import torch

        factors = {name for product in spec.compute.products for name in (product.a, product.b)}
        floats = [t.dtype for t in spec.tensors if t.dtype.is_float and not (t.dtype.is_f8 and t.name in factors)]
        step = max(torch.finfo(getattr(torch, dtype.torch)).eps for dtype in floats) if floats else 0.0
        return replace(self, share=max(2 * step, LIBRARY_SHARE))

    def judge(self, results: Sequence[torch.Tensor]) -> Comparison:
        found = {}
        for (name, wanted), whole in zip(self.expected.items(), self.parted(results), strict=True):
            result = whole[self.indices[name]] if name in self.indices else whole
            found[name] = compare(result, *(self._with_room(wanted, result) if self.share else wanted))
            if not found[name].ok and len(results) > 1:
                found[name] = replace(found[name], reason=f"{name}{found[name].reason}")
        return together(list(found.values()))

    def _with_room(self, wanted: Expected, result: torch.Tensor) -> Expected:
        """A whole number may be the next one, where another rounding came before; and a truth is not looked at."""
        import torch

        finite = wanted.value.double().nan_to_num(0.0, 0.0, 0.0)
        room = self.share * (finite.abs() + finite.square().mean().sqrt())
        if result.dtype is torch.bool:
            room = torch.full_like(room, torch.inf)
        elif not result.is_floating_point():
            room = room + 1
        return Expected(wanted.value, wanted.bound + room)


@dataclass(frozen=True)
class Checked:
    """A contender whose results were right.

    `recording` is what they are checked with, each set of arguments once, and `results` is where it puts them;
    `verdict` is what the check against `reference` gave.
    """

    candidate: Candidate
    recording: Any
    results: Sequence[tuple[torch.Tensor, ...] | None]
    reference: Reference
    verdict: Comparison


@dataclass
class Field:
    """The contenders at one shape: those that are ready to be timed, and why the others are absent.

    `checked` is what the ready ones are checked with once more after that, `failures` what to say about contenders.
    """

    ready: dict[str, Prepared[Any]] = field(default_factory=dict)
    checked: dict[str, Checked | None] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


def measure_shape(
    request: Request, module: ModuleType, shape: Mapping[str, int], bench: Bench, tell: Tell
) -> tuple[Measured, list[Failure]]:
    """Measures a kernel and its peers at one shape. `tell("running", name)` says what runs next.

    Raises Refused where there is no figure for the kernel itself; what is wrong with a peer is among the failures, or
    only said in `absent` where it is the peer's own business.
    """
    plan, spec = request.plan, request.plan.spec
    sets, l2 = sets_for(spec, shape, request.l2, bench.l2_bytes)
    arguments = make_arguments(spec, shape, sets, bench.device, l2=l2)
    reference = _reference(arguments) if request.check else None
    tell("running", spec.kernel)
    found = Field()
    try:
        ours = contenders.kernel(spec.kernel, module, arguments)
        found.checked[spec.kernel] = checked = _checked(ours, reference, bench.watch)
        found.ready[spec.kernel] = prepare(ours.contender, bench.watch)
    except Refused:
        raise
    except Exception as error:
        raise Refused("cannot run", describe(error)) from error
    _add_peers(found, request, arguments, reference, bench, tell)
    tell("running", spec.kernel)
    timings = interleaved(list(found.ready.values()), bench.watch, request.rounds)
    if reference is not None:
        _check_again(found, request, shape, bench.watch, tell)
    timings = {name: timing for name, timing in timings.items() if name in found.ready}
    kept = _steady(timings, spec.kernel, shape, found)
    verdict = None if checked is None else checked.verdict
    moved, operations = work_of(plan, shape)
    limits = bench.limits
    limit = None if limits is None else limit_us(plan, shape, limits, l2, bench.l2_bytes, bench.gpu)
    measured = Measured(
        shape=dict(shape),
        timing=kept.pop(spec.kernel),
        peers=kept,
        absent=found.absent,
        bytes=moved,
        operations=operations,
        limit_us=limit,
        l2=l2,
        error=None if verdict is None else verdict.max_error,
        bound=None if verdict is None else verdict.max_bound,
        ratio=None if verdict is None else verdict.ratio,
    )
    return measured, found.failures


def _steady(timings: dict[str, Timing], kernel: str, shape: Mapping[str, int], found: Field) -> dict[str, Timing]:
    """The timings whose spread is let pass. Raises Refused if the kernel's own is not."""
    kept = {}
    for name, timing in timings.items():
        if timing.spread <= SPREAD_LIMIT:
            kept[name] = timing
            continue
        message = (
            f"{name}: the spread over {timing.rounds} rounds is {timing.spread:.1%} of the median, "
            f"and {SPREAD_LIMIT:.0%} is let pass"
        )
        if name == kernel:
            raise Refused("spread", message)
        found.absent[name] = message
        found.failures.append(Failure("spread", name, dict(shape), message))
    return kept


def _reference(arguments: Arguments) -> Reference:
    # Not the spec's tolerance, which is for the shapes that it verifies: it does not grow with k
    spec, given = arguments.spec, arguments.named(0)
    own = {tensor.name: index_of(tensor, given) for tensor in spec.outputs}
    indices = {name: index for name, index in own.items() if index is not None}
    expected, parted = evaluate(spec, given, arguments.scalars), partial(_parted, arguments)
    return Reference(expected, indices=indices, parted=parted, packed=len(spec.outputs))


def _parted(arguments: Arguments, results: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Results, one for each output; of a packed one the views that are written."""
    spec, found = arguments.spec, []
    for output, x in zip(spec.outputs, results, strict=True):
        written = [view for view in output.views if view.writes]
        found += [view_of(spec, output, view, x, arguments.sizes) for view in written] if output.views else [x]
    return tuple(found)


def _checked(candidate: Candidate, reference: Reference | None, watch: Stopwatch[Any]) -> Checked | None:
    """Checks the contender's results, if they are to be checked. Raises Refused for wrong ones."""
    if reference is None:
        return None
    fresh = Contender(candidate.name, candidate.contender.calls, candidate.poison)
    recording = watch.record(fresh, len(fresh.calls))
    results = tuple(candidate.results)
    return Checked(candidate, recording, results, reference, _judge(candidate, recording, reference, watch))


def _judge(
    candidate: Candidate, recording: Any, reference: Reference, watch: Stopwatch[Any], when: str = ""
) -> Comparison:
    """Runs what is timed, and looks at the results of the first and the last set. Raises Refused for a wrong one."""
    watch.time([recording])
    first = reference.judge(_results(candidate, 0, reference.outputs))
    for comparison in (first, reference.judge(_results(candidate, -1, reference.outputs))):
        if not comparison.ok:
            what = "differs from the kernel" if reference.share else "the result is wrong"
            raise Refused("wrong", f"{what}{when}: {comparison.reason}")
        if comparison.count and not comparison.judged:
            raise Refused("wrong", "the bound says nothing about any element, so nothing was checked")
    return first


def _check_again(found: Field, request: Request, shape: Mapping[str, int], watch: Stopwatch[Any], tell: Tell) -> None:
    """Checks results once more after all were timed: whoever is wrong now has no figure.

    Raises Refused for the kernel itself, and where a peer broke the device for all.
    """
    kernel = request.plan.spec.kernel

    def again(checked: Checked) -> None:
        # What was recorded since may have put its results elsewhere
        checked.candidate.results[:] = checked.results
        _judge(checked.candidate, checked.recording, checked.reference, watch, " after it was timed")

    for name, checked in found.checked.items():
        if checked is None:
            continue
        tell("running", name)
        if name == kernel:
            again(checked)
            continue
        with _peer(found, name, request, shape, watch):
            again(checked)
    for name in found.absent:
        found.ready.pop(name, None)
    tell("running", kernel)


def _results(candidate: Candidate, number: int, outputs: int) -> tuple[torch.Tensor, ...]:
    """The results of one set of arguments, a tensor for each output. Raises Refused for anything else."""
    import torch

    results = candidate.results[number] or (None,)
    for result in results:
        if not isinstance(result, torch.Tensor):
            raise Refused("wrong", f"{candidate.name} gave {type(result).__name__}, not a tensor")
    if len(results) != outputs:
        raise Refused("wrong", f"{candidate.name} gave {len(results)} of {outputs} results")
    return tuple(result for result in results if result is not None)


def _add_peers(
    found: Field, request: Request, arguments: Arguments, reference: Reference | None, bench: Bench, tell: Tell
) -> None:
    wanted: dict[str, Callable[[], tuple[Prepared[Any], Checked | None]]] = {}
    for peer in choose(request.plan.spec) if request.peers else ():
        wanted[peer.name] = partial(_best, peer, request, arguments, reference, bench.watch)
    for place in request.vs:
        wanted[place] = partial(_users, place, arguments, reference, bench)
    for name, make in wanted.items():
        tell("running", name)
        with _peer(found, name, request, arguments.sizes, bench.watch):
            found.ready[name], found.checked[name] = make()


def _users(
    place: str, arguments: Arguments, reference: Reference | None, bench: Bench
) -> tuple[Prepared[Any], Checked | None]:
    candidate = contenders.function(place, bench.imported(place), arguments)
    checked = _checked(candidate, reference, bench.watch)
    return prepare(candidate.contender, bench.watch), checked


def _best(
    wanted: Peer, request: Request, arguments: Arguments, reference: Reference | None, watch: Stopwatch[Any]
) -> tuple[Prepared[Any], Checked | None]:
    """Finds the fastest of the peer's candidates. Raises Refused unless each of them is right."""
    best: tuple[Prepared[Any], Checked | None] | None = None
    if reference is not None and rounds_between(wanted, request.plan.spec, arguments.scalars):
        reference = reference.for_peer(request.plan.spec)
    for candidate in contenders.peer(wanted, request.plan, arguments):
        checked = _checked(candidate, reference, watch)
        ready = prepare(candidate.contender, watch)
        best = (ready, checked) if best is None or ready.us < best[0].us else best
    assert best is not None
    return best


@contextlib.contextmanager
def _peer(found: Field, name: str, request: Request, shape: Mapping[str, int], watch: Stopwatch[Any]) -> Iterator[None]:
    """Guards the preparation of a peer: what goes wrong inside leaves the peer out.

    It is a failure where a function of the user's is wrong. Raises Refused where the peer broke the device for all.
    """
    try:
        yield
    except Refused as error:
        found.absent[name] = str(error)
        if name in request.vs:
            found.failures.append(Failure(error.kind, name, dict(shape), str(error)))
    except Exception as error:  # not there, does not compile, cannot be recorded: the peer's own business
        found.absent[name] = f"not available: {describe(error)}"
        try:
            watch.time([next(iter(found.ready.values())).recording])
        except Exception:
            raise Refused("crashed", f"{name} broke the device: {describe(error)}", name) from error
