"""Invalid or unsupported PTX is rejected by name before anything runs, and has no other effect.

The lists were made with ptxas 13.0, and are compared with it if it is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from emulator_kit import go, kernel, tensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutegen.emulator import PtxSyntaxError, UnsupportedInstruction
from cutegen.emulator.machine.program_builder import build_program
from cutegen.emulator.ptx.parser import parse

EIGHT = "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}"
LEGAL = f"""
ld.global.b32 %r5, [%rd0];                      ld.volatile.global.v2.b32 {{%r5,%r6}}, [%rd0];
ld.weak.global.ca.b32 %r5, [%rd0];              ld.global.L1::no_allocate.L2::128B.v2.b32 {{%r5,%r6}}, [%rd0];
ld.global.cg.nc.b32 %r5, [%rd0];                ld.global.nc.L1::evict_last.L2::evict_last.v8.b32 {EIGHT}, [%rd0];
ld.shared.cs.b32 %r5, [smem];                   ld.volatile.shared::cta.b32 %r5, [smem];
ld.param.b32 %r5, [k_p0+4];                     ld.param::entry.b64 %rd5, [k_p0];
ld.b32 %r5, [%rd0];                             ld.lu.L2::64B.b32 %r5, [%rd0];
ld.global.u16 %r5, [%rd0];                      ld.global.s8 %rd5, [%rd0];
st.global.b32 [%rd0], %r5;                      st.volatile.global.v2.b32 [%rd0], {{%r5,%r6}};
st.weak.global.wt.b32 [%rd0], %r5;              st.global.L1::evict_first.L2::evict_first.v8.b32 [%rd0], {EIGHT};
st.shared.cg.b32 [smem], %r5;                   st.global.u8 [%rd0], %r5;
cp.async.ca.shared.global [smem], [%rd0], 4;    cp.async.ca.shared::cta.global.L2::128B [smem], [%rd0], 8, %r5;
cp.async.cg.shared.global.L2::64B [smem], [%rd0], 16, 3;
cp.async.commit_group;                          cp.async.wait_group 2;
bar.sync 15;                                    bar.cta.sync 0, 32;
bar.arrive 1, 64;                               barrier.cta.arrive.aligned 2, 96;
bar.warp.sync -1;                               bar.warp.sync %r5;
barrier.cluster.arrive;                         barrier.cluster.arrive.relaxed.aligned;
barrier.cluster.wait;                           barrier.cluster.wait.acquire.aligned;
mapa.shared::cluster.u32 %r5, %r6, 1;           mapa.shared::cluster.u32 %r5, smem, %r6;
mapa.u64 %rd5, %rd0, %r5;                       fence.acq_rel.cluster;
mbarrier.init.b64 [%rd5], %r5;                  mbarrier.inval.shared::cta.b64 [%r5];
mbarrier.arrive.b64 %rd5, [%rd6];               mbarrier.arrive.relaxed.cluster.shared::cta.b64 %rd5, [%r5];
mbarrier.arrive.shared::cluster.b64 _, [%r5];   mbarrier.arrive.noComplete.release.cta.shared.b64 %rd5, [%r5], 3;
mbarrier.arrive.shared.b64 %rd5, [%r5], %r6;    mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r5], %r6;
mbarrier.expect_tx.shared.b64 [%r5], 16;        mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r5], 16;
mbarrier.test_wait.b64 %p1, [%rd6], %rd5;
mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r5], %r6;
mbarrier.try_wait.shared.b64 %p1, [%r5], %rd5, %r6;
mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 %p1, [%r5], 0;
st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5], %r6, [%r7];
st.async.weak.mbarrier::complete_tx::bytes.shared::cluster.v2.s64 [%r5], {{%rd6,%rd7}}, [%r7];
st.async.mbarrier::complete_tx::bytes.f64 [%rd5], %rd6, [%rd7];
fence.mbarrier_init.release.cluster;            fence.proxy.async;
fence.proxy.async.shared::cta;                  fence.proxy.async.global;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd5], %r6, [%r7];
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%rd5], 16, [%r7];
cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r5], [%r6], 32, [%r7];
cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r5], %r6;
cp.async.bulk.commit_group;                     cp.async.bulk.wait_group.read 3;
cp.async.mbarrier.arrive.shared.b64 [%r5];      cp.async.mbarrier.arrive.noinc.b64 [%rd5];
elect.sync %r5|%p1, -1;                         elect.sync _|%p1, %r5;
match.any.sync.b32 %r5, %r6, -1;                match.all.sync.b64 %r5|%p1, %rd6, -1;
ld.shared::cluster.v2.b32 {{%r5,%r6}}, [%r7];     st.shared::cluster.b32 [%r5], %r6;
barrier.sync 1;                                 barrier.cta.sync.aligned 0;
bra.uni L;                                      @%p1 bra L;
ret.uni;                                        exit;
prefetch.global.L2::evict_last [%rd0];          prefetchu.L1 [%rd0];
cvta.to.shared::cta.u64 %rd5, %rd0;             cvta.shared.u64 %rd5, smem;
shfl.sync.up.b32 %r5|%p1, %r0, 1, 0, -1;        shfl.sync.idx.b32 %r5|_, %r0, 1, 31, -1;
vote.sync.uni.pred %p1, !%p2, -1;               redux.sync.xor.b32 %r5, 3, -1;
cvt.sat.u8.s32 %rs5, %r0;                       cvt.rn.relu.satfinite.bf16.f32 %rs5, %r0;
cvt.rn.sat.f16.f32 %rs5, %r0;                   cvt.rz.f32.bf16 %r5, %rs0;
set.gt.bf16.f16 %rs5, %rs0, %rs1;               set.eq.f32.s16 %r5, %rs0, %rs1;
slct.ftz.u32.f32 %r5, %r0, %r1, %r2;            add.s16x2 %r5, %r0, %r1;
mad.rn.ftz.f32 %r5, %r0, %r1, %r2;              copysign.f64 %rd5, %rd0, %rd0;
mov.u32 %r5, smem;                              mov.b64 {{%rs1,%rs2,%rs3,%rs4}}, %rd0;
"""
ILLEGAL = f"""
ld.global.L2::nonsense.b32 %r5, [%rd0];         ld.global.ca.cg.b32 %r5, [%rd0];
ld.global.L1::bogus.b32 %r5, [%rd0];            ld.global.ca.L1::evict_last.b32 %r5, [%rd0];
ld.shared.nc.b32 %r5, [smem];                   ld.nc.b32 %r5, [%rd0];
ld.global.cv.nc.b32 %r5, [%rd0];                ld.weak.global.nc.b32 %r5, [%rd0];
ld.cta.global.b32 %r5, [%rd0];                  ld.volatile.global.ca.b32 %r5, [%rd0];
ld.global.wb.b32 %r5, [%rd0];                   ld.shared.L2::128B.b32 %r5, [smem];
ld.global.L2::evict_last.b32 %r5, [%rd0];       ld.shared.v8.b32 {EIGHT}, [smem];
ld.volatile.param.b32 %r5, [k_p0];              ld.global.shared.b32 %r5, [%rd0];
ld.global.f16 %rs5, [%rd0];                     ld.global.b32 %r5, [smem];
ld.global.v2.b32 %rd5, [%rd0];                  ld.global.b64 %r5, [%rd0];
st.global.ca.b32 [%rd0], %r5;                   st.global.L1::bogus.b32 [%rd0], %r5;
st.global.nc.b32 [%rd0], %r5;                   st.global.L2::128B.b32 [%rd0], %r5;
st.const.b32 [%rd0], %r5;                       st.global.wb.L1::no_allocate.b32 [%rd0], %r5;
st.global.f16 [%rd0], %rs5;                     st.global.b32 [%rd0], %rs5;
st.global.b32 [%rd0], %tid.x;                   st.global.b32 [%rd0], _;
cp.async.ca.shared.global.L2::bogus [smem], [%rd0], 4;
cp.async.cg.shared.global [smem], [%rd0], 8;    cp.async.ca.cg.shared.global [smem], [%rd0], 16;
cp.async.ca.global.shared [smem], [%rd0], 4;    cp.async.shared.global [smem], [%rd0], 4;
cp.async.ca.shared.global [smem], [%rd0], 4, 8; cp.async.ca.shared.global [smem], [%rd0], 4, %rd5;
cp.async.wait_group;                            cp.async.commit_group 0;
bar.sync 16;                                    bar.sync 20;
bar.sync;                                       bar.sync.aligned 0;
bar.arrive 1;                                   bar.warp.sync;
barrier.cluster.sync;                           barrier.cluster.wait.relaxed;
barrier.cluster.arrive 0;                       mapa.shared::cta.u32 %r5, %r6, 1;
mbarrier.init.shared::cluster.b64 [%r5], 7;     mbarrier.arrive.shared::cluster.b64 %rd5, [%r5];
mbarrier.arrive.expect_tx.shared.b64 %rd5, [%r5];
mbarrier.expect_tx.release.cta.shared.b64 [%r5], 16;
mbarrier.test_wait.parity.shared::cluster.b64 %p1, [%r5], %r6;
mbarrier.arrive.noComplete.expect_tx.shared.b64 %rd5, [%r5], 3;
st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b64 [%r5], {{%rd6,%rd7,%rd8,%rd9}}, [%r7];
st.async.shared::cluster.mbarrier::complete_tx::bytes.b16 [%r5], %rs6, [%r7];
cp.async.bulk.global.shared::cta [%rd5], [%r5], %r6;
cp.async.bulk.shared::cta.shared::cta.mbarrier::complete_tx::bytes [%r5], [%r6], 32, [%r7];
cp.async.bulk.wait_group;                       cp.async.mbarrier.arrive.noinc.shared::cluster.b64 [%r5];
elect.sync %r5, -1;                             match.any.sync.b32 %r5|%p1, %r6, -1;
match.any.b32 %r5, %r6;                         match.any.sync.u32 %r5, %r6, -1;
st.async.shared::cluster.b32 [%r5], %r6, [%r7]; fence.proxy.async.shared;
mapa.shared::cluster.b32 %r5, %r6, 1;           mapa.shared::cluster.u32 %rd5, %r6, 1;
barrier.sync.cta 0;                             bar.sync 0, 32, 5;
bra.uni;                                        bra 5;
exit.uni;                                       ret 1;
prefetch.shared.L1 [smem];                      prefetchu.L2 [%rd0];
prefetch.global.L1 %rd0;                        cvta.global.to.u64 %rd5, %rd0;
cvta.global.s64 %rd5, %rd0;                     cvta.global.u64 %rd5, smem;
shfl.sync.up.b32 %r5, %r0, 1, 31;               shfl.sync.up.u32 %r5, %r0, 1, 31, -1;
vote.sync.ballot.pred %p1, %p2, -1;             redux.sync.and.s32 %r5, %r0, -1;
cvt.rn.sat.bf16.f32 %rs5, %r0;                  cvt.sat.s32.u16 %r5, %rs0;
cvt.rn.f32.f16 %r5, %rs0;                       cvt.rp.relu.f16.f32 %rs5, %r0;
cvt.rn.sat.relu.f16.f32 %rs5, %r0;              cvt.rzi.s8.bf16 %rs5, %rs0;
cvt.rn.bf16.u8 %rs5, %rs0;                      div.ftz.full.f32 %r5, %r0, %r1;
set.eq.u16.s32 %rs5, %r0, %r1;                  set.lt.ftz.bf16.f32 %rs5, %r0, %r1;
slct.ftz.u32.s32 %r5, %r0, %r1, %r2;            sub.s16x2 %r5, %r0, %r1;
mad.rn.f16 %rs5, %rs0, %rs1, %rs2;              copysign.f16 %rs5, %rs0, %rs1;
mov.u64 {{%r5,%r6}}, %rd0;                      mov.b64 %rd5, {{_,%r5}};
add.u32 %r5, %tid.x, 1;                         add.u64 %rd5, %rd0, smem;
add.u32 %r5, %r0;                               lop3.b32 %r5;
add.u32 %r5, _, %r0;                            mov.u64 %rd5, %tid.x;
"""


def lines(text: str) -> list[str]:
    return [f"{part};" for part in re.split(r";\s*", text.strip()) if part.strip()]


def module(body: str) -> str:
    return kernel(body + "\nL:", 1, shared=64).replace("sm_80", "sm_100a")


def built(text: str) -> None:
    found = parse(text)
    build_program(found, found.kernel())


@pytest.mark.parametrize("text", lines(LEGAL))
def test_legal(text: str) -> None:
    built(module(text))


@pytest.mark.parametrize("text", lines(ILLEGAL))
def test_illegal(text: str) -> None:
    with pytest.raises((UnsupportedInstruction, PtxSyntaxError)) as caught:
        built(module(text))
    assert text in str(caught.value) or isinstance(caught.value, PtxSyntaxError)


def test_ptxas_agrees(tmp_path: Path) -> None:
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        pytest.skip("no ptxas on the PATH")
    for text, legal in [(t, True) for t in lines(LEGAL)] + [(t, False) for t in lines(ILLEGAL)]:
        file = tmp_path / "k.ptx"
        file.write_text(module(text), encoding="utf-8")
        done = subprocess.run([ptxas, "-arch=sm_100a", "-o", "/dev/null", str(file)], capture_output=True, text=True)
        assert (done.returncode == 0) == legal, (text, done.stderr)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("ld.f32 %r5, [smem];", "smem is no variable in generic memory"),
        ("bar.sync 1, 48;", "48 threads, not a multiple of 32"),
        ("cp.async.ca.shared.global [smem], [%rd0], 4, %p1;", "%p1 has 1 bits"),
        ("cp.async.ca.shared.global.L2::cache_hint [smem], [%rd0], 4, %rd5;", "modifier .L2::cache_hint"),
        ("ld.relaxed.gpu.global.b32 %r5, [%rd0];", "modifier .relaxed"),
        ("bar.red.popc.u32 %r5, 0, %p1;", "one of .sync was expected"),
        ("barrier.sync %r5;", "1 operands, 2 were expected"),
        ("barrier.sync %r5, %r0;", "no constant"),
        ("barrier.sync 1, %r0;", "no constant"),
        ("membar.gl;", ""),
        ("atom.global.add.u32 %r5, [%rd0], 1;", ""),
        ("red.global.add.u32 [%rd0], 1;", ""),
        ("activemask.b32 %r5;", ""),
        ("mov.u32 %r5, %clock;", "special register"),
    ],
)
def test_legal_but_not_emulated(body: str, why: str) -> None:
    """Said before anything runs, and never as a fault of the kernel."""
    out = np.full(4, 3, np.uint32)
    with pytest.raises(UnsupportedInstruction, match=f"is not emulated.*{re.escape(why)}"):
        go(kernel(f"st.global.b32 [%rd0], %r0;\n{body}", 1, shared=64), tensors((out, "inout")), block=128)
    assert out.tolist() == [3, 3, 3, 3]


TOKENS = re.compile(r"[\w.:%$]+|\S")


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mangled_instructions_are_refused_or_run(data: st.DataObject) -> None:
    """A token left out, repeated, or taken from another instruction: never an error of Python's own."""
    every = lines(LEGAL) + lines(ILLEGAL)
    tokens = TOKENS.findall(data.draw(st.sampled_from(every)))
    other = TOKENS.findall(data.draw(st.sampled_from(every)))
    place = data.draw(st.integers(0, len(tokens) - 1))
    match data.draw(st.sampled_from(["drop", "repeat", "swap", "modifier"])):
        case "drop":
            del tokens[place]
        case "repeat":
            tokens.insert(place, tokens[place])
        case "swap":
            tokens[place] = data.draw(st.sampled_from(other))
        case _:
            parts = tokens[0].split(".")
            parts.insert(data.draw(st.integers(1, len(parts))), data.draw(st.sampled_from(other[0].split("."))))
            tokens[0] = ".".join(parts)
    memory = np.zeros(4096, np.uint8)
    with suppress(PtxSyntaxError, UnsupportedInstruction):
        go(module(" ".join(tokens)), tensors((memory, "inout")), block=32, limit=2000)
