"""All opcodes of instructions that only read and write registers, and what reads the instructions of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen.emulator.instructions import approximate, bitwise, carries, comparisons, conversions, floats, integers
from cutegen.emulator.instructions.forms import Forms
from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.ptx.model import Instruction

Builder = Callable[[InstructionReader], PureOp]
"""Reads an instruction and returns its semantics, or raises UnsupportedInstruction."""
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
"""Opcodes of memory, control flow, barriers and warps. `machine.program_builder` has or refuses them."""


def _is_float(reader: InstructionReader) -> bool:
    """Whether the last modifier names a floating-point type."""
    return bool(reader.left) and reader.left[-1].startswith(("f", "bf"))


def _by_kind(integer: Builder, floating: Builder) -> Builder:
    """The builder of an opcode that has forms for integers and for floats."""
    return lambda reader: floating(reader) if _is_float(reader) else integer(reader)


def _rounded_or_approximate(reader: InstructionReader) -> PureOp:
    """Builds div, rcp or sqrt of floats, which PTX rounds correctly or only approximates, as the modifiers say."""
    inexact = "approx" in reader.left or "full" in reader.left
    return approximate.build_approximate(reader) if inexact else floats.build_division(reader)


def _with_carry(plain: Builder) -> Builder:
    """The builder of an opcode that has a form which says what is carried."""
    return lambda reader: carries.build_carried(reader) if "cc" in reader.left else plain(reader)


BUILDERS: Mapping[str, Builder] = {
    **dict.fromkeys(("add", "sub"), _by_kind(_with_carry(integers.build_sum), floats.build_arithmetic)),
    **dict.fromkeys(("mul", "mad"), _by_kind(_with_carry(integers.build_product), floats.build_arithmetic)),
    **dict.fromkeys(("addc", "subc", "madc"), carries.build_carried),
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
"""Opcodes -> what reads their instructions."""


def compile_pure(instruction: Instruction) -> PureOp | None:
    """The semantics of an instruction on registers, or None if its opcode is one of `NOT_PURE`.

    Call the result inside `np.errstate(all="ignore")`: overflow and invalid operations are part of the semantics.
    Raises UnsupportedInstruction for every opcode, modifier, type or operand that is not emulated.
    """
    if instruction.opcode in NOT_PURE:
        return None
    return _forms.semantics(instruction)


def _read(instruction: Instruction) -> PureOp:
    """The semantics of an instruction on registers."""
    reader = InstructionReader(instruction)
    builder = BUILDERS.get(instruction.opcode)
    if builder is None:
        reader.fail("this opcode")
    return builder(reader)


_forms = Forms(_read)
