"""A kernel spec as data: frozen, typed, in the spec's own words and in the language's order of keys.

Every field that is a key says here, once, what may stand there and what it means: the schema, the reader, the writer
and `explain` follow from it. A field that is `None` was left out and is inferred by planning, which returns the same
classes with every field that applies filled in. Layouts are `tensor_layouts.Layout`; sizes are in elements, `align` in
bytes, `bits` in bits. The schedule is a dataclass of the family that the kernel belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from cutegen.atoms.targets import TARGETS
from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Compute
from cutegen.language.counts import Count
from cutegen.language.kinds import (
    MAX_INT,
    ByName,
    Choice,
    CountText,
    DtypeName,
    Integer,
    Items,
    Kind,
    Named,
    Number,
    Path,
    Record,
    Sizes,
    Text,
    key,
)
from cutegen.language.modes import Block, Mode, Segments
from cutegen.language.signature import Signature
from cutegen.language.source import Source as Source
from cutegen.language.tensor import Role as Role
from cutegen.language.tensor import Tensor as Tensor
from cutegen.language.tensor import Tensors, with_elements, with_rows
from cutegen.language.torch_key import TorchOp
from cutegen.language.values import ValueReader
from cutegen.views.cuts import with_arguments, with_views
from cutegen.views.extents import is_computed
from cutegen.views.sizes import computed_modes

LANGUAGE = 1  # the version of the language, which every spec says with `cutegen: 1`
MAX_STATEMENTS = 64  # of compute
SCALAR_DTYPES = (Dtype.f32, Dtype.f64, Dtype.i64, Dtype.i32)
MODE_SIZE = "Size of this mode."


@dataclass(frozen=True)
class Scalar:
    """A number that the kernel is called with."""

    name: str
    dtype: Dtype

    @property
    def argument(self) -> str:
        return self.name


@dataclass(frozen=True)
class ScalarsByName(Kind):
    """A mapping from the names of scalars to their types: a tuple of `Scalar` in the model."""

    def schema(self, says: str) -> dict[str, Any]:
        each = DtypeName(SCALAR_DTYPES).schema("Type of the scalar.")
        return {"description": says, "type": "object", "additionalProperties": each, "maxProperties": 32}

    def read(self, value: Mapping[str, Any], ctx: ValueReader, path: Path) -> tuple[Scalar, ...]:
        return tuple(Scalar(name, Dtype(dtype)) for name, dtype in value.items())

    def write(self, value: tuple[Scalar, ...]) -> dict[str, str]:
        return {scalar.name: scalar.dtype.value for scalar in value}


class Schedule:
    """The base class of all families' schedules: each subclass belongs to one family, which sets its `family`."""

    family: ClassVar[Any]

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        """Takes what another process pickled, and opens the families here if no one has: they set `family`."""
        self.__dict__.update(state)
        if not hasattr(self, "family"):
            from cutegen.registry import open_all

            open_all()

    def as_data(self) -> Any:
        """The schedule as a spec writes it: layouts and counts stay as they are, for the writer to print."""
        return Record(type(self)).write(self)

    @property
    def narrows(self) -> bool:
        """Whether the kernel takes what its accesses do not fit, and then has accesses of one element."""
        return False

    @property
    def fast_math(self) -> bool:
        """Whether `exp` of f32 is 2 to a power that is rounded first, instead of what the library has."""
        return False

    @property
    def fast_elements(self) -> bool:
        """Whether `tanh` of f32 has an absolute error, and elements are multiplied by the reciprocals of scalars and of
        numbers that they are divided by.
        """
        return False


_SHAPES = Items(ByName(Integer(0), MODE_SIZE, least=1), "One size for each mode.", most=64)
_MEASURED = Items(ByName(Integer(1), MODE_SIZE, least=1), "One size for each mode.", most=64)


@dataclass(frozen=True)
class Tolerance:
    """How far results may be from the reference, besides the bound that verification derives."""

    rtol: float | None = key(Number(), "Relative to the reference.")
    atol: float | None = key(Number(), "Absolute.")


@dataclass(frozen=True)
class Verify:
    """How the kernel is verified, besides what follows from the spec."""

    shapes: tuple[Mapping[str, int], ...] = key(
        _SHAPES, "Shapes to verify on, in addition to the derived ones.", default=()
    )
    tolerance: Tolerance = key(Record(Tolerance), "Largest error allowed against the reference.", factory=Tolerance)


@dataclass(frozen=True)
class Bench:
    """How the kernel is measured."""

    shapes: tuple[Mapping[str, int], ...] = key(
        _MEASURED, "Shapes to measure at; by default they follow from the op.", default=()
    )
    scalars: Mapping[str, float] = key(
        ByName(Number(signed=True), "Its value.", least=1),
        "Values of scalars to measure with, such as the length of a window.",
        factory=dict,
    )


