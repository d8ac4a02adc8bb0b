"""Text that templates print for a pointwise part: loads, statements, stores. Numbers come from the plan."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from cutegen.codegen.expressions import is_number
from cutegen.codegen.formatting import WIDTH, call, python_tuple
from cutegen.codegen.kernel_expressions import KernelPrinter
from cutegen.codegen.statements import Stored, print_statements, without_copy
from cutegen.codegen.variables import Variables
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import Name, coords
from cutegen.families.common.pointwise import Operand, PointwisePlan
from cutegen.families.common.taken_text import (
    TakenText,
    places_of,
    predicated,
    taken_text,
    thread_values,
    values_taken,
    walked_sizes,
    walked_text,
)
from cutegen.language.model import KernelSpec, Tensor

if TYPE_CHECKING:
    from importlib.abc import Traversable


NOTHING_THROUGH: Mapping[str, Through] = MappingProxyType({})
NOTHING: Mapping[str, str] = MappingProxyType({})


def templates() -> Mapping[str, Traversable]:
    """The templates of the pointwise part, as a family names them beside its own."""
    return {"common": files("cutegen.families.common") / "templates"}


@dataclass(frozen=True)
class OperandText:
    """An operand of the pointwise part, as text."""

    tensor: Tensor
    variable: str
    vector_text: str  # VECTOR, or the elements of an access of an operand that moves fewer
    predicate: list[str]
    clear: str  # why its registers are cleared before it is loaded, as a comment; nothing where they are not
    broadcast: tuple[str, ...]
    layout: tuple[str, str]  # shape and strides along the modes that the kernel walks
    blocked: tuple[str, ...]  # how it has one element for each block, in words
    write: bool
    values: str  # of a thread, or of a slice of them
    loading: list[str]  # arguments of the copy atom that loads it
    storing: list[str]
    fragment: str  # what makes its registers
    result: str  # what makes the registers of the result
    memory: str  # where the result is copied to
    truth: str  # a bool is a byte in memory: what turns it into a condition
    held: str | None = None  # if registers have it already: which part of them is a slice's, nothing for all
    taken: TakenText | None = None  # how its accesses find their places, where it is taken at some
    source: Through | None = None  # how it is loaded from shared memory, where it is not from its own


@dataclass(frozen=True)
class OutputText:
    """An output of the pointwise part: the statements that compute it, and how it is stored."""

    operand: OperandText
    statements: tuple[str, ...]
    store: str  # into its registers
    registers: str  # what makes those
    copying: list[str]  # arguments of the copy from there
    through: bool  # whether that copy goes to shared memory, with an atom of the family's own

    @property
    def name(self) -> str:
        return self.operand.tensor.name


@dataclass(frozen=True)
class CoordinateText:
    """The texts that `coord(...)` of a mode stands for."""

    mode: str
    registers: str  # the variable of a thread's coordinates
    variable: str  # that of their value
    index: int  # of the mode among those of the outputs
    alone: str = ""  # what it is for all values of the block; empty: each has one of its own

    @property
    def what(self) -> str:
        return f"coord({self.mode})"


class Through(NamedTuple):
    """How a tensor is copied to shared memory or from there, where it is not stored or loaded itself."""

    registers: str  # what makes those that are copied
    copying: list[str]  # arguments of the copy


def pointwise_context(
    plan: PointwisePlan,
    copy_path: str,
    *,
    accumulators: Mapping[str, str] = NOTHING,
    guard_tiles: bool = False,
    through: Mapping[str, Through] = NOTHING_THROUGH,
    sources: Mapping[str, Through] = NOTHING_THROUGH,
    deeper: int = 0,
    modes: Sequence[str] = (),
    taken: Collection[str] = (),
    alone: Mapping[str, str] = NOTHING,
    quotient: str = "",
    bounds: Mapping[str, str] = NOTHING,
) -> dict[str, Any]:
    """All that the templates of `families/common` print.

    `copy_path` is the key of the spec that says how operands move. `accumulators` has what makes the values of each
    product `A @ B.T`, by the name of its B. With `guard_tiles`, `has_tile` says whether the thread has anything to do
    at all. `through` has the outputs that are copied to shared memory, by name, and `sources` what is read there. The
    text stands `deeper` by so many columns than in the other kernels. `modes` is the order of the outputs' modes in the
    kernel, where it is not the spec's. No variable of a tensor's values, nor one that is computed, has a name of those
    that are `taken`. `alone` has the coordinates of a block along the modes in which it has a single one, which are not
    in `modes`. `quotient` is a function of the module for the quotients of functions such as `silu`.
    `bounds` has what coordinates along a mode are less than, where that is not the output's size.
    """
    spec, point, name = plan.spec, plan.pointwise, plan.spec.output.name
    width = width_name(spec)
    operands = [_operand(plan, o, taken) for o in point.operands]
    loaded = [
        replace(text, source=sources.get(o.tensor.name))
        for o, text in zip(point.operands, operands, strict=True)
        if o.read
    ]
    length, inside = values_taken(plan), 4 + deeper if point.sliced else 0
    variables = Variables(spec, taken)
    coordinates = _coordinates(plan, variables, modes or spec.lead.shape, alone)
    names = {t.name: _variable(t, taken) for t in spec.tensors} | {s.name: s.name for s in spec.scalars}
    products = variables.products() if accumulators else {}
    printer = KernelPrinter(
        names,
        frozenset(t.name for t in spec.tensors),
        products,
        WIDTH - 4 - inside,
        {c.mode: c.variable for c in coordinates},
    )
    printer.quotient = quotient
    held = [*(text.variable for text in loaded), *products.values()]
    printer.anchor = next(iter([*held, *(c.variable for c in coordinates)]), None)
    outputs = []
    for stored in print_statements(spec, plan.statements, printer, variables):
        operand = next(text for text in operands if text.tensor.name == stored.tensor.name)
        outputs.append(_output(plan, operand, without_copy(stored), printer, through.get(stored.tensor.name)))
    masked = point.masked
    checked = [i for i, m in enumerate(modes or spec.lead.shape) if m in masked]
    order = tuple(modes or spec.lead.shape)
    sizes = tuple(bounds.get(order[i], f"m{name}.shape[{i}]") for i in checked)
    sides = (tuple(f"coord[{i}]" for i in checked), sizes)
    return {
        "copy_path": copy_path,
        "mask_path": f"schedule.predication.{masked[0]}" if len(masked) == 1 else "schedule.predication",
        "operands": operands,
        "places": places_of(plan, width),
        "walked": walked_text(spec),
        "walked_sizes": walked_sizes(spec),
        "loaded": loaded,
        "outputs": outputs,
        "V": width,
        "narrow_widths": narrow_widths(spec, predicated(plan), point.vector),
        "taken": length,
        "accesses": f"{length} // {width}",
        "mask_coordinate": f"t{name}c{name}[" + ("(0, vector), part]" if point.sliced else f"vector * {width}]"),
        "coordinates": coordinates,
        "value_coordinate": f"t{name}c{name}[value_idx{', part' if point.sliced else ''}]",
        "coordinates_path": "compute" if coordinates and not masked else "",
        "fit": partial(call, width=WIDTH - inside),
        "masked": masked,
        "all_masked": len(masked) == len(order) and not bounds,
        "mask_terms": [side[0] if len(side) == 1 else python_tuple(side) for side in sides if side],
        "guard_tiles": guard_tiles,
        "accumulators": [f"{products[name]} = {text}" for name, text in accumulators.items()],
        "reshape": f".reshape(({length},))" if point.reshape else "",
    }


def _variable(tensor: Tensor, taken: Collection[str]) -> str:
    """The variable of a tensor's values."""
    return f"{tensor.argument}_" if tensor.argument in taken else tensor.argument


