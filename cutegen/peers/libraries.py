"""Peers from libraries of kernels that a user may have installed: quack's, written in CuTeDSL, and Liger's, in Triton.

They are offered where a spec computes a formula that they have a function for. Arguments are never written: a function
that overwrites what it reads has copies, and each of them is made anew before it is used again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutegen.language.model import KernelSpec
from cutegen.peers import liger_calls, quack_calls
from cutegen.peers.formulas import Recognised, recognise
from cutegen.peers.given import Given, Memory
from cutegen.peers.peer import Peer

if TYPE_CHECKING:
    import torch

    from cutegen.peers.given import Call

    Named = Mapping[str, torch.Tensor]  # by the names of the spec's tensors

_MADE = {"quack": quack_calls.MADE, "Liger": liger_calls.MADE}
MOST_COPIES = 64
COPIED_BYTES = 4 << 30  # of copies: what a GPU reads and writes in about as long as a recording should take


@dataclass(frozen=True)
class LibraryCalls:
    """The calls of a library, which give the results in the order of the spec's outputs.

    Those that overwrite what they read have `restore`, which gives the memory of all of them its first values again.
    """

    calls: list[Callable[[], tuple[torch.Tensor, ...]]]
    restore: Callable[[], None] | None = None


def library_peers(spec: KernelSpec) -> tuple[Peer, ...]:
    """The peers of libraries that have a function for what a spec computes, installed or not."""
    found = recognise(spec)
    if found is None:
        return ()
    return tuple(Peer(name, "library", found=found) for name, made in _MADE.items() if found.formula in made)


def library_calls(
    peer: Peer, spec: KernelSpec, sets: Sequence[Named], scalars: Mapping[str, Any], *, warm: bool
) -> LibraryCalls:
    """The calls of a peer on each of several sets of tensors; on several copies of each, if they overwrite what they
    read. `warm` says that a call should find its tensors in the L2.

    Raises what the library does where it is not installed or cannot do it, and ValueError where nothing that is copied
    before each call can be in the L2.
    """
    assert peer.found is not None
    made = _made(peer, sets, scalars)
    memory = [each for given, _ in made for each in given.memory]
    if memory and warm:
        raise ValueError("it overwrites what it reads, which is copied before each call and so is not in the L2")
    for _ in range(1, _copies(memory, len(made)) if memory else 1):
        made += _made(peer, sets, scalars)
    calls = [_call(peer.found, call, spec, sets[number % len(sets)]) for number, (_, call) in enumerate(made)]
    every = [each for given, _ in made for each in given.memory]

    def restore() -> None:
        for each in every:
            each.restore()

    return LibraryCalls(calls, restore if every else None)


def unsettled() -> bool:
    """Whether a library is loaded that changes CuTeDSL itself, so that kernels must be compiled in another process."""
    return "quack" in sys.modules


def _made(peer: Peer, sets: Sequence[Named], scalars: Mapping[str, Any]) -> list[tuple[Given, Call]]:
    """A call on each set of tensors, with what it was given."""
    found = peer.found
    assert found is not None
    numbers = {name: scalars[v] if isinstance(v, str) else v for name, v in found.scalars.items()}
    made = []
    for named in sets:
        tensors: dict[str, Any] = {name: named[tensor] for name, tensor in found.inputs.items()}
        given = Given({**tensors, **numbers}, found.outputs.keys())
        made.append((given, _MADE[peer.name][found.formula](given)))
    return made


def _copies(memory: Sequence[Memory], sets: int) -> int:
    """How many copies there are of each set: as many as are worth a recording, if that is not too much memory."""
    size = sum(each.tensor.nbytes for each in memory)
    return max(1, min(MOST_COPIES // sets, COPIED_BYTES // max(1, size)))


def _call(found: Recognised, call: Call, spec: KernelSpec, named: Named) -> Callable[[], tuple[torch.Tensor, ...]]:
    """A call that gives the results in the order of the spec's outputs, and TypeError for those of another type."""
    names = {tensor: name for name, tensor in found.outputs.items()}
    outputs = [(names[tensor.name], named[tensor.name]) for tensor in spec.outputs]

    def results() -> tuple[torch.Tensor, ...]:
        given = call()
        for name, output in outputs:
            if given[name].dtype is not output.dtype and len(output.shape) == len(spec.lead.shape):
                raise TypeError(f"it gives {given[name].dtype}, and the kernel {output.dtype}")
        return tuple(given[name] for name, _ in outputs)

    return results
