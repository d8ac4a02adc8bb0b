"""Functions that kernels call: their instructions take the place of the call, with names and memory of their own."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import fault, go, kernel, tensors

from cutegen.emulator.ptx.errors import PtxSyntaxError, UnsupportedInstruction

WHERE = "mad.wide.u32 %rd5, %r0, 4, %rd0;\n"
# Doubles what is odd, and returns early for the rest; it has names, and local memory, that the kernel has as well.
TWICE = """
.func (.param .align 8 .b8 func_retval0[8]) twice(.param .b32 twice_param_0, .param .b32 twice_param_1)
{
.reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<3>;
.local .align 4 .b8 stack[8];
mov.b64 %rd1, stack;
ld.param.b32 %r1, [twice_param_0];
ld.param.b32 %r4, [twice_param_1];
st.local.b32 [%rd1+4], %r1;
and.b32 %r2, %r1, 1;
setp.eq.u32 %p1, %r2, 0;
st.param.b32 [func_retval0], %r1;
st.param.b32 [func_retval0+4], %r4;
@%p1 ret;
ld.local.b32 %r3, [stack+4];
add.u32 %r3, %r3, %r1;
setp.gt.u32 %p1, %r3, 100;
@%p1 bra $L_end;
st.param.b32 [func_retval0], %r3;
$L_end:
ret;
}
"""
CALL = """{ // callseq
.param .b32 param0; .param .b32 param1; .param .align 8 .b8 retval0[8];
st.param.b32 [param0], %r0; st.param.b32 [param1], 7;
{guard} call.uni (retval0), twice, (param0, param1);
ld.param.v2.b32 {%r10, %r11}, [retval0];
}
"""
OUT = "add.u32 %r10, %r10, %r11;\nst.global.b32 [%rd5], %r10;\n"


def ptx(body: str, functions: str = TWICE) -> str:
    text = kernel(WHERE + body, 1)
    return text.replace(".visible .entry", f"{functions}\n.visible .entry")


def run(text: str) -> list[int]:
    data = np.zeros(8, np.uint32)
    report = go(text, tensors((data, "inout")), block=8)
    assert report.ok, str(report)
    return data.tolist()


EXPECTED = [7 + (2 * i if i % 2 else i) for i in range(8)]


def test_a_call_is_the_instructions_of_its_function() -> None:
    once = CALL.replace("{guard}", "")
    assert run(ptx(once + OUT)) == EXPECTED
    # The kernel's own names stay as they are, and a second call starts anew.
    around = ".local .align 4 .b8 stack[4];\nst.local.b32 [stack], %r0;\nmov.u32 %r1, 5;\n" + once
    assert run(ptx(around + once + "ld.local.b32 %r11, [stack];\n" + OUT)) == [
        e - 7 + i for i, e in enumerate(EXPECTED)
    ]
    assert run(ptx(around + "mov.u32 %r11, %r1;\n" + OUT)) == [e - 2 for e in EXPECTED]


def test_a_function_may_follow_the_kernel_and_call_another() -> None:
    outer = """.func (.param .b32 outer_out) outer(.param .b32 outer_in)
{
.reg .b32 %r<3>;
ld.param.b32 %r0, [outer_in];
CALL
add.u32 %r1, %r1, 1;
st.param.b32 [outer_out], %r1;
ret;
}
"""
    inner = CALL.replace("{guard}", "").replace("{%r10, %r11}", "{%r1, %r2}")
    body = "{ .param .b32 a; .param .b32 b;\nst.param.b32 [a], %r0;\ncall (b), outer, (a);\nld.param.b32 %r10, [b]; }\n"
    text = kernel(WHERE + body + "mov.u32 %r11, 6;\n" + OUT, 1)
    declared = ".func (.param .b32 x) outer(.param .b32 y) ;\n"
    text = text.replace(".visible .entry", declared + ".visible .entry")
    assert run(text + TWICE + outer.replace("CALL", inner)) == EXPECTED


def test_a_guard_leaves_the_call_out() -> None:
    guarded = "setp.ne.u32 %p1, %r0, 3;\nmov.u32 %r10, 0; mov.u32 %r11, 1;\n" + CALL.replace("{guard}", "@%p1").replace(
        "ld.param", "@%p1 ld.param"
    )
    assert run(ptx(guarded + OUT)) == [1 if i == 3 else e for i, e in enumerate(EXPECTED)]


def test_what_is_returned_must_have_been_written() -> None:
    silent = TWICE.replace("st.param.b32 [func_retval0+4], %r4;\n", "")
    found = fault(ptx(CALL.replace("{guard}", "") + OUT, silent), tensors((np.zeros(8, np.uint32), "inout")), block=8)
    assert found.kind == "never-written"


@pytest.mark.parametrize(
    ("call", "functions", "why"),
    [
        ("call.uni (retval0), %rd0, (param0), prototype_0;", "", "%rd0"),
        ("call.uni printer;", ".extern .func printer ;", "that the PTX does not have"),
        ("call.uni again;", ".func again() { call.uni again; ret; }", "recursive"),
        ("call.uni (%r1), twice, (%r2, %r3);", "", "%r1"),
        ("call.uni stage;", ".func stage() { .shared .b32 word; ret; }", "shared memory of a function"),
    ],
)
def test_other_calls_are_refused_by_name(call: str, functions: str, why: str) -> None:
    around = ".param .b32 param0; .param .align 8 .b8 retval0[8];\n"
    with pytest.raises(UnsupportedInstruction, match=why):
        run(ptx(around + call, TWICE + functions))


def test_a_call_with_other_parameters_is_no_ptx() -> None:
    with pytest.raises(PtxSyntaxError, match="other parameters"):
        run(ptx(CALL.replace("{guard}", "").replace("(param0, param1)", "(param0)") + OUT))
