"""Checks of an op by `torch.library.opcheck`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cutegen.hostchecks import op_calls
from cutegen.hostchecks.judging import Host

if TYPE_CHECKING:
    import torch

IN_GRAPHS = "test_aot_dispatch_dynamic"


def possible(utilities: Sequence[str], host: Host) -> Iterator[str]:
    """Those utilities that can be used on an op: in graphs torch copies arguments, and leaves no gaps between rows."""
    *_, last = op_calls.calls(host)
    yield from (utility for utility in utilities if last.compact or utility != IN_GRAPHS)


def opcheck(op: Any, places: tuple[Any, ...], named: dict[str, Any], utility: str) -> str:
    """Checks a call of an op with a utility of `torch.library.opcheck`; returns its complaint, empty if it passes."""
    import torch

    if utility == IN_GRAPHS:
        problem: object = _in_graphs(op, places, named)
    else:
        problem = torch.library.opcheck(op, places, named, test_utils=utility, raise_exception=False)[utility]
    return "" if problem in (None, "SUCCESS") else f"{utility}: {type(problem).__name__}: {str(problem)[:500]}"


def _in_graphs(op: Any, places: tuple[Any, ...], named: dict[str, Any]) -> Exception | None:
    """The exception of the utility for graphs of dynamic sizes, or None. It gets the op's results with floats first.

    The utility adds up all results in place, to one number that it differentiates. That raises if the first is an
    integer.
    """
    import torch
    from torch.testing._internal import optests
    from torch.utils._pytree import tree_map_only

    def called(*places: Any, **named: Any) -> tuple[torch.Tensor, ...]:
        places, named = tree_map_only(torch.Tensor, torch.clone, (places, named))
        found = op(*places, **named)
        results = () if found is None else found if isinstance(found, tuple) else (found,)
        return tuple(sorted(results, key=lambda result: not result.is_floating_point()))

    equal = partial(torch.testing.assert_close, equal_nan=True)
    check: Any = vars(optests)["aot_autograd_check"]  # of which `opcheck` consists here; torch exports nothing else
    try:
        check(called, places, named, dynamic=True, assert_equals_fn=equal, check_gradients="auto")
    except Exception as error:
        return error
    return None