def _operand(plan: PointwisePlan, o: Operand, taken: Collection[str]) -> OperandText:
    spec, name = plan.spec, plan.spec.output.name
    narrow = o.vector != plan.pointwise.vector
    masked = bool(plan.pointwise.masked)
    values = thread_values(plan, o.tensor)
    predicate = [f"pred=t{name}p{name}_{o.vector}" if narrow else f"pred=t{name}p{name}"] if masked else []
    shape, strides = seen(spec, o.tensor)
    is_bool = o.tensor.dtype is Dtype.bool
    unsigned = unsigned_element(o.tensor.dtype)
    copied = len(plan.statements) == 1 and isinstance(plan.statements[0].stored, Name)
    own = vector_text(spec, o.vector, plan.pointwise.vector)
    return OperandText(
        tensor=o.tensor,
        variable=_variable(o.tensor, taken),
        vector_text=own,
        predicate=predicate,
        clear=_clear(plan, o) if masked else "",
        broadcast=o.broadcast,
        layout=(python_tuple(shape) if o.tensor.blocks else walked_text(spec), python_tuple(strides)),
        blocked=tuple(f"one for each {block.size} of {block.of}" for block in o.tensor.blocks),
        write=o.write,
        values=values,
        loading=copy_atom(spec, o, plan.pointwise.vector, "CopyG2ROp"),
        storing=copy_atom(spec, o, plan.pointwise.vector, "CopyR2GOp"),
        fragment=_registers(o, values, unsigned if o.tensor.dtype.is_unsigned else ""),
        # A bool is written as a byte of its own making: left to the compiler, true may come out with all bits set
        result=_registers(o, values, unsigned),
        memory=f"cute.recast_tensor({values}, cutlass.Uint8)" if is_bool else values,
        truth=" != 0" if is_bool and not copied else "",
        taken=taken_text(plan, o, own, width_name(spec), strides, "".join(predicate)),
    )


