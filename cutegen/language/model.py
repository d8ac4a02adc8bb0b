"""A kernel spec as data: frozen, typed, in the spec's own words.

A field that is `None` was left out and is inferred by planning, which returns the same classes with every field that
applies filled in. Layouts are `tensor_layouts.Layout`; sizes are in elements, `align` in bytes, `bits` in bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tensor_layouts import Layout

from cutegen.language.diagnostics import START, Diagnostic, Severity, Span
from cutegen.language.dtypes import Dtype
from cutegen.language.expressions import Assignment

Role = Literal["in", "out", "inout"]
Op = Literal["elementwise", "gemm", "probe"]
Partition = Literal["inner", "inner_outer", "thread_value"]
Predicate = Literal["none", "mask", "residue_first"]
CopyAtomName = Literal["universal", "cp_async"]
EvictPriority = Literal["evict_normal", "evict_first", "evict_last", "evict_unchanged", "no_allocate"]  # PTX's names

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[str, ...]  # mode names, `("M", "K")`
    dtype: Dtype
    major: str | None = None  # the mode with stride 1
    align: int | None = None  # bytes that the base pointer and every other stride are a multiple of
    role: Role = "in"

    @property
    def reads(self) -> bool:
        return self.role in ("in", "inout")

    @property
    def writes(self) -> bool:
        return self.role in ("out", "inout")

    @property
    def argument(self) -> str:
        """Name of the parameter of the generated function."""
        return self.name.lower()


@dataclass(frozen=True)
class Scalar:
    name: str
    dtype: Dtype

    @property
    def argument(self) -> str:
        return self.name


@dataclass(frozen=True)
class Copy:
    """How one tensor moves: the copy atom, the width of one access, and (through shared memory) who copies what."""

    atom: CopyAtomName | None = None
    bits: int | None = None
    thread_layout: Layout | None = None
    value_layout: Layout | None = None
    evict_priority: EvictPriority | None = None  # elementwise: of the L1 cache, where nothing broadcasts


@dataclass(frozen=True)
class Workspace:
    """Global memory that a gemm's operand is first written to, by a kernel of its own, with `major` contiguous.

    Rows are padded to whole vectors of 16 bytes. Each thread of that kernel moves a vector along both modes.
    """

    major: str
    thread_layout: Layout | None = None


@dataclass(frozen=True)
class Mma:
    atom: Literal["fma"] | None = None
    thread_layout: Layout | None = None
    permutation: Mapping[str, Layout] = field(default_factory=dict)
    accumulator: Dtype | None = None


@dataclass(frozen=True)
class Scheduler:
    """The order in which thread blocks, numbered as the hardware starts them, walk the output's tiles.

    Consecutive blocks take neighbouring tiles along `raster`. With a `swizzle` of G (gemm) the tiles of the other mode
    are taken in bands of G: inside a band, blocks take its G tiles of the other mode, then the next tile along
    `raster`; after its last one, the next band. The last band has the tiles that are left. G = 1 is a plain raster.
    """

    raster: str | None = None
    swizzle: int | None = None  # gemm only


@dataclass(frozen=True)
class ElementwiseSchedule:
    partition: Partition | None = None
    tiler: Mapping[str, int] | None = None  # mode -> size; for inner: of a thread, for inner_outer: of a block
    threads: int | None = None  # inner only
    thread_layout: Layout | None = None
    value_layout: Layout | None = None
    copy: Copy = Copy()
    predication: Mapping[str, Predicate] = field(default_factory=dict)
    scheduler: Scheduler = Scheduler()


@dataclass(frozen=True)
class GemmSchedule:
    tiler: Mapping[str, int] | None = None
    mma: Mma = Mma()
    copies: Mapping[str, Copy] = field(default_factory=dict)
    workspace: Mapping[str, Workspace] = field(default_factory=dict)  # of operands
    smem_pad: Mapping[str, int] = field(default_factory=dict)  # tensor -> elements added to the leading stride
    smem_layout: Mapping[str, Layout] = field(default_factory=dict)  # tensor -> coordinate along m or n -> place
    stages: int | None = None
    store: int | None = None  # k_block before which registers are written to shared memory
    predication: Mapping[str, Predicate] = field(default_factory=dict)
    scheduler: Scheduler = Scheduler()


@dataclass(frozen=True)
class ProbeSchedule:
    tv_layout: Layout | None = None
    tiler: Mapping[str, int] | None = None


Schedule = ElementwiseSchedule | GemmSchedule | ProbeSchedule


@dataclass(frozen=True)
class Verify:
    shapes: tuple[Mapping[str, int], ...] = ()
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class Bench:
    """`shapes` to measure the kernel at; without them they follow from the op."""

    shapes: tuple[Mapping[str, int], ...] = ()


@dataclass(frozen=True)
class Count:
    """A bound on a number: `>= 512`, `== 4` (a plain `4`), `<= 2`, `> 0`, `< 9`, `!= 0`."""

    relation: Literal["==", "!=", ">=", "<=", ">", "<"]
    number: int

    def holds(self, found: int) -> bool:
        return {
            "==": found == self.number,
            "!=": found != self.number,
            ">=": found >= self.number,
            "<=": found <= self.number,
            ">": found > self.number,
            "<": found < self.number,
        }[self.relation]

    def __str__(self) -> str:
        return str(self.number) if self.relation == "==" else f"{self.relation} {self.number}"


@dataclass(frozen=True)
class Expect:
    """Assertions on the compiled artefact, checked for every target."""

    spills: Count | None = None  # bytes of local memory stored or loaded by spilling
    registers: Count | None = None  # registers a thread
    sass: Mapping[str, Count] = field(default_factory=dict)  # glob over the SASS mnemonic -> occurrences
    bank_clashes: Count | None = None  # FFMAs that read three registers of one bank


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


@dataclass(frozen=True)
class KernelSpec:
    """One kernel: one combination of a spec's matrix."""

    kernel: str
    op: Op
    tensors: tuple[Tensor, ...]
    compute: Assignment
    schedule: Schedule
    summary: str = ""
    scalars: tuple[Scalar, ...] = ()
    targets: tuple[str, ...] = ()
    static: Mapping[str, int] = field(default_factory=dict)  # mode -> its only size
    divisible: Mapping[str, int] = field(default_factory=dict)  # mode -> what its size is a multiple of
    verify: Verify = Verify()
    bench: Bench = Bench()
    expect: Expect = Expect()
    tune: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # dotted path -> values to try, as written
    source: Source = field(default=Source(), compare=False, repr=False)

    def tensor(self, name: str) -> Tensor:
        return next(t for t in self.tensors if t.name == name)

    @property
    def output(self) -> Tensor:
        """The tensor that `compute` assigns to."""
        return self.tensor(self.compute.target)

    @property
    def modes(self) -> tuple[str, ...]:
        """Every mode, in order of first appearance, the output's first."""
        seen: dict[str, None] = dict.fromkeys(self.output.shape)
        for tensor in self.tensors:
            seen |= dict.fromkeys(tensor.shape)
        return tuple(seen)
