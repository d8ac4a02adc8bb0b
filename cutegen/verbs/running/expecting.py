"""Which of a call's tensors a reference speaks of, and how they compare."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cutegen.console import count
from cutegen.errors import CutegenError
from cutegen.verbs.running.comparing import compare
from cutegen.verbs.running.job import Compared, Job

if TYPE_CHECKING:
    import torch

    from cutegen.emulator import Called


_HELP = (
    "return a tensor for each output, in their order; or a dict with the names of arguments; or write to the arguments "
    "and return nothing"
)


class NoMatch(CutegenError):
    """The results of a reference cannot be paired with those of the function."""


def copies(value: Any) -> Any:
    """A copy of arguments for a reference: tensors are plain ones of the CPU with memory of their own."""
    import torch

    from cutegen.emulator.calls.arguments import torch_tensor
    from cutegen.emulator.calls.call import mapped

    def copied(each: Any) -> Any:
        found = torch_tensor(each)
        if found is None:
            return each
        plain = found.as_subclass(torch.Tensor).detach()
        copy = plain.clone()  # which keeps strides where they are dense
        return copy.requires_grad_(found.requires_grad) if found.requires_grad else copy

    return mapped(value, copied)


def compared(
    called: Called,
    reference: Callable[..., Any],
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    job: Job,
    clones: Mapping[str, torch.Tensor],
) -> dict[str, Compared]:
    """How the tensors of a call compare to a reference's, by their names.

    `arguments` and `named` are copies of those of the call, which the reference may write to, and `clones` the tensors
    among them, by their names. Raises NoMatch, also where that would compare nothing, and what the reference raises.
    """
    expected = reference(*arguments, **named)
    got = _matched(called, expected, job, clones)
    if not got:
        raise NoMatch("the reference gives no tensor, so nothing was compared", _HELP)
    return {name: compare(one, other, job.rtol, job.atol) for name, (one, other) in got.items()}


def not_compared(called: Called, names: Collection[str]) -> list[str]:
    """The names of the nonempty tensors that were returned or written and share no memory with those of `names`."""
    seen = {_memory(one.tensor) for one in (*called.arguments, *called.results) if one.name in names}
    made = [*(one for one in called.arguments if one.written), *called.results]
    return [one.name for one in made if one.tensor.numel() and _memory(one.tensor) not in seen]


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _matched(
    called: Called, expected: Any, job: Job, clones: Mapping[str, torch.Tensor]
) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Pairs of tensors: one of the call, and the one that is expected there."""
    from cutegen.emulator.calls.memory import tensors_in

    given = {touched.name: touched.tensor for touched in called.arguments}
    if expected is None:
        if called.results:
            raise NoMatch(
                f"the reference returns nothing, and the function {count(len(called.results), 'tensor')}",
                "return what is expected of the function's results",
            )
        return {name: (tensor, clones[name]) for name, tensor in given.items()}
    if isinstance(expected, dict):
        return dict(_named(called, expected))
    wanted = [tensor for _, tensor in tensors_in(expected)]
    if called.results:
        found, what = {touched.name: touched.tensor for touched in called.results}, "the function returns"
    elif job.outputs is not None:
        found = {name: given[name] for name in (*job.outputs, *job.inouts)}
        what = "--outputs and --inouts name"
    else:
        found = {touched.name: touched.tensor for touched in called.arguments if touched.written}
        what = "the kernels write"
    if len(found) != len(wanted):
        listed = f" ({', '.join(found)})" if found else ""
        raise NoMatch(f"the reference returns {count(len(wanted), 'tensor')}, and {what} {len(found)}{listed}", _HELP)
    return {name: (tensor, other) for (name, tensor), other in zip(found.items(), wanted, strict=True)}


def _named(called: Called, expected: Mapping[str, Any]) -> Iterator[tuple[str, tuple[torch.Tensor, torch.Tensor]]]:
    """The pairs for a dict: its names are those of arguments and results, or of what the function returns in a dict."""
    import torch

    known = {touched.name: touched.tensor for touched in (*called.arguments, *called.results)}
    returned = called.result if isinstance(called.result, dict) else {}
    for given, tensor in expected.items():
        name = f"result[{given!r}]" if given in returned else str(given)
        if name not in known:
            help = f"there are {', '.join(known)}"
            raise NoMatch(f"the reference gives `{given}`, which is neither an argument nor a result", help)
        if not isinstance(tensor, torch.Tensor):
            raise NoMatch(f"the reference gives `{given}` as {type(tensor).__name__}, where a tensor is expected")
        yield name, (known[name], tensor)
