"""The member of a kernel's op that peers use, as documented in `cutegen.ops.op`."""

from __future__ import annotations

from typing import Protocol, cast

from cutegen.language.model import KernelSpec
from cutegen.peers.peer import Peer


class Op(Protocol):
    """A kind of computation, which a spec names in `op`."""

    def peers(self, spec: KernelSpec) -> tuple[Peer, ...]: ...


def op_of(spec: KernelSpec) -> Op:
    """The op of a spec."""
    return cast(Op, spec.operation)
