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
    Named,
    Path,
    Record,
    Text,
    key,
)
from cutegen.language.modes import Block, Lengths, Segments
from cutegen.language.values import ValueReader
from cutegen.views.extents import size_of

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
        "Names of its modes, at most 5; one name has one size in all tensors. A 1 has no name, and broadcasts. An "
        "argument that has views may have computed sizes, such as `2*N`; a view may leave out names that follow.",
        default=MISSING,
    )
    dtype: Dtype = key(DtypeName(), "Element type; that of a view is its argument's.", default=MISSING)
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
        "Modes along which elements are gathered or scattered: with `{V: ids}`, those along V are at the places "
        "that the tensor `ids` holds.",
        default=(),
    )
    view: str | None = key(
        Text(most=300),
        "The part of an argument that the tensor is, written like an index in torch: `GU[:, :N]`. Type, alignment and "
        "role are those of the argument.",
    )
    dense: tuple[str, ...] = ()  # the last modes, where the kernel takes them as one: no gaps are between them
    segments: tuple[Segments, ...] = ()  # those that its modes are cut into
    lengths: tuple[Lengths, ...] = ()  # of those of its modes of which only some elements exist
    views: tuple[Tensor, ...] = ()  # of a packed argument: the tensors that the kernel has instead of it
    step: int = 1  # elements from one to the next along `major`: of a view, maybe others; 0: no one number
    blocks: tuple[Block, ...] = ()  # what its modes are that have one element for each block of another

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
    def names(self) -> tuple[str, ...]:
        """Its names in `compute`: its own, or those of its views."""
        return tuple(view.name for view in self.views) or (self.name,)

    def runs_along(self, mode: str | None) -> bool:
        """Whether neighbours along a mode are neighbours in memory."""
        return self.major == mode and self.step == 1

    @property
    def writes(self) -> bool:
        return self.role in ("out", "inout")

    @property
    def argument(self) -> str:
        """The name of the generated function's parameter."""
        return self.name.lower()

    @property
    def free(self) -> tuple[str, ...]:
        """The modes whose sizes follow from no other's: all but those of blocks."""
        return tuple(mode for mode in self.shape if mode not in {block.mode for block in self.blocks})

    @property
    def spread(self) -> tuple[str, ...]:
        """The modes along which elements differ: those of blocks replaced by the modes that have the blocks."""
        of = {block.mode: block.of for block in self.blocks}
        return tuple(of.get(mode, mode) for mode in self.shape)

    def unit(self, mode: str) -> int:
        """The number of elements along a mode that have one element of this tensor: those of a block, else 1."""
        return next((block.size for block in self.blocks if block.of == mode), 1)

    def sized(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        """`sizes`, which has those of the free modes, with those of all others."""
        return {**sizes, **{block.mode: block.count(sizes) for block in self.blocks}} if self.blocks else sizes

    def extents(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Its shape in a call where `sizes` has the sizes of free modes. Raises KeyError for a mode without a size."""
        own = self.sized(sizes)
        return tuple(size_of(item, own) for item in self.shape)


@dataclass(frozen=True)
class Tensors(Named):
    """The tensors of a spec, arguments and views. Of a view only that is read and written which is its own: the rest is
    that of its argument, in which the model has it.
    """

    def read(self, value: Mapping[str, Any], ctx: ValueReader, path: Path) -> tuple[Any, ...]:
        given = {name: {"dtype": Dtype.f32.value, "shape": [], **inner} for name, inner in value.items()}
        return super().read(given, ctx, path)

    def write(self, value: Sequence[Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for tensor in (one for argument in value for one in (argument, *argument.views)):
            own = {"shape": [], **Record(self.record).write(tensor)}
            found[tensor.name] = own if tensor.view is None else {name: own[name] for name in OF_VIEWS}
        return found


OF_VIEWS = ("shape", "view")  # the keys of a view


def element_modes(tensor: Tensor, tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """The modes of a tensor's elements as `compute` has them: for modes that are taken `at` the places of another
    tensor, once that tensor's, and for blocks the mode that has them. `W: {shape: [V, D], at: {V: ids}}` with
    `ids: {shape: [B, T]}` has elements of [B, T, D].
    """
    indices = {t.name: t.shape for t in tensors}
    at = dict(tensor.at)
    found = [new for mode in tensor.spread for new in (indices.get(at[mode], ()) if mode in at else (mode,))]
    return tuple(dict.fromkeys(found))


def with_elements(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The tensors that hold the elements of each: of those taken `at` places the ones that indexing makes, and of those
    with modes of blocks the ones that repeating makes.
    """
    found = []
    for tensor in tensors:
        if tensor.at or tensor.blocks:
            shape = element_modes(tensor, tensors)
            major = tensor.major if tensor.major in shape else shape[-1]
            tensor = replace(tensor, shape=shape, major=major, at=(), blocks=())
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
