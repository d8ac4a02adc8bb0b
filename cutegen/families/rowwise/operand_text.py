"""The tensors along the rows of a kernel, as the templates print them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Cast, Expr, Name
from cutegen.families.common.pointwise import WORD, Operand
from cutegen.families.common.pointwise_text import copy_atom, unsigned_element, vector_text
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.language.model import Tensor


@dataclass(frozen=True)
class OperandText:
    """A tensor along the rows, as text."""

    tensor: Tensor
    variable: str
    memory: str  # the variable of the tensor in a thread's row
    vector: str
    predicate: list[str]
    broadcast: tuple[str, ...]
    strides: str
    loading: list[str]
    storing: list[str]
    element: list[str]  # more arguments of a fragment
    is_bool: bool
    clear: str  # the statement that clears its registers before they are filled; nothing where they are not
    each: bool  # whether accesses of one element load it without predicates, by `load_each`
    plain: bool  # whether nothing of all this is other than `load_values` and `store_values` have it
    kept: bool  # whether its part of a row waits in shared memory
    source: str  # the variable of what a thread's values are loaded from
    held: str  # the values of its registers, in the type that all that is computed of them wants


def operands_of(plan: RowwisePlan) -> dict[str, OperandText]:
    """All of them, by name."""
    converted = converted_tensors(plan)
    return {o.tensor.name: _operand(plan, o, converted.get(o.tensor.name)) for o in plan.operands}


def _operand(plan: RowwisePlan, o: Operand, converted: Dtype | None) -> OperandText:
    lead, modes = plan.flat.lead.name, plan.flat.lead.shape
    narrow = o.vector != plan.vector
    predicate = f"pred=t{lead}p{lead}" + f"_{o.vector}" * narrow
    strides = [f"m{o.tensor.name}.stride[{o.tensor.shape.index(m)}]" if m in o.tensor.shape else "0" for m in modes]
    unsigned, kept = unsigned_element(o.tensor.dtype), o.tensor.name in plan.kept
    loaded = replace(o, evict_priority="evict_normal") if kept else o
    return OperandText(
        tensor=o.tensor,
        variable=o.tensor.argument,
        memory=f"m{o.tensor.name}_at" if o.tensor.at else f"m{o.tensor.name}",
        vector=vector_text(plan.flat, o.vector, plan.vector),
        predicate=[predicate] if plan.masked else [],
        broadcast=o.broadcast,
        strides=f"({', '.join(strides)}{',' if len(strides) == 1 else ''})",
        loading=copy_atom(plan.flat, loaded, plan.vector, "CopyG2ROp"),
        storing=copy_atom(plan.flat, o, plan.vector, "CopyR2GOp"),
        element=[unsigned] if unsigned else [],
        is_bool=o.tensor.dtype is Dtype.bool,
        clear=_clear(plan, o),
        each=loads_each(plan, o),
        plain=_is_plain(plan, o),
        kept=kept,
        source=f"t{lead}{'s' if kept else 'g'}{o.tensor.name}",
        held=_held(_loaded(plan, o), o.tensor.dtype, converted),
    )


def _is_plain(plan: RowwisePlan, o: Operand) -> bool:
    """Whether it is loaded and stored as most are: as the type that it has in memory, through all caches, and cleared
    where predicates mask it off.
    """
    other = o.tensor.dtype is Dtype.bool or unsigned_element(o.tensor.dtype) != ""
    odd = other or o.evict_priority != "evict_normal" or loads_each(plan, o)
    return not odd and (bool(plan.masked) or not _clear(plan, o)) and not splits(plan, o)


def _clear(plan: RowwisePlan, o: Operand) -> str:
    """The statement that clears the registers of a load before it, and why; nothing where they are not."""
    registers = f"t{plan.flat.lead.name}r{o.tensor.name}"
    cleared = f"clear_values({registers})" if splits(plan, o) else f"{registers}.fill(0)"
    if plan.masked:
        return f"{cleared}  # for masked elements"
    return f"{cleared}  # else it waits in local memory" if o.parts_words(plan.flat.schedule.narrows) else ""


def _loaded(plan: RowwisePlan, o: Operand) -> str:
    """The text of all values of the registers of a tensor."""
    registers = f"t{plan.flat.lead.name}r{o.tensor.name}"
    return f"values_of({registers})" if splits(plan, o) else f"{registers}.load().reshape(({plan.values_text},))"


def splits(plan: RowwisePlan, o: Operand) -> bool:
    """Whether the compiler would split what is loaded for the next rows into elements, and so wait for it: it keeps
    words of several elements together only in powers of two.
    """
    return plan.ahead and not o.broadcast and o.tensor.dtype.bytes < 4 and bool(plan.values & (plan.values - 1))


def loads_each(plan: RowwisePlan, o: Operand) -> bool:
    """Whether accesses of one element load a tensor without predicates.

    Half a register that is loaded under a predicate is merged with the other half at once, which waits for the load.
    Loads for the next rows would then not be under way while a block computes. Kernels that store along the row and
    load no rows ahead gained nothing: the number of their instructions is what takes time. Nor is a tensor loaded so
    that is written as well: the last element in bounds, which stands for those beyond it, is another thread's to write.
    """
    waits = plan.ahead or not any(x.tensor.writes for x in plan.operands)
    half = o.read and not o.write and o.tensor.dtype.bits == WORD // 2 and not splits(plan, o)
    return waits and half and bool(plan.word) and o.tensor.name not in plan.kept and plan.row in plan.masked


def _held(values: str, dtype: Dtype, converted: Dtype | None) -> str:
    """The text of values that were loaded, as truths if they are, in another type if there is one to convert to."""
    if dtype is Dtype.bool:
        values = f"{values} != 0" if converted is None else f"({values} != 0)"
    return values if converted is None else f"{values}.to(cutlass.{converted.cutlass})"


def converted_tensors(plan: RowwisePlan) -> dict[str, Dtype]:
    """The tensors along the rows that are only used in the type that theirs is computed in, which is another."""
    wanted: dict[str, set[Dtype | None]] = {}
    for value in (value for one in plan.program.walks for value in one.values):
        for name, dtype in _uses(value):
            wanted.setdefault(name, set()).add(dtype)
    return {name: dtype for name, (dtype, *others) in wanted.items() if dtype is not None and not others}


def _uses(node: Expr) -> Iterator[tuple[str, Dtype | None]]:
    """Every tensor that is read, with the type that it is computed in, or None where it is read as it is."""
    if isinstance(node, Cast) and isinstance(node.x, Name) and node.x.dtype and node.x.dtype.compute is node.dtype:
        yield node.x.id, node.dtype
    elif isinstance(node, Name):
        yield node.id, None
    else:
        for child in node.children:
            yield from _uses(child)
