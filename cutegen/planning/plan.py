"""The base class of all plans; a family's own plan adds every number and choice that its templates print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cutegen.autograd import Gradient
from cutegen.expressions.tree import Typed
from cutegen.language.model import KernelSpec
from cutegen.planning.asked import family_of
from cutegen.planning.estimate import Estimate


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every number and every choice of one kernel: templates print it and decide nothing. Sizes are in elements."""

    spec: KernelSpec  # resolved
    threads: int  # of a block
    tile: Mapping[str, int]  # by mode: of a thread block, or of what its family divides the work among
    statements: tuple[Typed, ...] = ()  # `compute` in the types that the kernel computes in
    smem_bytes: int = 0  # dynamic shared memory of a block
    way: str = ""  # of running, by name: of a kernel that has several, one but the first
    case: str = ""  # of several, in which the kernel is this one, in words
    stages: int | None = None  # tiles of the summed mode that shared memory holds; None without such a pipeline
    gradients: tuple[Gradient, ...] = ()  # the kernels that compute the gradient of its op

    @property
    def kernels(self) -> tuple[Plan, ...]:
        """The kernels among which a call chooses, by its target and arguments: one, or one for each case."""
        return (self,)

    @property
    def tells(self) -> Mapping[str, str]:
        """Constants that tell kernels of several forms from each other where functions serve all of them, with their
        values as text: more than 1, or True, of a kernel that has something which others lack, whose are 1 or False.
        """
        return {}

    @property
    def by_role(self) -> Mapping[str, str]:
        """Names that the text of a kernel has for others, where its functions are merged with those of kernels whose
        tensors have other parts in it. `launch` keeps the order of its parameters.
        """
        return {}

    @cached_property
    def ways(self) -> tuple[Plan, ...]:
        """The ways in which the kernel runs, as `Family.variants` has them."""
        return family_of(self.spec).variants(self)

    def threads_on(self, target: str) -> int:
        """Threads of a block on a target: the most that one of its kernels has."""
        return max(kernel.threads for kernel in self.kernels if target in kernel.spec.targets)

    def smem_on(self, target: str) -> int:
        """Bytes of dynamic shared memory of a block on a target: the most that one of its kernels has."""
        return max(kernel.smem_bytes for kernel in self.kernels if target in kernel.spec.targets)

    def own_sizes(self, kernel: Plan, sizes: dict[str, int]) -> dict[str, int] | None:
        """The sizes, changed as little as makes a call get that one of the kernels; None where none were found.

        That a kernel is not the one with the least cost is no reason: `chosen_as` says how it is called all the same.
        """
        return sizes

    def taken(self, sizes: Mapping[str, int], target: str | None = None, multiprocessors: int | None = None) -> Plan:
        """The plan of the kernel that a call of these sizes has on a target, independent of other conditions of its
        case; without a target, the plan of the first case whose size conditions match. Here and below, costs are those
        on a GPU of so many multiprocessors; None: on the one that is assumed where none is known.
        """
        return self

    def targets_of(self, kernel: Plan, sizes: Mapping[str, int]) -> tuple[str, ...]:
        """The targets on which a call of sizes that `own_sizes` gave for one of the kernels runs that kernel."""
        return kernel.spec.targets

    def chosen_for(self, sizes: Mapping[str, int], multiprocessors: int | None = None) -> int | None:
        """The number of the kernel with the least cost for a call of these sizes, among those that are compared."""
        return None

    def estimates(self, sizes: Mapping[str, int], multiprocessors: int | None = None) -> tuple[tuple[str, float], ...]:
        """The cases among which a call of these sizes chooses by their cost, each with its estimate in microseconds."""
        return ()

    def estimate(self, sizes: Mapping[str, int], multiprocessors: int | None = None) -> Estimate | None:
        """The estimate of a call of these sizes, where it takes a kernel because that has the least."""
        return None

    @property
    def assumed_multiprocessors(self) -> int | None:
        """Those of the GPU that estimates are for where none is known; None without estimates."""
        return None

    def chosen_as(self, kernel: Plan) -> int | None:
        """The number of that kernel among those that are compared by their cost."""
        return None
