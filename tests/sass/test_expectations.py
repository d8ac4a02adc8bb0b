"""Mnemonics, spill bytes and expectations on hand-written SASS."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from cutegen.compiling.artefact import Artefact, Resources, local_traffic, mnemonics, ptx_target, spilled
from cutegen.language.counts import Count
from cutegen.language.model import Expect
from cutegen.sass.expectations import _by_kernel, check, matches, nearest

SASS = """
	.headerflags	@"EF_CUDA_SM80"
        .type           kernel_FFMA,@function
.text.kernel:
.L_x_1:
        /*0000*/                   MOV R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR6][R2.64] ;   /* 0x0000000602047981 */
                                                                       /* 0x000ea4000c1e1d00 */
        /*0020*/              @!PT LDG.E.128.CONSTANT R4, [R2.64] ;
        /*0030*/             @!UP0 UIADD3 UR4, UR5, URZ, URZ ;
        /*0040*/               @P6 LDG.E R4, [R2.64+0x8] ;
        /*0050*/         {         FFMA R4, R5, R6, R7 ;
        /*0058*/                   STL [R1+0x28], R31 (*"SpillRefill"*);  }
        /*0060*/                   FFMA.FTZ R4, R5, R6, R7 ;
        /*10070*/                  LDGSTS.E.BYPASS.LTC128B.128 [R5], [R2.64] ;
        /*10080*/                  EXIT;
