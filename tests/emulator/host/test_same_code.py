"""Of code for several targets, a call runs what is the same for them once, and judges it once."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cutlass")

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import Emulated, FaultError, on_device  # noqa: E402
from cutegen.emulator.host.builds import Build, builds  # noqa: E402
from cutegen.emulator.host.capture import Launch  # noqa: E402
from cutegen.emulator.host.same_code import code_of  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

# Rows of 64 have a kernel of their own on sm_90a, the first one there; the numbers of the others are one higher for it.
SUMS = """\
cutegen: 1
kernel: sums
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32, align: 4}
  s: {shape: [M], dtype: f32, role: out}
compute: s = sum(X, N)
schedule:
  - for: {target: sm_90a, N: 64}
    cluster: {N: 2}
    tiler: {N: 32}
    threads_per_row: 32
  - for: {N: "<= 32"}
    threads_per_row: 8
    keep: registers
    tiler: {M: 4, N: 32}
  - keep: reload
    threads_per_row: 32
    tiler: {M: 2, N: 64}
targets: [sm_80, sm_90a]
"""


def test_what_is_the_same_for_two_targets_runs_once(tmp_path: Path) -> None:
    (made,) = generate(SUMS, "x.yaml").modules
    path = tmp_path / "sums.py"
    path.write_text(made.text, encoding="utf-8")
    module = load_module(path)
    emulated = Emulated(builds(module, lines=False), ["x", "s"], {"x": "in", "s": "out"})
    for n, ran in ((20, ["sm_80"]), (100, ["sm_80"]), (64, ["sm_80", "sm_90a"])):
        x = torch.randint(-9, 9, (5, n)).float()
        s = torch.empty(5)
        emulated.reports.clear()
        emulated(on_device(x), on_device(s))
        assert torch.equal(s, x.sum(1)), n
        assert [outcome.target for outcome in emulated.outcomes] == ran and len(emulated.reports) == len(ran)
        assert len(emulated.launches) == 2, "what host code asks for is told of both"


PTX = """
.version 8.3
.target {target}
.address_size 64
{around}
.visible .entry {name}(.param .u64 {name}_param_0, .param .u64 {name}_param_1)
{{
.reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
mov.u32 %r1, %tid.x;
ld.param.u64 %rd1, [{name}_param_0];
ld.param.u64 %rd2, [{name}_param_1];
setp.gt.u32 %p1, %r1, {most};
@%p1 bra {label};
{more}
cvta.to.global.u64 %rd3, %rd{pointer};
mul.wide.u32 %rd4, %r1, 4;
add.s64 %rd5, %rd3, %rd4;
st.global.b32 [%rd5+{offset}], %r1;
{label}:
ret;
}}
"""
USUAL = {"target": "sm_80", "around": "", "name": "k", "label": "$L__BB0_2"}
USUAL |= {"most": "7", "pointer": "1", "offset": "0", "more": "// nothing"}


MEMORY = ".extern .shared .align 16 .b8 memory[];"
USED = {"around": MEMORY, "more": "mov.u32 %r2, memory;"}
F8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%r1,%r2,%r3,%r4}, "
F8 += "{%r5,%r6,%r7,%r8}, {%r5,%r6}, {%r1,%r2,%r3,%r4};"


def code(**changes: str) -> str:
    text = PTX.format(**{**USUAL, **changes})
    return code_of(text, changes.get("name", "k"))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other_1"},
        {"label": "$L__BB3_7"},
        {"target": "sm_90a"},
        {"more": "\n\n// further down"},
        {"around": ".visible .entry before() { ret; }"},
        {"around": MEMORY},
    ],
)
def test_names_and_places_are_not_what_code_does(changes: dict[str, str]) -> None:
    assert code(**changes) == code()


@pytest.mark.parametrize(
    "changes",
    [
        {"most": "8"},
        {"pointer": "2"},
        {"offset": "4"},
        {"more": "add.u32 %r1, %r1, 0;"},
        {"more": "$L__BB0_1:"},
        {"more": "mov.u32 %r2, 0;"},
    ],
)
def test_what_code_does_is_told_apart(changes: dict[str, str]) -> None:
    assert code(**changes) != code()


def test_variables_count_as_they_are_used() -> None:
    other = {name: text.replace("memory", "__dynamic_shmem__3") for name, text in USED.items()}
    wider = {**USED, "around": MEMORY.replace("16", "32")}
    assert code(**other) == code(**USED) != code(**wider)


def test_products_whose_sums_have_fewer_bits_on_one_target_are_not_the_same() -> None:
    assert code(more=F8, target="sm_90a") == code(more=F8, target="sm_120a") != code(more=F8, target="sm_89")


def test_a_launch_that_one_target_refuses_is_refused_though_its_code_is_the_same() -> None:
    """A block of sm_80 has 163 KB of shared memory, one of sm_90a 227."""

    def asks(*arguments: object) -> list[Launch]:
        return [Launch("k", (1, 1, 1), (8, 1, 1), 200_000, bytes(16))]

    texts = {target: PTX.format(**{**USUAL, "target": target, "around": MEMORY}) for target in ("sm_90a", "sm_80")}
    nothing = PTX.format(**{**USUAL, "more": "ret;", "around": MEMORY, "target": "sm_90a"})
    made = [Build(target, text.replace(USUAL["more"], "ret;"), asks) for target, text in texts.items()]  # type: ignore[arg-type]
    assert code_of(nothing, "k") == code_of(made[0].ptx, "k") == code_of(made[1].ptx, "k")
    Emulated(made[:1], [])()
    with pytest.raises(FaultError, match="200000 bytes of shared memory"):
        Emulated(made, [])()
