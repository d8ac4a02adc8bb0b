"""Instructions, kinds and loops in what nvdisasm prints: by hand, and on real kernels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from compiling_kit import Compiler
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from specs_kit import modules_of

from cutegen.codegen import Module
from cutegen.compiling import Artefact, Compiled, Job, mnemonics
from cutegen.families.gemm.staged.plan import GemmPlan
from cutegen.sass import instructions as sass_module
from cutegen.sass.control_flow import loops
from cutegen.sass.instructions import KINDS, OTHER, Function, histogram, kind_of, parse

ROOT = Path(__file__).parents[2]


def code(text: str) -> str:
    """A line of SASS for each line: `name:` is a label, anything else an instruction."""
    lines, address = [".text.k:"], 0
    for line in text.strip().splitlines():
        if line.strip().endswith(":"):
            lines.append(line.strip())
        else:
            lines.append(f"        /*{address:04x}*/                   {line.strip()} ;")
            address += 16
    return "\n".join(lines) + "\n"


def function(text: str) -> Function:
    (found,) = parse(code(text))
    return found


def spans(text: str) -> list[tuple[int, int]] | None:
    """Of every loop its first and its last instruction, counted from 0."""
    found = loops(function(text))
    return None if found is None else [(loop.first // 16, loop.last // 16) for loop in found]


@pytest.mark.parametrize(
    ("mnemonic", "kind"),
    [
        ("LDG.E.128.CONSTANT", "global loads"),
        ("LDGSTS.E.BYPASS.LTC128B.128", "async copies"),
        ("LDGDEPBAR", "barriers and waits"),
        ("LDS.U.64", "shared loads"),
        ("LDSM.16.M88.4", "shared loads"),
        ("STL.64", "local stores"),
        ("ULDC.64", "constant loads"),
        ("UTMALDG.2D", "async copies"),
        ("HMMA.16816.F32", "tensor cores"),
        ("HGMMA.64x128x16.F32", "tensor cores"),
        ("UTCHMMA", "tensor cores"),
        ("FFMA2", "fp32 arithmetic"),
        ("HFMA2.BF16_V2", "fp16 arithmetic"),
        ("DFMA", "fp64 arithmetic"),
        ("MUFU.EX2", "special functions"),
        ("UIADD3.X", "integers and addresses"),
        ("IMAD.WIDE.U32", "integers and addresses"),
        ("BAR.SYNC.DEFER_BLOCKING", "barriers and waits"),
        ("UMOV", "moves"),
        ("BRA.U", "control"),
        ("QQQQ.128", OTHER),
        ("U", OTHER),
    ],
)
def test_kinds(mnemonic: str, kind: str) -> None:
    assert kind_of(mnemonic) == kind


def test_an_opcode_is_of_one_kind() -> None:
    opcodes = [opcode for some in sass_module._OPCODES.values() for opcode in some.split()]
    assert [opcode for opcode, count in Counter(opcodes).items() if count > 1] == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("IMAD.MOV.U32 R5, RZ, RZ, R2", "moves"),
        ("IMAD.MOV R5, RZ, RZ, -R2", "moves"),
        ("@!P0 IMAD.U32 R5, RZ, RZ, UR4", "moves"),
        ("HFMA2.MMA R5, -RZ, RZ, 0, 0", "moves"),
        ("UIMAD UR4, URZ, URZ, UR5", "moves"),
        ("IMAD R5, RZ, RZ, UR4", "moves"),
        ("IMAD R5, R2, R3, RZ", "integers and addresses"),
        ("IMAD.SHL.U32 R5, R2, 0x4, RZ", "integers and addresses"),
        ("HFMA2.MMA R5, R6, R7, R8", "fp16 arithmetic"),
    ],
)
def test_a_move_that_another_unit_does_is_a_move(line: str, kind: str) -> None:
    assert function(line).instructions[0].kind == kind


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("MOV R1, R2\nEXIT", []),
        ("head:\nFFMA R1\n@P0 BRA `(head)\nEXIT", [(0, 1)]),
        ("MOV R1\nhead:\nFFMA R1\nBRA.U UP0, `(head)\nEXIT", [(1, 2)]),
        # An inner loop counts, the one around it does not; two apart both do
        ("a:\nMOV R1\nb:\nFFMA R1\n@P0 BRA `(b)\n@P1 BRA `(a)\nEXIT", [(1, 2)]),
        ("a:\n@P0 BRA `(a)\nb:\nFADD R1\n@P0 BRA `(b)\nEXIT", [(0, 0), (1, 2)]),
        # Two branches back to one head: up to the last of them
        ("a:\nMOV R1\n@P0 BRA `(a)\nFADD R1\n@P1 BRA `(a)\nEXIT", [(0, 3)]),
        # Out of the loop and around it is fine
        ("@P0 BRA `(out)\na:\nFFMA R1\n@P2 BRA `(out)\n@P1 BRA `(a)\nout:\nEXIT", [(1, 3)]),
        # Entered at its head from elsewhere, too
        ("BRA `(a)\nMOV R1\na:\nFFMA R1\n@P1 BRA `(a)\nEXIT", [(2, 3)]),
        # A branch inside of it, too
        ("a:\n@P0 BRA `(skip)\nFFMA R1\nskip:\n@P1 BRA `(a)\nEXIT", [(0, 2)]),
        # From the inner loop on to the next pass of the outer one
        ("a:\nMOV R1\nb:\nFFMA R1\n@P2 BRA `(a)\n@P0 BRA `(b)\n@P1 BRA `(a)\nEXIT", [(1, 3)]),
        # The outer one ends before the inner one does; a part of one stands before its head, or behind the end
        ("a:\nMOV R1\nb:\nFADD R1\n@P0 BRA `(a)\nFMUL R1\n@P1 BRA `(b)\nEXIT", [(1, 4)]),
        ("x:\nFADD R1\nBRA `(y)\na:\n@P0 BRA `(x)\ny:\n@P1 BRA `(a)\nEXIT", [(2, 3)]),
        ("a:\n@P0 BRA `(rare)\nb:\nFFMA R1\n@P1 BRA `(a)\nEXIT\nrare:\nFADD R1\nBRA `(b)", [(0, 5)]),
        # What is only tried again until it succeeds is no loop, and none that one around it would not be innermost for
        ("a:\nt:\nSYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R1], R2\n@!P0 BRA `(t)\nFFMA R1\n@P1 BRA `(a)\nEXIT", [(0, 3)]),
        ("t:\nUSETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xf0\n@!P0 BRA `(t)\nEXIT", []),
        ("a:\nt:\nUTMALDG.2D [UR4], [UR6]\n@P0 BRA.U.ANY `(t)\n@P1 BRA `(a)\nEXIT", [(0, 2)]),
        # Where threads meet again, not what stands behind
        ("a:\nBSSY B0, `(m)\nFFMA R1\nBSYNC B0\nEXIT\nm:\n@P0 BRA `(a)\nEXIT", [(0, 4)]),
        # Entered in its middle; nobody knows where a branch goes
        ("@P0 BRA `(in)\na:\nFFMA R1\nin:\nFADD R2\n@P1 BRA `(a)\nEXIT", None),
        ("a:\nBRX R2 -0x10\n@P1 BRA `(a)\nEXIT", None),
        ("a:\nBRA `(elsewhere)\n@P1 BRA `(a)\nEXIT", None),
        # A call comes back, and where threads meet again is no jump
        ("a:\nBSSY B0, `(b)\nb:\nCALL.REL.NOINC `(f)\n@P1 BRA `(a)\nEXIT\nf:\nRET.REL.NODEC R2", [(0, 2)]),
    ],
)
def test_loops(text: str, wanted: list[tuple[int, int]] | None) -> None:
    assert spans(text) == wanted


def test_padding_is_what_nothing_reaches() -> None:
    found = function("FFMA R1\n@P0 EXIT\nNOP\nEXIT\nend:\nBRA `(end)\nNOP\nNOP\nNOP")
    assert ([i.mnemonic for i in found.instructions], found.padding) == (["FFMA", "EXIT", "NOP", "EXIT"], 4)
    assert loops(found) == ()


def test_functions_are_told_apart() -> None:
    text = code("FFMA R1\nEXIT") + code("a:\nFADD R1\n@P0 BRA `(a)\nEXIT").replace(".text.k:", ".text.other:")
    first, second = parse(text)
    assert (first.name, second.name) == ("k", "other")
    assert (len(first.instructions), len(second.instructions)) == (2, 3)
    assert loops(first) == () and len(loops(second) or ()) == 1
    assert parse("") == () and parse("no code\n") == ()


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # the machine may be busy
@given(st.lists(st.sampled_from(["FFMA R1", "LDS R2, [R3]", "NOP", "QQ R1", "BRA `(l)", "l:", "EXIT"]), max_size=30))
def test_nothing_is_lost(lines: list[str]) -> None:
    text = code("\n".join(lines)) if lines else ""
    counted = Counter[str]()
    kinds = 0
    for some in parse(text):
        for kind, names in histogram(some.instructions).items():
            assert kind in KINDS and list(names.values()) == sorted(names.values(), reverse=True)
            counted.update(names)
            kinds += sum(names.values())
        assert kinds + some.padding == sum(mnemonics(text).values())
        assert all(counted[name] <= count for name, count in mnemonics(text).items())


# ------------------------------------------------------------------------------------------------------ real kernels

KERNELS = ("sgemm_mmajor", "copy_tv", "add_naive")


@pytest.fixture(scope="module")
def compiled(compiler: Compiler) -> list[tuple[Module, Artefact]]:
    pytest.importorskip("cutlass", reason="compiling needs nvidia-cutlass-dsl")
    modules = [modules_of(name)[name] for name in KERNELS]
    pairs = [
        (module, Job(module.text, module.spec.kernel, t, sass=True)) for module in modules for t in module.spec.targets
    ]
    found = []
    for (module, _), outcome in zip(pairs, compiler([job for _, job in pairs]), strict=True):
        assert isinstance(outcome, Compiled), outcome
        found.append((module, outcome.artefact))
    return found


def test_real_code_is_understood(compiled: list[tuple[Module, Artefact]]) -> None:
    for module, artefact in compiled:
        assert artefact.sass is not None
        (found,) = parse(artefact.sass)
        kinds = histogram(found.instructions)
        assert OTHER not in kinds, (module.name, kinds[OTHER])
        assert sum(sum(names.values()) for names in kinds.values()) + found.padding == sum(
            mnemonics(artefact.sass).values()
        )
        assert found.instructions[-1].mnemonic == "EXIT" and "NOP" not in kinds.get("no operation", {})
        addresses = [i.address for i in found.instructions]
        assert addresses == list(range(0, 16 * len(addresses), 16))


def test_the_loop_of_a_gemm_is_its_mainloop(compiled: list[tuple[Module, Artefact]]) -> None:
    """A pass multiplies and adds once for each accumulator and each k of a tile; what is no gemm does not loop."""
    for module, artefact in compiled:
        assert artefact.sass is not None
        found = loops(parse(artefact.sass)[0])
        assert found is not None
        if not isinstance(module.plan, GemmPlan):
            assert found == (), module.name
            continue
        (loop,) = found
        kinds = histogram(loop.instructions)
        tile_k = module.plan.tile[module.plan.k]
        assert kinds["fp32 arithmetic"] == {"FFMA": module.plan.pointwise.values * tile_k}
        copies = sum(x.copies[0] * x.copies[1] * x.copies[2] for x in (module.plan.a, module.plan.b))
        assert sum(kinds["async copies"].values()) == copies
        assert kinds["barriers and waits"]["BAR.SYNC.DEFER_BLOCKING"] == 1
        assert "global loads" not in kinds and "global stores" not in kinds
