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
from cutegen.language.diagnostics import START, Diagnostic, Severity, Span
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
from cutegen.language.modes import Mode, Segments
from cutegen.language.signature import Signature
from cutegen.language.tensor import Role as Role
from cutegen.language.tensor import Tensor as Tensor
from cutegen.language.tensor import with_elements, with_rows
from cutegen.language.torch_key import TorchOp
from cutegen.language.values import ValueReader

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


@dataclass(frozen=True)
class Source:
    """Where a spec came from: its text's path (as shown to people) and the place of every key and value.

    `keys` and `values` map a path into the document, `("tensors", "A", "align")`, to a place.
    """

    path: str = "<spec>"
    keys: Mapping[Path, Span] = field(default_factory=dict)
    values: Mapping[Path, Span] = field(default_factory=dict)

    def at(self, *path: str | int, key: bool = False) -> Span:
        """The place of a value (or of its key); of the nearest enclosing one that was written, if it was left out."""
        if key and path in self.keys:
            return self.keys[path]
        while path:
            if path in self.values:
                return self.values[path]
            path = path[:-1]
            if path in self.keys:  # point at the key of what encloses it, not at its whole block
                return self.keys[path]
        return START

    def diagnostic(
        self,
        code: str,
        message: str,
        *path: str | int,
        key: bool = False,
        span: Span | None = None,
        severity: Severity = "error",
        notes: tuple[str, ...] = (),
        help: str | None = None,
    ) -> Diagnostic:
        return Diagnostic(code, message, span or self.at(*path, key=key), self.path, severity, notes, help)


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
        Named(Tensor, "tensor", least=1, most=32),
        "The tensors by name, in the order of the generated function's parameters, and of its results.",
        default=MISSING,
        required=True,
        block=True,
    )
    declared_modes: tuple[Mode, ...] = key(
        Named(Mode, "mode", most=8),
        "Modes that are cut into segments, by name: with `{M: {of: X, offsets: ends}}` the rows of segment x of M go "
        "with element x along X.",
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
    def by_element(self) -> KernelSpec[S]:
        """The same kernel on tensors that have an element for each coordinate: those taken `at` places elsewhere are
        those that indexing by the places makes. Those with one row for each segment have one for each row of them,
        unless a matrix product multiplies them. It is the spec itself where no tensor is of either kind.
        """
        tensors = with_rows(with_elements(self.tensors), self.factors)
        return self if tensors == self.tensors else replace(self, tensors=tensors)

    @cached_property
    def taken(self) -> frozenset[str]:
        """The modes along which elements are taken `at` places: they have sizes, and no coordinates in `compute`."""
        return frozenset(mode for tensor in self.tensors for mode, _ in tensor.at)

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
        """Every mode, in order of first appearance, those of the leading tensor first."""
        return tuple(dict.fromkeys((*self.lead.shape, *(mode for tensor in self.tensors for mode in tensor.shape))))
