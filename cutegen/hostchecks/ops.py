"""The op that torch knows a kernel by: whether it keeps what torch asks of one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from cutegen import contract
from cutegen.hostchecks.judging import Check, Host

UTILITIES = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
"""Of `torch.library.opcheck`: that an op writes and aliases what its schema says, works on tensors without data, and
in a graph of dynamic sizes. Its gradient is another module's."""


def checks(host: Host) -> Iterator[Check]:
    """That the op of a module, if it has one, passes what torch checks of ops."""
    if host.spec.torch.op is not None and host.executor.generated:
        for utility in UTILITIES:
            what = f"the op {host.spec.torch.op}: {utility} of torch.library.opcheck"
            yield Check(host.spec.output.argument, what, partial(_opcheck, host, utility))


def _opcheck(host: Host, utility: str) -> str:
    """What torch says against the op, called as the kernel is with nothing wrong."""
    import torch

    from cutegen.codegen.host import can_be_made

    namespace, _, name = str(contract.op(host.module)).partition("::")
    taken: list[Any] = []
    for view in (host.views[t.name] for t in host.spec.tensors if not can_be_made(host.spec, t)):
        own = torch.empty_strided(view.shape, view.stride(), dtype=view.dtype, device=host.executor.device)
        taken.append(own.copy_(view.detach().as_subclass(torch.Tensor)))
    with host.executor.known(host.module, host.spec):
        op = getattr(getattr(torch.ops, namespace), name).default
        arguments = (*taken, *host.scalars.values())
        found = torch.library.opcheck(op, arguments, test_utils=utility, raise_exception=False)
    problem = found[utility]
    return "" if problem == "SUCCESS" else f"{type(problem).__name__}: {str(problem)[:500]}"
