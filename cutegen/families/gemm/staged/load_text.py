"""How a module prints A and B on their way to shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutegen.codegen.formatting import python_tuple
from cutegen.families.common.taken_text import LaidOutText, laid_out
from cutegen.families.gemm.staged.plan import GemmOperand, GemmPlan, MultistagePlan, StagedOperand
from cutegen.layouts import show


@dataclass(frozen=True)
class RowsText:
    """The texts of an operand whose rows are taken at places."""

    layout: LaidOutText
    step: str  # the variable of the elements from one place to the next
    index: str  # the tensor of places
    place: str  # of the row `row`, which that tensor has
    offsets: str  # the variable of the elements to the rows that a thread copies
    coordinates: str  # that of the rows' coordinates


@dataclass(frozen=True)
class LoadText:
    """The texts that a module prints of A or B on its way to shared memory."""

    plan: StagedOperand
    name: str
    proj: str
    op: str
    threads_path: str  # the key that its threads come from
    values_path: str
    gmem_profile: str
    smem_profile: str
    rest_v: int
    rest_mn: int
    predicate_shape: str
    predicate_strides: str
    predicated: bool
    residue: bool
    taken: RowsText | None  # where its rows are at places

    @property
    def pred(self) -> str:
        """The predicates of any tile but the first; empty where it has none."""
        return f"t{self.name}p{self.name}" if self.plan.masked else ""

    @property
    def rows(self) -> str:
        """The offsets of the rows that a thread copies; empty where they follow one another."""
        return "" if self.taken is None else self.taken.offsets

    @property
    def next_strides(self) -> str:
        return self.predicate_strides if self.plan.masked else "(0, 0, 0)"


def load_texts(plan: MultistagePlan, x: StagedOperand) -> dict[str, Any]:
    """The fields of `LoadText` for one of a plan's operands."""
    path = f"schedule.copies.{x.tensor.name}"
    rest_v, rest_mn, rest_k = x.copies
    profile = ((x.vector, rest_v), rest_mn, rest_k)
    return {
        "plan": x,
        "name": x.tensor.name,
        "proj": "(1, None, 1)" if x.letter == "A" else "(None, 1, 1)",
        "op": "cpasync.CopyG2SOp()" if x.atom == "cp_async" else "cute.nvgpu.CopyUniversalOp()",
        "threads_path": path,
        "values_path": path,
        "gmem_profile": show((*profile, "k" if plan.k_tiles is None else plan.k_tiles)),
        "smem_profile": show((*profile, plan.stages)),
        "rest_v": rest_v,
        "rest_mn": rest_mn,
        "predicate_shape": python_tuple(x.copies),
        "predicate_strides": python_tuple((rest_mn, 1, 0)),
        "predicated": x.masked or plan.residue,
        "residue": plan.residue,
        "taken": _rows_text(plan, x),
    }


def _rows_text(plan: MultistagePlan, x: StagedOperand) -> RowsText | None:
    """The texts of an operand's rows where they are taken at places; None where they are not."""
    if not x.gathered:
        return None
    tensor = plan.spec.tensor(x.tensor.name)
    (mode, index), name = tensor.at[0], tensor.name
    walked = [f"m{index}.shape[0]", f"m{name}.shape[1]"]
    layout = laid_out(tensor, walked, ["0", f"m{name}.stride[1]"])
    spread = any(o.tensor.name == index for o in plan.pointwise.operands)  # which `launch` lays out along n as well
    place = f"m{index}[row, 0]" if spread else f"m{index}[row]"
    return RowsText(layout, f"step_{name}_{mode}", index, place, f"t{name}r{index}", f"t{name}c{name}")


@dataclass(frozen=True)
class ColumnText(LoadText):
    """The texts of an operand whose stages have a column along m or n for each k."""

    plan: GemmOperand
    smem_layout: list[str]
    pad: int
    order: str  # of a column of shared memory, if it has a layout


def column_text(plan: GemmPlan, x: GemmOperand) -> ColumnText:
    """The texts of one of the operands of a gemm on the CUDA cores."""
    block = f"BLK_{x.mode.upper()}"
    pad = x.smem_stride - x.block
    stride = f"{block} + {pad}" if pad else block
    depth = f"BLK_{plan.k.upper()}"
    column: tuple[object, object] = (block, 1)
    compact = not pad and x.smem_layout is None  # as make_layout has it without strides
    order = ""
    if x.smem_layout is not None:
        column = x.smem_layout.shape, x.smem_layout.stride
        order = f"the layout permutes the coordinates along {x.mode}"
        if x.smem_runs:
            order = "the elements of one access of a thread are contiguous"
    strides = f"({column[1]}, {stride}, {depth} * {f'({stride})' if pad else stride})"
    layout = [f"({column[0]}, {depth}, STAGES)", *([] if compact else [f"stride={strides}"])]
    texts = load_texts(plan, x)
    texts |= {f"{what}s_path": f"schedule.copies.{x.tensor.name}.{what}_layout" for what in ("thread", "value")}
    return ColumnText(**texts, smem_layout=layout, pad=pad, order=order)