def seen(spec: KernelSpec, tensor: Tensor) -> tuple[list[str], list[str]]:
    """The shape and the strides of a tensor along the modes that the kernel walks: 0 along those that it lacks, and
    within blocks that share one element.
    """
    shape, strides, name = [], [], tensor.name
    for axis, mode in enumerate(spec.lead.shape):
        unit = tensor.unit(mode)
        own = tensor.spread.index(mode) if mode in tensor.spread else None
        step = "0" if own is None else f"m{name}.stride[{own}]"
        shape.append(f"m{spec.lead.name}.shape[{axis}]" if unit == 1 else f"({unit}, m{name}.shape[{own}])")
        strides.append(step if unit == 1 else f"(0, {step})")
    return shape, strides


def _registers(o: Operand, values: str, element: str) -> str:
    """The call that makes registers for the values of an operand, of the type `element` if there is one to be told.

    At places each value has registers of its own, though the tensor's strides are 0 along the modes of the places.
    """
    if o.tensor.at:
        return f"cute.make_rmem_tensor({values}.shape, {element or f'm{o.tensor.name}.element_type'})"
    return f"cute.make_fragment_like({values}{f', {element}' if element else ''})"


def _clear(plan: PointwisePlan, o: Operand) -> str:
    """Why the registers of a masked load are cleared before it; nothing where they are not."""
    if plan.pointwise.clear:
        return "for masked elements"
    if plan.pointwise.forgets:
        return "else the loop over tiles keeps it"
    return "else it waits in local memory" if o.parts_words(plan.spec.schedule.narrows) else ""


def unsigned_element(dtype: Dtype) -> str:
    """The type that registers must be told for a tensor of an unsigned integer, which in the kernel says that it holds
    signed ones, or of bool, which is a byte; else nothing.
    """
    return "cutlass.Uint8" if dtype is Dtype.bool else f"cutlass.{dtype.cutlass}" if dtype.is_unsigned else ""


def width_name(spec: KernelSpec) -> str:
    """The kernel's name for the elements of one access: a constant, or a parameter if there are narrow accesses too."""
    return "width" if spec.schedule.narrows else "VECTOR"


def vector_text(spec: KernelSpec, own: int, vector: int) -> str:
    """The text of how many elements an access moves that moves `own`, of a kernel whose accesses move `vector`."""
    width = width_name(spec)
    if own == vector:
        return width
    return f"min({width}, {own})" if spec.schedule.narrows else str(own)


def narrow_widths(spec: KernelSpec, operands: Iterable[Operand], vector: int) -> list[tuple[int, str, str]]:
    """The widths of accesses to operands that move fewer than `vector` elements, as numbers and as texts, each with
    the text of how many of them share a predicate.
    """
    found = {o.vector: vector_text(spec, o.vector, vector) for o in operands if o.vector != vector}
    width = width_name(spec)
    return [
        (v, text, f"{width} // {text}" if spec.schedule.narrows else str(vector // v))
        for v, text in sorted(found.items())
    ]


def copy_atom(spec: KernelSpec, o: Operand, vector: int, special: str) -> list[str]:
    """Arguments of `make_copy_atom` for an access to global memory; only the `special` copies know of caches."""
    plain = o.evict_priority == "evict_normal"
    op = "CopyUniversalOp" if plain else special
    bits = f"{vector_text(spec, o.vector, vector)} * {o.tensor.dtype.bits}" if spec.schedule.narrows else str(o.bits)
    items = [f"cute.nvgpu.{op}()", f"m{o.tensor.name}.element_type", f"num_bits_per_copy={bits}"]
    priority = f"l1c_evict_priority=cute.nvgpu.CacheEvictionPriority.{o.evict_priority.upper()}"
    return items if plain else [*items, priority]


def _coordinates(
    plan: PointwisePlan, variables: Variables, order: Sequence[str], alone: Mapping[str, str]
) -> list[CoordinateText]:
    modes = {coord.mode for typed in plan.statements for coord in coords(typed.value)}
    return [
        CoordinateText(
            mode, variables.free(f"coords_{mode}"), variables.free(f"coord_{mode}"), index, alone.get(mode, "")
        )
        for index, mode in enumerate((*order, *alone))
        if mode in modes
    ]


def _output(
    plan: PointwisePlan, operand: OperandText, stored: Stored, printer: KernelPrinter, through: Through | None
) -> OutputText:
    fragment = f"t{plan.spec.output.name}r{stored.tensor.name}_out"
    result = stored.result
    if stored.tensor.dtype is Dtype.bool:
        result = f"cutlass.Boolean({result})" if is_number(stored.value) else result
        result = f"{result}.to(cutlass.Uint8)"
    if not printer.is_tensor(stored.value):
        store = f"{fragment}.fill({result})"
    elif plan.pointwise.reshape:
        store = f"{fragment}.store({result}.reshape({fragment}.shape))"
    else:
        store = f"{fragment}.store({result})"
    if through is None:
        copying = [f"store_{stored.tensor.name}", fragment, operand.memory, *operand.predicate]
        return OutputText(operand, stored.statements, store, operand.result, copying, through=False)
    return OutputText(operand, stored.statements, store, through.registers, through.copying, through=True)
