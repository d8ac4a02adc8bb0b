"""From an instruction to its semantics, for all that touches registers only."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen.emulator import approximate, bitwise, comparisons, conversions, floats, integers
from cutegen.emulator.form import Form
from cutegen.emulator.types import Instruction, PureOp

Builder = Callable[[Form], PureOp]

NOT_PURE = frozenset(
    [
        "ld",
        "ldu",
        "st",
        "atom",
        "red",
        "cp",
        "prefetch",
        "prefetchu",
        "fence",
        "membar",
        "mbarrier",
        "cvta",
        "isspacep",
        "mapa",
        "getctarank",
        "ldmatrix",
        "stmatrix",
        "movmatrix",
        "mma",
        "wmma",
        "wgmma",
        "tcgen05",
        "bar",
        "barrier",
        "bra",
        "brx",
        "call",
        "ret",
        "exit",
        "trap",
        "brkpt",
        "pmevent",
        "nanosleep",
        "elect",
        "setmaxnreg",
        "shfl",
        "vote",
        "match",
        "redux",
        "activemask",
        "griddepcontrol",
        "multimem",
        "discard",
        "applypriority",
        "createpolicy",
        "alloca",
        "stacksave",
        "stackrestore",
        "tensormap",
        "clusterlaunchcontrol",
    ]
)
"""Opcodes of memory, control flow, barriers and warps: the machine's. It refuses those it does not know."""


def _is_float(form: Form) -> bool:
    return bool(form.left) and form.left[-1].startswith(("f", "bf"))


def _by_kind(integer: Builder, floating: Builder) -> Builder:
    return lambda form: floating(form) if _is_float(form) else integer(form)


def _rounded_or_approximate(form: Form) -> PureOp:
    inexact = "approx" in form.left or "full" in form.left
    return approximate.build_approximate(form) if inexact else floats.build_division(form)


BUILDERS: Mapping[str, Builder] = {
    **dict.fromkeys(("add", "sub"), _by_kind(integers.build_sum, floats.build_arithmetic)),
    **dict.fromkeys(("mul", "mad"), _by_kind(integers.build_product, floats.build_arithmetic)),
    "fma": floats.build_arithmetic,
    "div": _by_kind(integers.build_division, _rounded_or_approximate),
    "rem": integers.build_division,
    **dict.fromkeys(("rcp", "sqrt"), _rounded_or_approximate),
    **dict.fromkeys(("rsqrt", "ex2", "lg2", "tanh", "sin", "cos"), approximate.build_approximate),
    **dict.fromkeys(("min", "max"), _by_kind(integers.build_extreme, floats.build_extreme)),
    **dict.fromkeys(("abs", "neg"), _by_kind(integers.build_sign, floats.build_sign)),
    "copysign": floats.build_sign,
    "testp": floats.build_testp,
    **dict.fromkeys(("mul24", "mad24"), integers.build_product24),
    "sad": integers.build_sad,
    **dict.fromkeys(("dp4a", "dp2a"), integers.build_dot),
    **dict.fromkeys(("and", "or", "xor", "not", "cnot"), bitwise.build_logic),
    "lop3": bitwise.build_lop3,
    **dict.fromkeys(("shl", "shr"), bitwise.build_shift),
    "shf": bitwise.build_funnel,
    "bfe": bitwise.build_extract,
    "bfi": bitwise.build_insert,
    "bfind": bitwise.build_find,
    **dict.fromkeys(("popc", "clz"), bitwise.build_count),
    "brev": bitwise.build_reverse,
    "prmt": bitwise.build_permute,
    "mov": bitwise.build_move,
    "setp": comparisons.build_setp,
    "set": comparisons.build_set,
    "selp": comparisons.build_selp,
    "slct": comparisons.build_slct,
    "cvt": conversions.build_convert,
}


def compile_pure(instruction: Instruction) -> PureOp | None:
    """What the instruction computes; None if it is not register-only (`NOT_PURE`).

    Call the result inside ``np.errstate(all="ignore")``: overflow and invalid operations are part of the semantics.
    Raises UnsupportedInstruction for every opcode, modifier, type or operand that is not known.
    """
    if instruction.opcode in NOT_PURE:
        return None
    form = Form(instruction)
    builder = BUILDERS.get(instruction.opcode)
    if builder is None:
        form.fail("this opcode")
    return builder(form)
