"""What peers ask of a kernel's op. `cutegen.ops.op` says what the answer means."""

from __future__ import annotations

from typing import Protocol, cast

from cutegen.language.model import KernelSpec
from cutegen.peers.peer import Peer


class Op(Protocol):
    """What is computed."""

    def peers(self, spec: KernelSpec) -> tuple[Peer, ...]: ...


def op_of(spec: KernelSpec) -> Op:
    """What a spec computes."""
    return cast(Op, spec.operation)