@dataclass(frozen=True)
class Expect:
    """Assertions on the compiled artefact, checked for every target."""

    spills: Count | None = key(CountText(), "Bytes of local memory that spilling stores or loads.")
    registers: Count | None = key(CountText(), "Registers of a thread.")
    bank_clashes: Count | None = key(
        CountText(), "FFMA instructions that read three registers of one bank of the register file."
    )
    sass: Mapping[str, Count] = key(
        ByName(CountText(), "How often."),
        "Occurrences in the SASS by glob over the mnemonic, such as `LDG.E.128` or `LDGSTS*.128`.",
        factory=dict,
    )


if TYPE_CHECKING:  # `KernelSpec` alone is that of any family
    from typing_extensions import TypeVar as TypeVarWithDefault

    S = TypeVarWithDefault("S", bound=Schedule, default=Any)
else:
    S = TypeVar("S")


@dataclass(frozen=True)
class ComputeText(Kind):
    """The statements of `compute`, which `cutegen.language.statements` reads."""

    def schema(self, says: str) -> dict[str, Any]:
        one = {"type": "string", "minLength": 1}
        several = {"minItems": 1, "maxItems": MAX_STATEMENTS, "items": one}
        return {"description": says, "type": ["string", "array"], "minLength": 1, **several}

    def write(self, value: Compute) -> str | list[str]:
        return value.as_data()


@dataclass(frozen=True)
class ScheduleKeys(Kind):
    """The keys of a schedule, which are those of its family's dataclass; or a list of cases, which have `for`, too."""

    def schema(self, says: str) -> dict[str, Any]:
        return {"description": says, "type": ["object", "array"]}

    def write(self, value: Schedule) -> Any:
        return value.as_data()


@dataclass(frozen=True)
class OpName(Kind):
    """The name of an op; which there are follows from the families."""

    def schema(self, says: str) -> dict[str, Any]:
        from cutegen.registry import ops

        told = [f"`{op.name}`{f' ({op.summary})' if op.summary else ''}" for op in ops()]
        return {"description": f"{says} {', '.join(told[:-1])} or {told[-1]}.", "enum": [op.name for op in ops()]}