.L_x_2:
        /*10090*/                  BRA `(.L_x_2);
"""


RESOURCES = Resources(registers=40, spill_stores=8, spill_loads=4, stack=16, static_smem=0)


def artefact(sass: str | None = SASS, resources: Resources = RESOURCES) -> Artefact:
    return Artefact("k", "sm_80", "", b"", sass, resources)


def test_mnemonics_are_whole_and_without_predicates() -> None:
    assert mnemonics(SASS) == {
        "MOV": 1,
        "LDG.E.128": 1,
        "LDG.E.128.CONSTANT": 1,
        "UIADD3": 1,
        "LDG.E": 1,
        "FFMA": 1,
        "STL": 1,
        "FFMA.FTZ": 1,
        "LDGSTS.E.BYPASS.LTC128B.128": 1,
        "EXIT": 1,
        "BRA": 1,
    }
    assert mnemonics("") == {}


@pytest.mark.parametrize(
    ("mnemonic", "size"),
    [("STL", 4), ("STL.64", 8), ("STL.128", 16), ("STL.U8", 1), ("STL.S16", 2), ("STL.LU.128", 16), ("STG.E.128", 0)],
)
def test_local_traffic_is_in_bytes(mnemonic: str, size: int) -> None:
    assert local_traffic(Counter({mnemonic: 3})) == (3 * size, 0)
    assert local_traffic(Counter({mnemonic.replace("STL", "LDL"): 2})) == (0, 2 * size)


def test_spills_are_asked_for_only_when_they_cannot_be_counted() -> None:
    def never() -> tuple[int, int]:
        raise AssertionError("asked")

    array = ".visible .entry k()\n{\n\t.local .align 16 .b8 \t__local_depot0[64];\n"
    store = "        /*0000*/   STL.64 [R1], R2 ;\n"
    assert spilled("", store, never) == (8, 0)
    assert spilled(array, "        /*0000*/   EXIT ;\n", never) == (0, 0)
    assert spilled(array, store, lambda: (4, 0)) == (4, 0)
    assert spilled(array, store, lambda: None) is None
    assert spilled(array, store) is None


def test_ptx_target() -> None:
    assert ptx_target(".version 8.8\n.target sm_90a\n.address_size 64\n") == "sm_90a"
    assert ptx_target("") is None


@pytest.mark.parametrize(
    ("pattern", "mnemonic", "expected"),
    [
        ("FFMA", "FFMA", True),
        ("FFMA", "FFMA.FTZ", True),
        ("FFMA", "FFMA2", False),
        ("FMA", "FFMA", False),
        ("LDG.E.128", "LDG.E.128.CONSTANT", True),
        ("LDG.E.128", "LDG.E", False),
        ("LDGSTS*.128", "LDGSTS.E.BYPASS.LTC128B.128", True),
        ("LDGSTS*.128", "LDGSTS.E", False),
        ("LDG.[E]", "LDG.E", True),
        ("LDG.[E]", "LDG.E.128", False),
        ("ldg*", "LDG.E", False),
    ],
)
def test_patterns(pattern: str, mnemonic: str, expected: bool) -> None:
    assert matches(pattern, mnemonic) is expected


def test_every_expectation_is_judged() -> None:
    good = Expect(
        Count("==", 12), Count("<=", 40), sass={"FFMA": Count("==", 2), "LDG*": Count("==", 4), "HMMA*": Count("==", 0)}
    )
    assert check(good, artefact()) == []
    bad = Expect(Count("==", 0), Count("<", 40), sass={"FFMA": Count(">=", 512), "LDG.E.64": Count("==", 4)})
    spills, registers, ffma, ldg = check(bad, artefact())
    assert (spills.key, spills.wanted) == ("expect.spills", "0")
    assert "12 bytes" in spills.found and "8 stored, 4 loaded" in spills.found
    assert (registers.key, registers.wanted, registers.found) == ("expect.registers", "< 40", "40 a thread")
    assert ffma.wanted == ">= 512" and ffma.found == "2 (FFMA x 1, FFMA.FTZ x 1)"
    assert (ldg.key, ldg.found) == ("expect.sass['LDG.E.64']", "0")
    assert "LDG.E.128 x 1" in ldg.hint and "LDGSTS.E.BYPASS.LTC128B.128 x 1" in ldg.hint
    assert "k on sm_80: expect.sass['LDG.E.64']: wanted 4, found 0" in str(ldg)


def test_bank_clashes_are_judged() -> None:
    clean, clashing = artefact(), artefact(SASS.replace("FFMA R4, R5, R6, R7", "FFMA R4, R5, R9, R7"))
    none = Expect(bank_clashes=Count("==", 0))
    assert check(none, clean) == []
    (failure,) = check(none, clashing)
    assert (failure.key, failure.wanted, failure.found) == ("expect.bank_clashes", "0", "1 of 2 FFMA")
    assert "a cycle more" in failure.hint
    (offer,) = re.findall(r'bank_clashes: "(<=) (\d+)"', failure.help)  # which holds
    assert check(Expect(bank_clashes=Count(offer[0], int(offer[1]))), clashing) == []
    (few,) = check(Expect(bank_clashes=Count(">", 1)), clashing)
    assert few.hint and not few.help, "there are not too many"
    assert check(Expect(bank_clashes=Count("<=", 1)), clashing) == []


@pytest.mark.parametrize("relation", ["==", "<=", "!=", ">="])
def test_what_is_unknown_never_passes(relation: str) -> None:
    """Not even `FFMA: >= 0`, which would hold of any SASS."""
    bound = Count(relation, 0)  # type: ignore[arg-type]
    blind = artefact(None, Resources(None, None, None, None, None))
    failures = check(Expect(bound, bound, bound, {"FFMA": bound, "*": bound}), blind)
    paths = [("spills",), ("registers",), ("bank_clashes",), ("sass", "FFMA"), ("sass", "*")]
    assert [failure.path[1:] for failure in failures] == paths
    assert all("nothing to judge by" in failure.found for failure in failures)
    assert check(Expect(), blind) == []


def test_nearest_falls_back_to_spelling() -> None:
    counts = Counter({"LDGSTS.E.128": 3, "FFMA": 9, "EXIT": 1})
    assert nearest("LDG*.64", counts) == [("LDGSTS.E.128", 3)]
    assert nearest("FFNA", counts)[0] == ("FFMA", 9)
    assert nearest("QQQQQQQQ", counts) == []


def test_counts_of_several_kernels_are_told_apart() -> None:
    listing = """\
.text.kernel_cutlass_fill_kernel_tensor_0:
        /*0000*/                   STG.E.128 [R2.64], R4 ;
        /*0010*/                   EXIT ;
.text.kernel_cutlass_main_kernel_tensor_0:
        /*0000*/                   STG.E [R2.64], R4 ;
        /*0010*/                   STG.E [R2.64+0x4], R5 ;
        /*0020*/                   EXIT ;
"""
    assert _by_kernel("STG", listing) == "; 1 in fill, 2 in main"
    assert _by_kernel("LDG", listing) == ""
    assert _by_kernel("STG", listing[: listing.index(".text.kernel_cutlass_main")]) == ""
