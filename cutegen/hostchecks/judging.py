"""A call of a module on the host, with something wrong or with nothing wrong, and what is said of how it went."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING

from cutegen.errors import CutegenError
from cutegen.hostchecks.asked import family_of
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan
from cutegen.planning.recent import Recent
from cutegen.reference.bounds import evaluate
from cutegen.reference.taking import elements
from cutegen.verification.cases import Case
from cutegen.verification.compare import compare
from cutegen.verification.executor import CannotRun, Executor
from cutegen.verification.lacking import raise_no_memory

if TYPE_CHECKING:
    import torch

    from cutegen.analysis.buffers import Scratch
    from cutegen.codegen.parts import Workspace
    from cutegen.verification.tensors import Guarded


class NotRun(CutegenError):
    """Raised by a check that cannot be made here; the message says why."""


_WORKSPACES: Recent[Plan, tuple[Workspace, ...]] = Recent(4)


def workspaces_of(plan: Plan) -> tuple[Workspace, ...]:
    """The memory that the compiled function of a plan takes besides its tensors, as the text of the host code has it.
    It is kept for the last plans, since generating the text takes long.
    """
    return _WORKSPACES.of(plan, _workspaces)


def _workspaces(plan: Plan) -> tuple[Workspace, ...]:
    spaces = family_of(plan.spec).kernel_parts(plan).workspaces
    return spaces.each if spaces else ()


@dataclass(frozen=True)
class Check:
    """One thing to try: `run` says what is wrong, or nothing. `argument` and `what` are its name in reports."""

    argument: str
    what: str
    run: Callable[[], str]


@dataclass(frozen=True)
class Host:
    """A module and the arguments of a call with nothing wrong, from which checks make others.

    `case` says their sizes; `tensors` are in the spec's order, and so are `scalars`, by name. `whole` is the plan of
    the module where `plan` is that of one of its kernels, None where they are the same. `chosen` is the number of that
    kernel where calls would choose one by their cost.
    """

    plan: Plan
    module: ModuleType
    executor: Executor
    case: Case
    tensors: tuple[Guarded, ...]
    scalars: Mapping[str, object] = field(default_factory=dict)
    whole: Plan | None = None
    chosen: int | None = None

    @property
    def scratch(self) -> tuple[Scratch, ...]:
        """The memory that a call makes besides its outputs, for whichever kernel."""
        plan = self.whole or self.plan
        return tuple(family_of(plan.spec).scratch(plan))

    @property
    def has_workspaces(self) -> bool:
        """Whether there are `workspaces`: those of a module are its kernels', and each alone takes less time."""
        kernels = (self.whole or self.plan).kernels
        return any(family_of(kernel.spec).kernel_parts(kernel).workspaces for kernel in kernels)

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """The further memory that the compiled function takes, partly allocated by the call."""
        return workspaces_of(self.whole or self.plan)

    @property
    def spec(self) -> KernelSpec:
        return self.plan.spec.by_argument

    @property
    def views(self) -> dict[str, torch.Tensor]:
        """The tensors by name."""
        return {t.tensor.name: t.view for t in self.tensors}

    def look_at_memory(
        self, error: Exception, tensors: Iterable[torch.Tensor | None] = (), sizes: Mapping[str, int] | None = None
    ) -> None:
        """Raises NoMemory if a call with these tensors, of those sizes, failed because there is no memory for it."""
        import torch

        own = sum(x.untyped_storage().nbytes() for x in tensors if x is not None and x.layout is torch.strided)
        own += sum(scratch.bytes(sizes or self.case.sizes) for scratch in self.scratch)
        raise_no_memory(error, self.module, own)

    def with_scalars(self, scalars: Mapping[str, object]) -> Host:
        return replace(self, scalars=scalars)

    def with_sizes(self, sizes: Mapping[str, int]) -> Host:
        return replace(self, case=replace(self.case, sizes=sizes))

    def refuses(self, argument: str, what: str, views: Mapping[str, torch.Tensor], names: Sequence[str] = ()) -> Check:
        """That a call raises ValueError or TypeError, names one of `names` (else the argument), and writes nothing.

        `views` are the tensors that are not those of the call with nothing wrong.
        """
        return Check(argument, what, lambda: self._must_fail({**self.views, **views}, names or (argument,)))

    def takes(self, argument: str, what: str, views: Mapping[str, torch.Tensor | None]) -> Check:
        """That a call is made and gives what is expected; a tensor that is None is left for the module to make."""
        return Check(argument, f"accepts {what}", lambda: self._must_work({**self.views, **views}))

    def arguments(self, views: Mapping[str, torch.Tensor | None]) -> list[object]:
        return [*(views[t.name] for t in self.spec.tensors), *self.scalars.values()]

    def _must_fail(self, views: Mapping[str, torch.Tensor], names: Sequence[str]) -> str:
        import torch

        device = torch.device(self.executor.device).type
        here = {name: view for name, view in views.items() if view.device.type == device}
        before = {name: _bits(view) for name, view in here.items()}
        try:
            self.executor.run(self.module, self.spec, self.arguments(views), 1)
            self.executor.synchronize()
        except CannotRun:
            raise
        except (ValueError, TypeError) as error:
            if problem := unnamed(error, names):
                return problem
        except Exception as error:
            self.look_at_memory(error, views.values())
            return f"must be a ValueError or TypeError, was {type(error).__name__}: {str(error)[:300]}"
        else:
            return "was accepted"
        changed = [name for name, view in here.items() if not torch.equal(_bits(view), before[name])]
        return f"was rejected, but only after {changed[0]} was written" if changed else ""

    def _must_work(self, views: Mapping[str, torch.Tensor | None]) -> str:
        import torch

        given = {name: view.as_subclass(torch.Tensor) for name, view in views.items() if view is not None}
        scalars = {name: value for name, value in self.scalars.items() if isinstance(value, (bool, int, float))}
        expected = evaluate(self.spec, given, scalars)
        wrong: list[str] = []

        def judge(by: str) -> None:
            self.executor.synchronize()
            there = elements(self.spec, given)
            for name in (name for name in expected if name in there):
                result = compare(there[name].detach(), *expected[name])
                if not result.ok:
                    which = f" in {name}" * (len(expected) > 1)
                    wrong.append(f"{by or 'it'} gives a wrong result{which}: {result.reason}")

        try:
            ran = self.executor.run(self.module, self.spec, self.arguments(views), 1, judge)
        except CannotRun:
            raise
        except Exception as error:
            self.look_at_memory(error, views.values())
            went = "was refused" if isinstance(error, (ValueError, TypeError)) else "failed"
            return f"{went}: {type(error).__name__}: {str(error)[:300]}"
        for tensor, output in zip(self.spec.outputs, ran.outputs, strict=False):
            if views[tensor.name] is None:
                shape = tensor.extents(self.case.sizes)
                device = next(view.device for view in views.values() if view is not None)
                if device.type == output.device.type != "cpu" and output.device != device:
                    wrong.append(f"makes {tensor.argument} on {output.device}, not on {device}")
                    continue
                if (tuple(output.shape), str(output.dtype)) != (shape, f"torch.{tensor.dtype.torch}"):
                    wrong.append(f"makes {tensor.argument} as {output.dtype} {list(output.shape)}")
                    continue
                found = elements(self.spec, {**given, tensor.name: output})
                for name in (view.name for view in tensor.views or (tensor,) if view.writes):
                    if not (result := compare(found[name], *expected[name])).ok:
                        wrong.append(f"{tensor.argument}, which it made, is wrong: {result.reason}")
        return "; ".join(wrong)


def unnamed(error: Exception, names: Sequence[str]) -> str:
    """Checks that an error names one of the arguments; returns what is wrong, empty if it does.

    The signature that an error of the compiled function prints does not count: it has the names of all.
    """
    said = re.sub(r"when calling: `[^`]*`?", "", str(error))
    if any(names_argument(said, name) for name in names):
        return ""
    return f"the error does not name {' or '.join(names)}: {str(error)[:300]}"


def names_argument(message: str, name: str) -> bool:
    """Whether a message names an argument. The argument `a` is not the article: `a tensor` names nothing."""
    follows = r"(?!\s+(?!must|has|have|is|are|and|or|shares|overlaps|needs|does|should|may|was|with|at|on)\w)"
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w){follows if name == 'a' else ''}", message) is not None


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the elements of two tensors are the same, bit for bit, at any place."""
    import torch

    return torch.equal(_bits(a), _bits(b))


def _bits(view: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor's elements, copied, so that different NaNs and the two zeros compare as different."""
    import torch

    return view.detach().clone(memory_format=torch.contiguous_format).flatten().view(torch.uint8)