@dataclass(frozen=True, kw_only=True)
class KernelSpec(Signature[Tensor], Generic[S]):
    """One kernel: one combination of a spec's matrix."""

    kernel: str = key(
        Text(),
        "Name of the kernel, of its module and of its function: a Python identifier of at most 64 characters. `{a}` "
        "stands for a value of the matrix, in lower case.",
        default=MISSING,
        required=True,
    )
    summary: str = key(
        Text(most=1000), "One line on what the kernel does; it becomes the module's docstring.", default=""
    )
    op: str = key(OpName(), "Kind of kernel:", default=MISSING, required=True)
    tensors: tuple[Tensor, ...] = key(
        Tensors(Tensor, "tensor", least=1, most=32),
        "The tensors by name, in the order of the generated function's parameters, and of its results.",
        default=MISSING,
        required=True,
        block=True,
    )
    declared_modes: tuple[Mode, ...] = key(
        Named(Mode, "mode", most=8),
        "Relations of modes. `{M: {of: X, offsets: ends}}` cuts M into segments, one for each element along X: "
        "the rows of segment x go with element x along X. With `{N: {of: B, lengths: used}}` only the first `used[b]` "
        "elements of N exist for each b along B. `{KB: {blocks: K, size: 128}}` declares KB, which has one element for "
        "each 128 of K.",
        default=(),
        block=True,
        name="modes",
    )
    scalars: tuple[Scalar, ...] = key(ScalarsByName(), "Scalar arguments by name.", default=())
    compute: Compute = key(
        ComputeText(),
        "One assignment in Python's expression syntax, such as `C = alpha * (A @ B.T) + beta * C` or `D = where(X "
        "> 0, X, 0)`; or a list of them, computed in their order. An assigned name that is not a tensor is a local "
        "value.",
        block=True,
        default=MISSING,
        required=True,
    )
    schedule: S = key(
        ScheduleKeys(),
        "How the kernel does it; the keys depend on `op`. Or a list of cases: the first whose `for` holds is taken, "
        "by target when it is compiled, by sizes when it is called.",
        default=MISSING,
        block=True,
    )
    tune: Mapping[str, tuple[Any, ...]] = key(
        ByName(Items(None, least=1, most=256), "The values to try, each as it would be written at that path.", 1, 32),
        "The fields of the schedule that `cutegen tune` may change, by dotted path, such as "
        "`schedule.pipeline.stages`, each with the values to try. All combinations are candidates.",
        factory=dict,
        block=True,
    )
    targets: tuple[str, ...] = key(
        Items(Choice(tuple(TARGETS)), "An architecture of CUDA.", least=1, different=True),
        "Architectures to compile for.",
        default=(),
    )
    static: Mapping[str, int] = key(
        Sizes(Integer(), "The only size of this mode."), "Modes of a fixed size, checked at each call.", factory=dict
    )
    divisible: Mapping[str, int] = key(
        ByName(Integer(), "A divisor of the size of this mode."),
        "Modes whose size is promised to be a multiple, checked when the kernel is called.",
        factory=dict,
    )
    verify: Verify = key(
        Record(Verify),
        "How the kernel is verified, in addition to the derived cases.",
        factory=Verify,
        block=True,
    )
    bench: Bench = key(Record(Bench), "How the kernel is measured.", factory=Bench, block=True)
    torch: TorchOp = key(Record(TorchOp), "The torch op of the kernel.", factory=TorchOp)
    expect: Expect = key(
        Record(Expect), "Assertions on the compiled artefact, checked for every target.", factory=Expect, block=True
    )
    source: Source = field(default=Source(), compare=False, repr=False)
    arguments: tuple[Tensor, ...] = ()  # where `tensors` are those of the kernel, and some are views of these
    within: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # least and largest, for one of several cases
    has_module: bool = field(default=True, compare=False)  # whether `modules` lets `cutegen build` write its module

    @property
    def family(self) -> object:
        """The family of kernels that the spec's schedule belongs to: each room has a `family_of` for what it asks."""
        return self.schedule.family

    @property
    def operation(self) -> object:
        """The kernel's op: the object that knows its reference, its work and its peers. See `op_of`."""
        op: object = self.schedule.family.op_of(self)
        return op

    def sizes_of(self, mode: str) -> tuple[int, int]:
        """The least and the largest size of a mode that a call can have."""
        return self.within.get(mode, (0, MAX_INT))

    def takes(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call can have these sizes, by what the spec says of each mode."""
        fixed = all(self.static.get(mode, size) == size for mode, size in sizes.items())
        divided = all(size % self.divisible.get(mode, 1) == 0 for mode, size in sizes.items())
        inside = all(size in range(self.sizes_of(m)[0], self.sizes_of(m)[1] + 1) for m, size in sizes.items())
        return fixed and divided and inside

    def tensor(self, name: str) -> Tensor:
        return next(t for t in self.tensors if t.name == name)

    @cached_property
    def by_view(self) -> KernelSpec[S]:
        """The same kernel with the tensors that it has: instead of arguments that are packed their views. It is the
        spec itself where no argument is.
        """
        if not any(tensor.views for tensor in self.tensors):
            return self
        values = dict(self.source.values)
        tensors = with_views(self.tensors, self.static, self.divisible)
        for tensor in tensors:
            if tensor.view is not None and tensor.align is not None:
                values["tensors", tensor.name, "align"] = self.source.at("tensors", tensor.name, "view")
        source = replace(self.source, values=values)
        return replace(self, tensors=tensors, arguments=self.tensors, source=source)

    @cached_property
    def by_argument(self) -> KernelSpec[S]:
        """The same kernel with the arguments of its function. It is the spec itself where no argument is packed."""
        if not self.arguments:
            return self
        found = replace(self, tensors=with_arguments(self.tensors, self.arguments), arguments=())
        found.__dict__["by_view"] = self  # with all that planning found
        return found

    @cached_property
    def by_element(self) -> KernelSpec[S]:
        """The same kernel on tensors that have an element for each coordinate: views instead of packed arguments, and
        those taken `at` places elsewhere are those that indexing by the places makes. Those with one row for each
        segment have one for each row of them, unless a matrix product multiplies them. It is the spec itself where no
        tensor is of such a kind.
        """
        spec = self.by_view
        tensors = with_rows(with_elements(spec.tensors), self.factors)
        return spec if tensors == spec.tensors else replace(spec, tensors=tensors)

    @cached_property
    def taken(self) -> frozenset[str]:
        """The modes that memory has, and no coordinates in `compute`: those along which elements are taken `at` places,
        and those of arguments that no view has.
        """
        return frozenset(mode for tensor in self.tensors for mode, _ in tensor.at) | {*self._beside}

    @cached_property
    def _beside(self) -> tuple[str, ...]:
        """The modes of packed arguments that none of the kernel's tensors has."""
        having = {mode for tensor in self.by_view.tensors for mode in tensor.shape}
        packed = tuple(t for t in self.by_argument.tensors if t.views)
        plain = (mode for t in packed for mode in t.shape if not is_computed(mode))
        return tuple(m for m in dict.fromkeys((*plain, *computed_modes(packed))) if m not in having)

    @cached_property
    def factors(self) -> frozenset[str]:
        """The tensors that matrix products multiply, by name."""
        return frozenset(name for product in self.compute.products for name in (product.a, product.b))

    @cached_property
    def segments(self) -> Segments | None:
        """The mode that is cut into segments, if there is one."""
        return next((segments for tensor in self.tensors for segments in tensor.segments), None)

    @cached_property
    def lead(self) -> Tensor:
        """The tensor whose modes are those that the kernel walks, in their order; its majorness leads."""
        operation: Any = self.operation
        lead: Tensor = operation.lead(self)
        return lead

    @cached_property
    def modes(self) -> tuple[str, ...]:
        """Every mode with a size of its own, in order of first appearance, those of the leading tensor first. Those of
        blocks have none.
        """
        own = (mode for tensor in self.by_view.tensors for mode in tensor.free)
        return tuple(dict.fromkeys((*self.lead.free, *own, *self._beside)))

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The modes with one element for each block of another mode, in order of first appearance."""
        return tuple(dict.fromkeys(block for tensor in self.tensors for block in tensor.blocks))
