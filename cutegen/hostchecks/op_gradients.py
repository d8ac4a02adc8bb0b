"""The gradient of an op: the results of autograd, compared with the kernels that compute them and with the statements
of the op.

Each result must be within the bound of the kernel that made it, for what that is to be given: the op's own inputs,
scalars and outputs, and what arrives. The statements of these kernels, evaluated in float64, must in turn be what
torch's autograd makes of the op's statements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cutegen import contract
from cutegen.autograd import Gradient, gradients_by
from cutegen.codegen.generate import Module, module_of
from cutegen.hostchecks import op_calls, op_derivatives, op_sizes
from cutegen.hostchecks.arriving import arriving, changed, strided
from cutegen.hostchecks.asked import family_of
from cutegen.hostchecks.judging import Check, Host, NotRun, same_bits
from cutegen.hostchecks.op_calls import OpCall
from cutegen.hostchecks.op_chains import Chain, results, unlike
from cutegen.hostchecks.opchecks import IN_GRAPHS, opcheck, possible
from cutegen.language.diagnostics import SpecError
from cutegen.language.model import KernelSpec
from cutegen.reference.bounds import Expected, evaluate
from cutegen.reference.casting import cast
from cutegen.reference.packed import of_arguments
from cutegen.reference.rounding import Bounded
from cutegen.verification.executor import CannotRun, load_module
from cutegen.views.sizes import sizes_of

if TYPE_CHECKING:
    import torch

UTILITIES = ("test_autograd_registration", IN_GRAPHS)
"""Of `torch.library.opcheck`: that autograd finds the gradient, and that it is the same in a graph of dynamic sizes."""
_ALL_SUBSETS = 3  # inputs of which each subset may want gradients; of more, one, all but one, and all of them


class _Wrong(Exception):
    """Says what is wrong with a gradient."""


def checks(host: Host) -> Iterator[Check]:
    """That the op of a module has the gradient that its spec names, if it names one."""
    spec = host.spec
    if spec.torch.backward:
        what = f"the op {spec.torch.op}: its gradient, by {' and '.join(spec.torch.backward)}"
        yield Check(spec.output.argument, what, partial(_differentiated, host))


def _differentiated(host: Host) -> str:
    """Checks the gradient; returns the first problem. Raises NotRun where a kernel that computes it is unavailable."""
    spec, kernels = host.spec, host.plan.gradients
    if not kernels:
        names = " and ".join(spec.torch.backward)
        raise NotRun(f"the op was not differentiated: without the spec of {names} beside its own")
    executor = host.executor.for_targets(spec.targets[:1])
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="cutegen-gradients-")))
            modules = [_module(host, one, folder) for one in kernels]
            resolved = gradients_by(spec, [one.spec for one, _ in modules])
            if problem := op_derivatives.problem(resolved, next(op_calls.calls(host))):
                return problem
            _check_import(host)
            for one, path in modules:
                _make_known(host, one.spec, path, stack)
            stack.enter_context(executor.known(host.module, spec))
            _Trial(host, resolved).run()
            executor.synchronize()
    except _Wrong as wrong:
        return str(wrong)
    return ""


def _module(host: Host, one: Gradient, folder: Path) -> tuple[Module, Path]:
    """The module of one kernel of the gradient, and its file: beside that of the op, else in the folder."""
    try:
        module = module_of(one.by)
    except SpecError as error:
        raise NotRun(f"the op was not differentiated: {one.by.kernel} has no module: {error}") from error
    path = Path(str(host.module.__file__)).with_name(module.name)
    if not path.is_file():
        path = folder / module.name
        path.write_text(module.text, encoding="utf-8")
    return module, path


def _make_known(host: Host, by: KernelSpec, path: Path, stack: ExitStack) -> None:
    """Makes torch know the op of one kernel of the gradient, while the stack is there. Raises NotRun."""
    try:
        module = load_module(path)
        stack.enter_context(host.executor.beside(module, by).known(module, by))
    except Exception as error:
        host.look_at_memory(error, host.views.values())
        why = f"{type(error).__name__}: {str(error)[:300]}"
        raise NotRun(f"the op was not differentiated: {by.kernel} cannot be run: {why}") from error


def _check_import(host: Host) -> None:
    """Has the module import those of its gradient, as it must where they are beside it and their ops are not known.
    Raises _Wrong.
    """
    import torch

    found = [Path(str(host.module.__file__)).with_name(f"{one.by.kernel}.py") for one in host.plan.gradients]
    if not all(path.is_file() for path in found):
        return
    ops = [str(one.by.torch.op) for one in host.plan.gradients]
    for op in ops:
        contract.forget(op)
    contract.make_known(host.module)
    for op in ops:
        namespace, _, name = op.partition("::")
        if not hasattr(getattr(torch.ops, namespace), name):
            raise _Wrong(f"importing the module of the op does not make {op} known, which its gradient calls")


@dataclass(frozen=True)
class _Pass:
    """A call of the op that autograd has followed: its arguments and results by name, and what they held then."""

    call: OpCall
    inputs: Mapping[str, torch.Tensor]
    outputs: Mapping[str, torch.Tensor]
    kept: Mapping[str, torch.Tensor]


class _Trial:
    """Calls an op, differentiates it in all ways, and raises _Wrong for the first one that is wrong."""

    def __init__(self, host: Host, kernels: list[Gradient]) -> None:
        self.host = host
        self.spec: KernelSpec = host.spec
        self.kernels = kernels
        self.op = op_calls.overload(host)
        self.calls = list(op_calls.calls(host))
        read = {t.name for one in kernels for t in one.given.values()}
        self.followed = [t for t in op_calls.made(self.spec) if t.name in read]  # outputs that have a gradient
        self.made = {t.name for one in kernels for t in one.made.values()}
        self.saved = {t.name for one in kernels for t in one.saved}
        taken = op_calls.taken(self.spec)
        self.floats = [t.name for t in taken if t.dtype.is_float and not t.writes]

    def run(self) -> None:
        first, *others = self.calls
        with self._trying("what it saves"):
            self._saved(first)
        with self._trying("strides of what arrives"):
            self._layouts(first)
        for wanting in self._subsets():
            with self._trying(f"only {' and '.join(map(self._argument, wanting))} wanting a gradient"):
                self._some_inputs(first, wanting)
        for one in chain(others, filter(self._taken, op_calls.edges(self.host))):
            with self._trying(one.what):
                self._some_inputs(one, self.floats)
        with self._trying("inputs that change after the call"):
            self._changed(first)
        with self._trying("sizes of any magnitude"):
            self._at_any_size(first)
        self._utilities()

    def _taken(self, call: OpCall) -> bool:
        """Whether the kernels of the gradient take the sizes of a call as well."""
        shapes = {name: t.view.shape for name, t in call.tensors.items()}
        sizes = sizes_of(self.spec.tensors, self.spec.static, shapes)
        for by in (one.by for one in self.kernels):
            own = {mode: sizes[mode] for mode in by.modes}
            empty = {mode for mode, size in own.items() if size == 0}
            if (
                not empty <= op_calls.may_be_empty(by)
                or family_of(by).refused(by.by_view, own) is not None
                or not by.takes(own)
            ):
                return False
        return True

    @contextmanager
    def _trying(self, what: str) -> Iterator[None]:
        try:
            yield
        except (CannotRun, NotRun):
            raise
        except _Wrong as wrong:
            raise _Wrong(f"with {what}: {wrong}") from wrong
        except Exception as error:
            self.calls[-1].look_at_memory(self.host, error)
            raise _Wrong(f"with {what}: raises {type(error).__name__}: {str(error)[:300]}") from error

    def _argument(self, name: str) -> str:
        return self.spec.tensor(name).argument

    def _forward(self, call: OpCall, wanting: Collection[str]) -> _Pass:
        inputs = call.fresh()
        kept = {name: x.clone() for name, x in inputs.items()}
        for name in wanting:
            inputs[name].requires_grad_()
        outputs = op_calls.call(self.op, self.spec, inputs, call.scalars)
        return _Pass(call, inputs, outputs, kept | {name: x.detach().clone() for name, x in outputs.items()})

    def _backward(self, done: _Pass, given: Mapping[str, torch.Tensor], wanting: Collection[str]) -> None:
        """Differentiates the outputs for which something is given. Raises _Wrong."""
        import torch

        outputs, inputs = [done.outputs[name] for name in given], [done.inputs[name] for name in wanting]
        found = torch.autograd.grad(outputs, inputs, list(given.values()), retain_graph=True, allow_unused=True)
        expected = self._expected(done, given)
        for name, gradient in zip(wanting, found, strict=True):
            argument = self._argument(name)
            if name not in self.made:
                if gradient is not None:
                    raise _Wrong(f"{argument} gets a gradient, which no kernel computes")
                continue
            if gradient is None:
                raise _Wrong(f"{argument} gets no gradient")
            if gradient.dtype != done.inputs[name].dtype:
                raise _Wrong(f"the gradient of {argument} is {gradient.dtype}")
            if problem := op_calls.wrong_values(expected, {name: gradient}):
                raise _Wrong(f"the gradient of {problem}")

    def _expected(self, done: _Pass, given: Mapping[str, torch.Tensor]) -> dict[str, Expected]:
        """The gradients of inputs, by their names, as the kernels compute them of what they are to be given."""
        import torch

        found, chain = {}, Chain()
        arrived = {t.name: given.get(t.name, torch.zeros_like(done.kept[t.name])) for t in self.followed}
        for one in self.kernels:
            tensors = chain.inputs(one, done.kept, arrived)
            scalars = {s.name: done.call.scalars[s.name] for s in one.by.scalars}
            expected = of_arguments(one.by, evaluate(one.by, tensors, scalars), tensors)
            if one.passed:
                actual = results(one.by, tensors, scalars)
                for problem in unlike(one, expected, actual):
                    raise _Wrong(problem)
                chain.pass_on(one, actual)
            for name, like in one.made.items():
                result, by = expected[name], one.by.by_argument.tensor(name)
                rounded = cast(Bounded(result.value, result.bound, by.dtype), like.dtype)
                value, bound = (strided(x, by.shape, like.shape) for x in (rounded.value, rounded.error))
                found[like.name] = Expected(value, bound)
        return found

    def _unchanged(self, done: _Pass) -> None:
        """Raises _Wrong where an input or output is not what it was after the call."""
        for name, x in {**done.inputs, **done.outputs}.items():
            if not same_bits(x, done.kept[name]):
                raise _Wrong(f"{self._argument(name)} is overwritten")

    def _saved(self, call: OpCall) -> None:
        """All inputs, all outputs, twice: which outputs are differentiable, and that nothing is written."""
        done = self._forward(call, self.floats)
        for name, output in done.outputs.items():
            followed = any(t.name == name for t in self.followed)
            if output.requires_grad != followed and self.floats:
                raise _Wrong(f"{self._argument(name)} is {'not ' * followed}differentiable")
        if not self.followed:
            return
        for seed in (1, 2):
            given = {t.name: arriving(done.outputs[t.name], seed)[0][1] for t in self.followed}
            self._backward(done, given, self.floats)
            self._unchanged(done)

    def _layouts(self, call: OpCall) -> None:
        """Differentiates with incoming gradients of all strides, then with only one of several outputs used."""
        done = self._forward(call, self.floats)
        ways = {t.name: arriving(done.outputs[t.name], 3 + i) for i, t in enumerate(self.followed)}
        for number in range(max(map(len, ways.values()), default=0)):
            chosen = {name: way[number % len(way)] for name, way in ways.items()}
            with self._trying(", ".join(f"that for {self._argument(n)} {what}" for n, (what, _) in chosen.items())):
                self._backward(done, {name: x for name, (_, x) in chosen.items()}, self.floats)
        for name, way in ways.items() if len(ways) > 1 else ():
            with self._trying(f"{self._argument(name)} alone used"):
                self._backward(done, {name: way[0][1]}, self.floats)

    def _subsets(self) -> Iterator[tuple[str, ...]]:
        """The subsets of inputs that require gradients, except the full set, which is tested elsewhere."""
        count = len(self.floats)
        sizes = range(1, count) if count <= _ALL_SUBSETS else (1, count - 1)
        yield from chain.from_iterable(combinations(self.floats, size) for size in sizes)

    def _some_inputs(self, call: OpCall, wanting: Collection[str]) -> None:
        done = self._forward(call, wanting)
        if self.followed:
            given = {t.name: arriving(done.outputs[t.name], 5)[0][1] for t in self.followed}
            self._backward(done, given, wanting)

    def _changed(self, call: OpCall) -> None:
        """A tensor that the gradient reads and that changes meanwhile must raise, any other one must not."""
        import torch

        def differentiate(names: Collection[str]) -> None:
            done = self._forward(call, self.floats)
            given = {t.name: arriving(done.outputs[t.name], 7)[0][1] for t in self.followed}
            with torch.no_grad():
                for name in names:
                    changed({**done.inputs, **done.outputs}[name])
            self._backward(done, given, self.floats)

        if not self.followed or not self.floats:
            return
        for name in self.saved:
            try:
                differentiate([name])
            except RuntimeError as error:
                if "modified by an inplace operation" not in str(error):
                    raise
            else:
                raise _Wrong(f"{self._argument(name)} is read as it is then, and nothing is raised")
        differentiate([t.name for t in self.spec.tensors if t.name not in self.saved])

    def _at_any_size(self, call: OpCall) -> None:
        if problem := op_sizes.problem(self.op, self.spec, call.scalars):
            raise _Wrong(problem)

    def _utilities(self) -> None:
        call = self.calls[-1]
        inputs = call.fresh()
        for name in self.floats:
            inputs[name].requires_grad_(not self.spec.tensor(name).dtype.is_f8)
        places, named = op_calls.arranged(self.spec, inputs, call.scalars)
        for utility in possible(UTILITIES, self.host):
            if problem := opcheck(self.op, places, named, utility):
                raise _Wrong(problem)
