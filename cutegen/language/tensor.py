"""A tensor of a spec: its modes, its type, and where its elements are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from typing import Any, Literal

from cutegen.dtypes import Dtype
from cutegen.expressions.places import ONE
from cutegen.language.kinds import (
    ByName,
    Choice,
    DtypeName,
    Integer,
    IsWritten,
    Items,
    ModeName,
    Path,
    Text,
    key,
)
from cutegen.language.modes import Segments
from cutegen.language.values import ValueReader

Role = Literal["in", "out", "inout"]


@dataclass(frozen=True)
class Pairs(ByName):
    """A mapping that is a tuple of pairs in the model, so that what has it can be hashed."""

    def read(self, value: Mapping[str, Any], ctx: ValueReader, path: Path) -> Any:
        return tuple(super().read(value, ctx, path).items())

    def write(self, value: Any) -> dict[str, Any]:
        return super().write(dict(value))

    def as_written(self, value: Any, path: Path, is_written: IsWritten) -> Any:
        return tuple(super().as_written(dict(value), path, is_written).items())


@dataclass(frozen=True)
class Tensor:
    """A tensor that the kernel reads, writes or both, by name; each mode of its shape has a name too."""

    name: str
    shape: tuple[str, ...] = key(
        Items(ModeName(), most=5),
        "Names of its modes, at most 5; one name has one size in all tensors. A 1 has no name, and broadcasts.",
        default=MISSING,
        required=True,
    )
    dtype: Dtype = key(DtypeName(), "Element type.", default=MISSING, required=True)
    major: str | None = key(Text(), "The contiguous mode, the one with stride 1.")
    align: int | None = key(
        Integer(1, 1024),
        "Alignment in bytes of the base pointer and of all strides but the contiguous one: a power of two from the "
        "element's size to 1024.",
    )
    role: Role = key(
        Choice(("in", "out", "inout")),
        "`in` is read (the default), `out` is written, `inout` is both.",
        default="in",
    )
    at: tuple[tuple[str, str], ...] = key(
        Pairs(Text(), "The tensor of integers with the places.", least=1),
        "Modes along which the elements are taken at places that another tensor has: `{V: ids}` takes, along V, the "
        "place that `ids` has.",
        default=(),
    )
    dense: tuple[str, ...] = ()  # the last modes, where the kernel takes them as one: no gaps are between them
    segments: tuple[Segments, ...] = ()  # those that its modes are cut into

    @property
    def modes(self) -> tuple[str, ...]:  # those that have names
        return tuple(mode for mode in self.shape if mode != ONE)

    @property
    def contiguous(self) -> str:
        """The mode with stride 1, which is the last if none was written."""
        return self.major or (self.modes or (ONE,))[-1]

    @property
    def reads(self) -> bool:
        return self.role in ("in", "inout")

    @property
    def writes(self) -> bool:
        return self.role in ("out", "inout")

    @property
    def argument(self) -> str:
        """The name of the generated function's parameter."""
        return self.name.lower()


def element_modes(tensor: Tensor, tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """The modes of a tensor's elements as `compute` has them: for modes that are taken `at` the places of another
    tensor, once that tensor's. `W: {shape: [V, D], at: {V: ids}}` with `ids: {shape: [B, T]}` has elements of
    [B, T, D].
    """
    indices = {t.name: t.shape for t in tensors}
    at = dict(tensor.at)
    found = [new for mode in tensor.shape for new in (indices.get(at[mode], ()) if mode in at else (mode,))]
    return tuple(dict.fromkeys(found))


def with_elements(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The tensors that hold the elements of each: of those taken `at` places the ones that indexing makes."""
    found = []
    for tensor in tensors:
        if tensor.at:
            shape = element_modes(tensor, tensors)
            major = tensor.major if tensor.major in shape else shape[-1]
            tensor = replace(tensor, shape=shape, major=major, at=())
        found.append(tensor)
    return tuple(found)


def with_rows(tensors: Sequence[Tensor], but: Collection[str]) -> tuple[Tensor, ...]:
    """The tensors that have a row for each row of the segments in place of one for each segment, but for those named in
    `but` and the ends of the segments: `bias: {shape: [X, N]}` has rows [M, N] where M is cut into segments of X.
    """
    of = {segments.of: segments for tensor in tensors for segments in tensor.segments}
    kept = {*but, *(segments.ends for segments in of.values())}
    found = []
    for tensor in tensors:
        if tensor.name not in kept and not of.keys().isdisjoint(tensor.shape):
            rows = {mode: segments.mode for mode, segments in of.items()}
            shape = tuple(rows.get(mode, mode) for mode in tensor.shape)
            tensor = replace(tensor, shape=shape, major=rows.get(tensor.contiguous, tensor.major))
        found.append(tensor)
    return tuple(found)
