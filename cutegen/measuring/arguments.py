"""The arguments of contenders: sets of the same random values, as many as keep them out of the L2 cache.

They are normally distributed, except for arguments that have a meaning in a known formula: a library may require that
targets are column numbers, or compute something else from values that are no distribution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from cutegen.contract import as_called
from cutegen.dtypes import Dtype
from cutegen.language.lengths import lengths_of
from cutegen.language.model import KernelSpec, Tensor
from cutegen.measuring.clock import MOST_LAUNCHES
from cutegen.measuring.model import L2
from cutegen.peers.formulas import Meaning, recognise
from cutegen.planning.scalars import measured_scalars
from cutegen.verification.cases import compact_allowed, strides_for
from cutegen.verification.places import places_for
from cutegen.verification.segments import uneven_ends

if TYPE_CHECKING:
    import torch

COLD = 4  # times the size of the L2 cache: so much is touched before an argument is used again


def bytes_of(spec: KernelSpec, sizes: Mapping[str, int]) -> int:
    """The bytes of one set of arguments, gaps between rows included."""
    return sum(_extent(t, spec, sizes) * t.dtype.bytes for t in spec.by_argument.tensors)


def sets_for(spec: KernelSpec, sizes: Mapping[str, int], l2: L2, l2_bytes: int) -> tuple[int, L2]:
    """How many sets of arguments take turns, and the state of the L2 that a call then finds.

    Arguments so small that a cold L2 would take more than `MOST_LAUNCHES` sets are measured warm.
    """
    needed = max(1, ceil(COLD * l2_bytes / max(1, bytes_of(spec, sizes))))
    if l2 == "warm" or needed > MOST_LAUNCHES:
        return 1, "warm"
    return needed, "cold"


@dataclass(frozen=True)
class Arguments:
    """Several sets of equal tensors for calls that take turns.

    `sets` hold them in the spec's order; `originals` are the first values of tensors that are read and written, by
    their place in a set. `l2` is the state of the L2 that a call finds where they take turns.
    """

    spec: KernelSpec
    sizes: Mapping[str, int]
    sets: tuple[tuple[torch.Tensor, ...], ...]
    scalars: Mapping[str, int | float | bool]
    originals: Mapping[int, torch.Tensor]
    l2: L2 = "cold"

    @property
    def output(self) -> int:
        """The place of the output in a set; of the first one, if there are several."""
        return self.outputs[0]

    @property
    def outputs(self) -> tuple[int, ...]:
        """The places of the outputs in a set, in the order of `spec.outputs`."""
        places = {tensor.name: place for place, tensor in enumerate(self.spec.tensors)}
        return tuple(places[tensor.name] for tensor in self.spec.outputs)

    def compiled(self, number: int) -> tuple[object, ...]:
        """Returns the arguments of the compiled function: the tensors of one set, then the scalars."""
        return (*self.sets[number], *self.scalars.values())

    def call(self, number: int) -> tuple[list[object], dict[str, object]]:
        """Returns the arguments of the generated function from one set: those by place, and those by name."""
        return as_called(self.spec, self.compiled(number))

    def named(self, number: int) -> dict[str, torch.Tensor]:
        return {t.name: x for t, x in zip(self.spec.tensors, self.sets[number], strict=True)}

    def reset(self) -> None:
        """Gives the tensors that are read and written their first values again, on the current stream."""
        for place, original in self.originals.items():
            for tensors in self.sets:
                tensors[place].copy_(original)

    def poison(self) -> None:
        """Gives tensors that are read and written their first values, and the others that are written wrong ones.

        No right result has these values.
        """
        self.reset()
        for place, tensor in enumerate(self.spec.tensors):
            if tensor.role == "out":
                for tensors in self.sets:
                    tensors[place].fill_(float("nan") if tensor.dtype.is_float else 77)


def make_arguments(
    spec: KernelSpec, sizes: Mapping[str, int], sets: int, device: str, seed: int = 0, l2: L2 = "cold"
) -> Arguments:
    """Makes `sets` times the same arguments of random normal numbers, rounded for integers; of a known formula, of what
    they mean there.

    Their strides have no gaps where `align` allows that. Raises torch's error where memory does not suffice.
    """
    import torch

    spec, found = spec.by_argument, recognise(spec)
    meanings = found.meanings if found else {}
    generator = torch.Generator(device).manual_seed(seed)
    first = tuple(_tensor(t, spec, sizes, generator, meanings.get(t.name)) for t in spec.tensors)
    copies = [first, *(tuple(map(like, first)) for _ in range(sets - 1))]
    originals = {i: like(first[i]) for i, t in enumerate(spec.tensors) if t.role == "inout"}
    scalars = measured_scalars(spec)
    scalars |= {name: value for name, value in (found.at if found else {}).items() if name not in spec.bench.scalars}
    return Arguments(spec, dict(sizes), tuple(copies), scalars, originals, l2)


def like(x: torch.Tensor, order: tuple[int, ...] | None = None) -> torch.Tensor:
    """A copy of a tensor in memory of its own, with the same strides.

    With `order` it has no gaps instead, and its modes lie in memory in that order, slowest first.
    """
    import torch

    if order is None:
        copy = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    else:
        copy = torch.empty_permuted(tuple(x.shape), order, dtype=x.dtype, device=x.device)
    return copy.copy_(x)


def _extent(tensor: Tensor, spec: KernelSpec, sizes: Mapping[str, int]) -> int:
    """The elements of a tensor from its first to its last one in memory, gaps included."""
    return 1 + sum((n - 1) * s for n, s in zip(tensor.extents(sizes), _strides(tensor, spec, sizes), strict=True))


def _strides(tensor: Tensor, spec: KernelSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return strides_for(tensor, sizes, "compact" if compact_allowed(spec, sizes) else "padded")


def _tensor(
    tensor: Tensor, spec: KernelSpec, sizes: Mapping[str, int], generator: torch.Generator, meaning: Meaning | None
) -> torch.Tensor:
    import torch

    shape = tensor.extents(sizes)
    dtype, device = getattr(torch, tensor.dtype.torch), generator.device
    places = places_for(spec, tensor.name, sizes, generator.initial_seed())
    if (segments := spec.segments) is not None and segments.ends == tensor.name:
        places = uneven_ends(sizes[segments.mode], sizes[segments.of], generator.initial_seed())
    if (lengths := lengths_of(spec.tensors)) is not None and lengths.used == tensor.name:
        places = torch.full(shape, sizes[lengths.mode], dtype=dtype)
    if places is not None:
        values, meaning = places.to(device), "coordinates"
    elif meaning == "coordinates":
        most = min(sizes[spec.lead.shape[-1]], tensor.dtype.range[1] + 1)
        values = torch.randint(most, shape, generator=generator, device=device)
    else:
        wide = torch.float64 if tensor.dtype is Dtype.f64 else torch.float32
        values = torch.randn(shape, generator=generator, device=device, dtype=wide)
    if meaning == "probabilities":
        values = values.softmax(-1)
    elif meaning == "log-probabilities":
        values = values.log_softmax(-1)
    elif tensor.dtype is Dtype.bool:
        values = values > 0
    elif tensor.dtype.is_integer and meaning is None:
        values = (values * 16).round().clamp(0 if tensor.dtype.is_unsigned else -64, 64)
    return torch.empty_strided(shape, _strides(tensor, spec, sizes), dtype=dtype, device=device).copy_(values)
