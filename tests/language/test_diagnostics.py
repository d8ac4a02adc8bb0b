"""One case a problem: the code, the exact place, and the words that help."""

from __future__ import annotations

import pytest
from language_kit import ADD, BLOCKED, GEMM, LENGTHS, PACKED, PROBE, SCALED, SEGMENTS, SPLIT, TAKEN

from cutegen.language.diagnostics import Diagnostic, SpecError
from cutegen.language.reader import read_specs
from cutegen.lint.page import codes

CODES = codes()


def problems(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(SpecError) as caught:
        read_specs(text, "x.yaml")
    assert all(d.path == "x.yaml" and d.code in CODES and d.severity == "error" for d in caught.value.diagnostics)
    return caught.value.diagnostics


def test_the_base_specs_are_good() -> None:
    assert [read_specs(text)[0].kernel for text in (ADD, GEMM, PROBE)] == ["add", "mm", "look"]


@pytest.mark.parametrize(
    ("names", "code"),
    [
        ("matrix: {a: [M, N], b: [1, 2, 3]}\nkernel: add_{a}", "CG112"),  # four variants have a name of another's
        ("matrix: {a: [M, N]}\nmodules: [add_m, add_n]\nkernel: add", "CG112"),
        ("matrix: {a: [M, N, M], b: [1, 2]}\nmodules: [add_m1]\nkernel: add_{a}{b}", "CG105"),
        ("modules: [my_add]\nkernel: my-add", "CG110"),
        ("modules: [copy_rows]\nkernel: copy", "CG111"),
    ],
)
def test_one_problem_of_names_is_one_message(names: str, code: str) -> None:
    assert [d.code for d in problems(ADD.replace("kernel: add", names))] == [code]


@pytest.mark.parametrize("listed", [False, True])
def test_a_misspelt_atom_names_the_family_that_is_meant(listed: bool) -> None:
    """Further errors refer to the fields of that family; otherwise only the atom is reported."""
    written = "{mma: {atom: «wgma}, warps: {roles: pingpong}, cluster: {M: 2}, cluser: {M: 2}}"
    _, _, schedule = GEMM.partition("schedule:\n")
    head = GEMM.replace(f"schedule:\n{schedule}", "").replace("f32", "bf16")
    found = problems(f"{head}schedule:\n  {'- ' * listed}{written.replace('«', '')}\n")
    assert [d.code for d in found] == ["CG104", "CG101"]
    assert found[0].help == "did you mean `wgmma`?" and found[1].help == "did you mean `cluster`?"


def viewed(index: str) -> tuple[str, str]:
    """The replacement that has another index in the place of the first view of PACKED."""
    return '"GU[:, :N]"', f'«"{index}"'


VIEWS = [
    (PACKED, *viewed("GU[:, N:3*N]"), "CG145", "reaches from N to 3 * N, and there are 2 * N elements"),
    (PACKED, *viewed("GU[:, N-1:2*N-1]"), "CG145", "reaches from N - 1 to 2 * N - 1"),
    (PACKED, *viewed("GU[:, :N"), "CG145", "is not an index write an index as torch has it"),
    (PACKED, *viewed("GU"), "CG145", "`GU` is not an index of an argument"),
    (PACKED, *viewed("GU[:, ::N]"), "CG145", "has a step that is not a number of at least 1"),
    (PACKED, *viewed("GU[:, 1.5:]"), "CG145", "sizes are modes and whole numbers with `+`, `-` and `*`"),
    (PACKED, *viewed("GU[:, :N, 0]"), "CG145", "has more items than `GU` has modes `GU` is [M, 2*N]"),
    (PACKED, *viewed("GU[0, :N]"), "CG145", "`G`, GU[0, :N] takes the place 0 along `M`, which may have fewer"),
    (PACKED, "[M, 2*N], dtype: bf16}\n  G: {shape: [M, N], view: \"GU[:, :N]\"}\n"
     "  U: {shape: [M, N], view: \"GU[:, N:]\"}",
     "[M, N, 2], dtype: bf16}\n  G: {shape: [M, N, K], view: «\"GU[..., 0]\"}\n  U: {view: \"GU[..., 1]\"}",
     "CG145", "`G` has the mode `K`, and GU[..., 0] has nothing left for it"),
    (PACKED, *viewed("GU[:, :2]"), "CG145", "reaches from 0 to 2, and there are 2 * N elements"),
    (PACKED, *viewed("GU[:, ::3]"), "CG145", "takes one of every 3 elements, and 2 * N may not be a multiple of that"),
    (PACKED, *viewed("gu[:, :N]"), "CG145", "`gu` is not a tensor of this kernel did you mean `GU`?"),
    (PACKED, *viewed("U[:, :]"), "CG145", "is a view of `U`, which is a view itself index the argument"),
    (PACKED, 'view: "GU[:, :N]"', 'view: "GU[:, :N]", «dtype: bf16', "CG145", "and `dtype` is its argument's"),
    (PACKED, 'shape: [M, N], view: "GU[:, :N]', 'view: «"GU[:, :]', "CG145", "which is not a mode write its `shape`"),
    (PACKED, "[M, 2*N], dtype: bf16", "[M, «2/N], dtype: bf16", "CG145", "is not a size"),
    (PACKED, "2*N], dtype: bf16", "2*N], dtype: bf16, «at: {M: U}", "CG145", "has both views and `at`"),
    (PACKED, "bf16}\n  G:", "bf16, role: «inout}\n  G:", "CG126", "compute assigns to none of its views G, U"),
    (PACKED, "compute: Y = silu(G) * U", "compute: [Y = U, «G = G * U]", "CG122", "`role: inout` at the argument GU"),
    (PACKED, "= silu(G)", "= silu(«GU)", "CG121", "an argument that has views name its views G, U"),
    (SPLIT, "role: inout}\n  Q", "role: «out}\n  Q", "CG123", "`QKV` is out, and compute reads its view `Q`"),
    (SPLIT, "role: inout}\n  Q: {shape: [T, HQ, D], view: \"QKV[:, :HQ*D]\"}\n  X: {shape: [T, HQ, D], dtype: f32}\n"
     "compute: Q = Q * X", "role: «out}\n  Q: {shape: [T, HQ, D], view: \"QKV[:, :HQ*D]\"}\n"
     "  X: {shape: [T, HQ, D], dtype: f32}\ncompute: Q = X", "CG145", "leave some of it unwritten"),
    (SPLIT, '"QKV[:, :HQ*D]"}', '"QKV[:, :HQ*D]"}\n  K: {shape: [T, HQ, D], view: «"QKV[:, D:(HQ + 1)*D]"}',
     "CG145", "`Q`, which is written, may share elements of `QKV` with `K`"),
]  # fmt: skip


def with_places(declared: str) -> tuple[str, str]:
    """The replacement that declares the places of TAKEN otherwise."""
    return "ids}}\n  ids: {shape: [T], dtype: i64}", f"«ids}}}}\n  ids: {{shape: {declared}}}"


# In each replacement `«` marks the expected place. Base, what is replaced, by what, code, words.
CASES = [
    # The op that torch knows
    (ADD, "kernel: add", "kernel: add\ntorch: {op: «add}", "CG138", "not the name of an op"),
    (ADD, "kernel: add", "kernel: add\ntorch: {op: «aten::add}", "CG138", "belongs to torch"),
    (ADD, "kernel: add", "kernel: add\ntorch: {op: «my::add.out}", "CG138", "not the name of an op"),
    (ADD, "kernel: add", "kernel: add\ntorch: {«backward: add_bwd}", "CG139", "needs `op`"),
    (ADD, "kernel: add", "kernel: add\ntorch: {op: my::add, backward: «a-b}", "CG139", "not an identifier"),
    (ADD, "role: out}", "role: inout}\ntorch: {op: my::add, «backward: add_bwd}", "CG139", "is read and written"),
    (ADD, "scalars: {alpha: f32}", "scalars: {alpha: f32, «ctx: f32}\ntorch: {op: my::add}", "CG113", "ctx"),
    # places
    (TAKEN, "{V: ids}", "{V: «idz}", "CG143", "not a tensor of this kernel did you mean `ids`?"),
    (TAKEN, "{V: ids}", "{«W: ids}", "CG116", "not a mode here modes: V, D"),
    (TAKEN, *with_places("[T], dtype: u8"), "CG143", "`ids`, which holds the places along `V` of `W`, is u8"),
    (TAKEN, *with_places("[T], dtype: i64, role: inout"), "CG143", "is inout places are read only"),
    (TAKEN, *with_places("[T], dtype: i64, at: {T: ids}"), "CG143", "has `at` itself"),
    (TAKEN, *with_places("[T, 1], dtype: i64"), "CG143", "is [T, 1]"),
    (TAKEN, *with_places("[D], dtype: i64"), "CG143", "has the mode `D`"),
    (TAKEN, *with_places("[V], dtype: i64"), "CG143", "has the mode `V`"),
    (TAKEN, "at: {V: ids}}", "at: {«V: ids}}\n  x: {shape: [V], dtype: f32}", "CG143", "`V` is a mode of `x`"),
    (TAKEN, "Y = W", "Y = W * «coord(V)", "CG116", "`V` is not a mode here modes: D, T"),
    (TAKEN, "[V, D], dtype: bf16, at: {V: ids}}", "[V, D, U], dtype: bf16, «at: {V: ids, U: ids}}",
     "CG143", "V and U, are not adjacent"),
    (TAKEN, "at: {V: ids}}", "at: {V: ids}}\n  Z: {shape: [D, S], dtype: bf16, role: out, «at: {S: ids}}",
     "CG143", "which is not its first mode"),
    (TAKEN, "[V, D]", "«[D, V]", "CG129", "at its places W is [D, T] Y is [T, D] write `shape: [V, D]`"),
    (TAKEN, "{V: ids}}\n  ids: {shape: [T]", "«{V: ids}}\n  ids: {shape: [T, B]",
     "CG129", "W is [T, B, D] Y is [T, D]"),
    (TAKEN, "compute: Y = W", "  Z: {shape: [S, D], dtype: bf16, role: out, at: {S: ids}}\n"
     "compute: [Y = W, Z = W]\nverify: {shapes: [«{T: 9, D: 8, V: 2, S: 8}]}",
     "CG143", "at 9 places, and there are 2 along V"),
    (TAKEN, "compute: Y = W", "  Z: {shape: [S, D], dtype: bf16, role: out, at: {S: ids}}\n"
     "compute: [Y = W, Z = W]\nstatic: «{T: 9, S: 8}", "CG143", "at 9 places, and there are 8 along S"),
    (GEMM, "A: {shape: [M, K]", "A: {at: {M: «B}, shape: [M, K]", "CG143", "the places along `M` of `A`, is f16"),
    (GEMM, "A: {shape: [M, K]", "rows: {shape: [M], dtype: i32}\n  A: {«at: {T: rows}, shape: [T, K]",
     "CG143", "only `mma_sync` multiplies such rows"),
    # segments
    (SEGMENTS, "offsets: ends", "offsets: «end", "CG144", "not a tensor of this kernel did you mean `ends`?"),
    (SEGMENTS, "offsets: ends", "offsets: «W", "CG144", "is bf16 give `W` the type i32"),
    (SEGMENTS, "[X], dtype: i32}", "[X, N], dtype: i32}", "CG144", "is [X, N] it has one end for each element along X"),
    (SEGMENTS, "dtype: i32}", "dtype: i32, role: inout}", "CG144", "is inout ends are only read"),
    (SEGMENTS, "of: X", "of: «Y", "CG116", "`Y` is not a mode here"),
    (SEGMENTS, "of: X", "of: «M", "CG144", "along itself"),
    (SEGMENTS, "  M: {of", "  «L: {of", "CG116", "`L` is not a mode here"),
    (SEGMENTS, "role: out}\nmodes:\n",
     "role: out}\n  more: {shape: [Y], dtype: i32}\nmodes:\n  «N: {of: Y, offsets: more}\n",
     "CG144", "both cut into segments"),
    (SEGMENTS, "W: {shape: [X, N, K]", "W: {shape: «[X, M, K]", "CG144", "`W` has `M` and `X`"),
    (SEGMENTS, "W: {shape: [X, N, K]", "W: {shape: «[N, K]", "CG144", "lacks the mode `X`, along which each"),
    (SEGMENTS, "A: {shape: [M, K]", "A: {shape: «[K, M]", "CG144", "must be its first mode"),
    (SEGMENTS, "C = A @ W.T", "C = A @ W.T + «coord(M)", "CG144", "have no coordinate in `compute`"),
    (ADD, "scalars:", "modes: {«M: {of: N, offsets: B}}\nscalars:", "CG144", "`op: elementwise` takes none"),
    # lengths
    (LENGTHS, "lengths: used", "lengths: «usd", "CG149", "not a tensor of this kernel did you mean `used`?"),
    (LENGTHS, "lengths: used", "lengths: «K", "CG149", "is bf16 give `K` the type i32"),
    (LENGTHS.replace("[B], dtype: i32", "[B, N], dtype: i32"), "lengths: used", "lengths: «used", "CG149",
     "is [B, N] it has one length for each place along B"),
    (LENGTHS.replace("dtype: i32}", "dtype: i32, role: inout}"), "lengths: used", "lengths: «used", "CG149",
     "is inout lengths are only read"),
    (LENGTHS, "of: B", "of: «X", "CG116", "`X` is not a mode here"),
    (LENGTHS, "of: B", "of: «N", "CG149", "along itself"),
    (LENGTHS, "  N: {of", "  «L: {of", "CG116", "`L` is not a mode here"),
    (LENGTHS, "  N: {of: B, lengths: used}", "  «N: {of: B}", "CG102", "write `{of: X, offsets: ends}`"),
    (LENGTHS, "  N: {of", "  «M: {of", "CG149", "is N rows beyond a length are computed in vain"),
    (LENGTHS, "  N: {of", "  «D: {of", "CG149", "the mode that is walked is N"),
    (LENGTHS.replace("[B], dtype: i32", "[M], dtype: i32"), "of: B", "of: «M", "CG149", "a tile has several rows"),
    (LENGTHS, "lengths: used}\n", "lengths: used}\n  «D: {of: B, lengths: used}\n", "CG149", "both have lengths"),
    (ADD, "scalars:", "modes: {«M: {of: N, lengths: B}}\nscalars:", "CG149", "`op: elementwise` takes none"),
    # views
    *VIEWS,
    # blocks
    (BLOCKED, "blocks: K", "blocks: «L", "CG147", "`L` is not a mode of a tensor modes: M, K"),
    (BLOCKED, "size: 128}", "size: 128}\n  KC: {blocks: «KB, size: 4}", "CG147",
     "`KC` has blocks of `KB`, which has blocks itself write `{blocks: K, size: 512}`"),
    (BLOCKED, "size: 128}", "size: 128}\n  «KC: {blocks: K, size: 4}", "CG147", "no tensor has the mode `KC`"),
    (BLOCKED, "size: 128", "size: «1", "CG105", "at least 2"),
    (BLOCKED, "  KB: {blocks: K, size: 128}", "  «KB: {blocks: K}", "CG102", "neither as segments nor as blocks"),
    (BLOCKED, "size: 128}", "size: 128}\n  «KC: {of: K, size: 4}", "CG102", "write `{of: X, offsets: ends}`"),
    (BLOCKED, "compute", "static: {«KB: 4}\ncompute", "CG147", "the size of `KB` follows from that of `K`"),
    (BLOCKED, "compute", "divisible: {«KB: 4}\ncompute", "CG147", "promise a size of `K`"),
    (BLOCKED, "s: {shape: [M, KB]", "s: {shape: «[K, KB]", "CG147", "has the mode `K` twice"),
    (BLOCKED, "s: {shape: [M, KB], dtype: f32", "s: {shape: [M, KB], dtype: f32, role: «inout", "CG147",
     "reduce rows of a view of shape [..., KB, K] with `static: {K: 128}`"),
    (BLOCKED, "s: {", "«s: {at: {M: ids}, ", "CG147", "is taken at places"),
    (BLOCKED, "X * s", "X * s + «coord(KB)", "CG116", "`KB` is not a mode here modes: M, K"),
    (BLOCKED.replace("elementwise", "rowwise").replace("* s", "* s / sum(X, K)"), "[M, KB]", "«[M, KB]", "CG147",
     "see rows as [..., KB, K], `static: {K: 128}`, without `modes`"),
    (SCALED.replace("modes:", "scalars: {beta: f32}\nmodes:"), "(A * sA)", "(A * «beta)", "CG146",
     "`beta` is not a tensor, as a scale of `A` must be"),
    (SCALED, "sA: {shape: [M, KB], dtype: f32", "sA: {shape: [M, KB], dtype: «f16", "CG146", "write `dtype: f32`"),
    (SCALED, ".T", ".T * «sA", "CG146", "multiply the operand that it scales, as in `(A * sA) @ B.T`"),
    (SCALED, "(B * sB)", "(B * «sA)", "CG146", "`sA` is [M, KB], whose modes are none of `B` and their blocks"),
    (SCALED, "compute: C = (A * sA)", "schedule: {mma: {atom: mma_sync}}\ncompute: C = «(A * sA)", "CG146",
     "kernels with this atom scale no blocks of their operands write `mma: {atom: wgmma}`"),
    (SCALED.replace("[NB, KB]", "[NB, KC]").replace("  NB:", "  KC: {blocks: K, size: 64}\n  NB:"), "C = (", "C = «(",
     "CG146", "the scales have blocks of 64 and 128 along `K`"),
    (SCALED.replace("sA: {shape: [M, KB]", "sA: {shape: [M]"), "(A * sA)", "(A * «sA)", "CG146",
     "has no blocks of `K`, along which `A` is summed write it after the product, as `(A @ B.T) * sA`"),
    # YAML
    (ADD, "op: elementwise", "op: elementwise\n«op: gemm", "CG010", "written twice"),
    (ADD, "B: {shape: [N], dtype: f32}", "B: {shape: [N], dtype: f32, «dtype: f32}", "CG010", "written twice"),
    (ADD, "scalars:", "«4: 4\nscalars:", "CG011", "not `4`"),
    (ADD, "scalars:", "«null: 4\nscalars:", "CG011", "not `null`"),
    (ADD, "scalars:", "«[a]: 4\nscalars:", "CG011", "a list or mapping"),
    (ADD, "kernel: add", "kernel: «!!binary add", "CG012", "!!binary"),
    (ADD, "kernel: add", "kernel: «!x add", "CG012", "!x"),
    (ADD, "kernel: add", "kernel: «!!python/name:os.system add", "CG012", "python"),
    (ADD, "tensors:\n", "tensors: «!!omap\n", "CG012", "omap"),
    (ADD, "cutegen: 1", "cutegen: !!int «x", "CG017", "does not match its tag"),
    (ADD, "cutegen: 1", "cutegen: «" + "1" * 500, "CG017", "500 characters"),
    (ADD, "scalars: {alpha: f32}", "scalars: &s {alpha: «*s}", "CG013", "inside the value that it refers to"),
    (ADD, "scalars: {alpha: f32}", "scalars: {alpha: «*nothing}", "CG013", "refers to nothing"),
    (ADD, "  B: {", "  «<<: {x: y}\n  B: {", "CG014", "merge key"),
    (ADD, "copy: {atom", "copy: {thread_layout: «(4,2):(2,1), atom", "CG015", "commas"),
    (ADD, "[M, N], dtype: f32, role", "[M, «(4,2)], dtype: f32, role", "CG015", "commas"),
    (ADD, "[M, N], dtype: f32, role", "[M, «(4,2)], dtype: f32, role", "CG015", "this layout"),
    (ADD, "compute: C = A + alpha * B", "compute: [«C = maximum(A, 2)]", "CG015", 'quote it: "C = maximum(A, 2)"'),
    (ADD, "  partition:", "«\tpartition:", "CG006", "tab"),
    (ADD, "compute: C", "compute: C«: C", "CG005", "mapping values"),
    (ADD, "kernel: add", "kernel: a«\x00", "CG004", "U+0000"),
    (ADD, "kernel: add", "kernel: a«\x1b", "CG004", "U+001B"),
    # schema
    (ADD, "kernel: add", "«kernal: add", "CG101", "did you mean `kernel`"),
    (ADD, "  thread_layout:", "  «thread_layuot:", "CG101", "did you mean `thread_layout`"),
    (ADD, "major: N", "«Major: N", "CG101", "did you mean `major`"),
    (ADD, "schedule:\n", "schedule:\n  «zzz: 3\n", "CG101", "known: partition"),
    (ADD, "schedule:\n", "schedule:\n  «stages: 3\n", "CG101", "belongs to `op: rowwise` and `op: gemm`"),
    (GEMM, "schedule:\n", "schedule:\n  «partition: inner\n", "CG101", "belongs to `op: elementwise`"),
    (GEMM, "schedule:\n", "schedule:\n  «bits: 64\n", "CG101", "`bits` belongs under `schedule.copies.NAME`"),
    (ADD, "targets:", "«tiler: {M: 4}\ntargets:", "CG101", "`tiler` belongs under `schedule`"),
    (GEMM, "schedule:\n", "schedule:\n  «warps: {}\n", "CG101", "schedules with `mma: {atom: wgmma}`"),
    (GEMM, "  mma:\n", "  mma:\n    atom: «fmaa\n", "CG104", "mma_sync, tcgen05, wgmma did you mean `fma`?"),
    (ADD, "cutegen: 1", 'cutegen: «"1"', "CG103", "write it as a number: 1"),
    (GEMM, "{M: 128, N: 128, K: 8}", "«[128, 128, 8]", "CG103", "`tiler: {M: 128, N: 128, K: 8}`"),
    (GEMM, "{M: 128, N: 128, K: 8}", "«(128,128,8)", "CG103", "`tiler: {M: 128, N: 128, K: 8}`"),
    (ADD, "[sm_80]", "«sm_80", "CG103", "write `targets: [sm_80]`"),
    (ADD, "{M: mask, N: none}", "«none", "CG103", "`predication: {M: none, N: none}`"),
    (GEMM, "{M: mask, K: residue_first}", "«mask", "CG103", "{M: mask, N: mask, K: residue_first}"),
    (ADD, "dtype: f32, major", "dtype: «{t}, major", "CG104", 'quote it: "{t}"'),
    (ADD, "align: 16", "align: «{w}", "CG103", 'quote it: "{w}"'),
    (GEMM, "accumulator: f32", "accumulator: «f16", "CG104", "write `f32` or `f64`"),
    (GEMM, "stages: 3", "stages: «0", "CG105", "from 2 to 32, not 0"),
    (GEMM, "stages: 3", "stages: «65", "CG105", "from 2 to 32, not 65"),
    (ADD, "[sm_80]", "[«sm_81]", "CG109", "unknown target `sm_81` known: sm_80"),
    (ADD, "[sm_80]", "[«null]", "CG109", "must be the name of a target, not nothing"),
    (ADD, "[sm_80]", "[sm_80, «sm_80]", "CG105", "`targets` names `sm_80` twice"),
    (ADD, "kernel: add\n", "", "CG102", "`kernel` is missing"),
    (ADD, "B: {shape: [N], dtype: f32}", "«B: {shape: [N]}", "CG102", "`dtype` is missing in `tensors.B`"),
    (PROBE, "schedule:\n  tv_layout: ((2,2),(2,3)):((2,12),(1,4))\n  tiler: {M: 4, N: 6}\n", "", "CG102", "`schedule`"),
    (ADD, "align: 16", 'align: «"16"', "CG103", "write it as a number: 16"),
    (ADD, "align: 16", "align: «16.0", "CG103", "whole number"),
    (ADD, "align: 16", "align: «1_6", "CG103", "write it as a number: 16"),
    (ADD, "shape: [N]", "shape: [«4]", "CG105", "name the mode"),
    (ADD, "shape: [N]", "shape: «N", "CG103", "must be a list"),
    (ADD, "kernel: add", "kernel: «[add]", "CG103", "must be a text"),
    (ADD, "  shapes:\n    - {M: 7, N: 16}\n", "  shapes: «7\n", "CG103", "must be a list, not the number `7`"),
    (ADD, "op: elementwise", "op: «elementwse", "CG104", "did you mean `elementwise`"),
    (ADD, "dtype: f32, major", "dtype: «fp32, major", "CG104", "did you mean `f32`"),
    (ADD, "partition: thread_value", "partition: «thread-value", "CG104", "did you mean `thread_value`"),
    (ADD, "bits: 128", "bits: «48", "CG104", "known: 8, 16"),
    (ADD, "  partition: thread_value\n  thread_layout: (32,8):(8,1)\n  value_layout: (4,8):(8,1)\n",
     "  partition: inner\n  tiler: {M: «0}\n", "CG105", "at least 1, not 0"),
    (ADD, "N: 16}\n", "N: «99999999999}\n", "CG105", "at most 2147483647"),
    (ADD, "[M, N], dtype: f32, role", "«[], dtype: f32, role", "CG129", "has no modes"),
    (ADD, "atol: 1e-3", "atol: «-1.5", "CG105", "at least 0"),
    (ADD, "targets: [sm_80]", "targets: [sm_80, «sm_80]", "CG105", "twice"),
    (ADD, "N: 16}\n", "N: «0}\n", "CG105", "at least 1"),
    (GEMM, "{M: 7, N: 16, K: 0}", "{M: «0, N: 16, K: 0}", "CG105", "only `K` may be 0"),
    (ADD, "cutegen: 1", "cutegen: «2", "CG106", "reads version 1"),
    (ADD, "kernel: add", "kernel: add_«{a}", "CG107", "no `matrix:`"),
    (ADD, "kernel: add", "matrix: {dt: [f32]}\nkernel: add_«{dtt}", "CG107", "did you mean `dt`"),
    (ADD, "kernel: add", "summary: all «} braces\nkernel: add", "CG107", "`}}`"),
    (ADD, "kernel: add", "«matrix: {a: " + str(list(range(40))) + ", b: " + str(list(range(40))) + "}\nkernel: add",
     "CG108", "40 x 40 = 1600"),
    (ADD, "kernel: add", "matrix: {a: «4}\nkernel: add", "CG103", "must be a list"),
    (ADD, "kernel: add", "matrix: {a: [«[M]]}\nkernel: add", "CG103", "must be"),
    (ADD, "kernel: add", "matrix: {a: [M, N]}\nmodules: [«add_M]\nkernel: add_{a}", "CG142", "did you mean `add_m`?"),
    (ADD, "kernel: add", "modules: [add, «zzz]\nkernel: add", "CG142", "its kernels: add"),
    (ADD, "kernel: add", "modules: «add\nkernel: add", "CG103", "write `modules: [add]`"),
    (ADD, "kernel: add", "modules: [add, «add]\nkernel: add", "CG105", "`modules` names `add` twice"),
    (ADD, "kernel: add", "modules: «[]\nkernel: add", "CG105", "at least 1 entry"),
    (ADD, "[sm_80]", "[«sm_90]", "CG109", "did you mean `sm_90a`"),
    (ADD, "[sm_80]", "[sm_80, «volta]", "CG109", "known: sm_80, sm_86"),
    # names
    (ADD, "kernel: add", "kernel: «../add", "CG110", "is a path"),
    (ADD, "kernel: add", "kernel: «my-add", "CG110", "not an identifier"),
    (ADD, "kernel: add", "kernel: «_add", "CG110", "not an identifier"),
    (ADD, "kernel: add", "kernel: «ädd", "CG110", "not an identifier"),
    (ADD, "kernel: add", "kernel: «lambda", "CG110", "keyword"),
    (ADD, "kernel: add", "kernel: «" + "a" * 65, "CG110", "65 characters"),
    (ADD, "kernel: add", 'kernel: «""', "CG110", "empty"),
    (ADD, "kernel: add", "kernel: «torch", "CG111", "torch"),
    (ADD, "kernel: add", "kernel: «copy", "CG111", "`copy_rows`"),
    (ADD, "kernel: add", "kernel: «tomllib", "CG111", "in place of the module `tomllib`"),
    (ADD, "kernel: add", "kernel: «yaml", "CG111", "`yaml_rows`"),
    (ADD, "kernel: add", "kernel: «'add '", "CG110", "`add ` begins or ends with white space"),
    (ADD, "kernel: add", "matrix: {a: [M, N]}\nkernel: «add", "CG112", "already exists"),
    (ADD, "kernel: add", "matrix: {a: [M, N], b: [1, 2, 3]}\nkernel: «add_{a}", "CG112", "already exists"),
    (ADD, "kernel: add", "matrix: {a: [M, N, «M]}\nkernel: add_{a}", "CG105", "names `M` twice"),
    (ADD, "kernel: add", "matrix: {a: [M, N], b: [1, «1]}\nkernel: add_{a}", "CG105", "names `1` twice"),
    (ADD, "kernel: add", "modules: [my_add]\nkernel: «my-add", "CG110", "not an identifier"),
    (ADD, "kernel: add", "modules: [copy_rows]\nkernel: «copy", "CG111", "`copy_rows`"),
    (ADD, "kernel: add", "matrix: {a: [M, N]}\nmodules: [add_m]\nkernel: «add", "CG112", "already exists"),
    (ADD, "kernel: add", "modules: [«my_add]\nkernel: add", "CG142", "no kernel `my_add`"),
    (ADD, "scalars: {alpha: f32}", "scalars: {alpha: f32, «lambda: f32}", "CG113", "Python write `lambda_`"),
    (ADD, "  B: {", '  «"B b": {', "CG113", "not an identifier"),
    (ADD, "  B: {", '  «"B b": {', "CG113", "write `B_b`, or another name"),
    (ADD, "shape: [M, N], dtype: f32, major: N", "shape: [M, «N.0], dtype: f32", "CG113", "mode name"),
    (ADD, "scalars: {alpha: f32}", "scalars: {alpha: f32, «torch: f32}", "CG113", "uses that name"),
    (ADD, "scalars: {alpha: f32}", "scalars: {alpha: f32, «a: f32}", "CG114", "like the tensor `A`"),
    (ADD, "scalars: {alpha: f32}", "scalars: {alpha: f32, «Exp: f32}", "CG114", "function of compute"),
    (ADD, "  B: {shape: [N]", "  B: {shape: [«n]", "CG114", "like the mode `N`"),
    (ADD, "kernel: add\n", "kernel: c\n", "CG114", "like the kernel"),
    # tensors
    (ADD, "shape: [N]", "shape: [N, «N]", "CG115", "twice"),
    (ADD, "major: N", "major: «K", "CG116", "modes of A: M, N"),
    (ADD, "predication: {M: mask, N: none}", "predication: {M: mask, «n: none}", "CG116", "did you mean `N`"),
    (ADD, "{M: 7, N: 16}", "{M: 7, N: 16, «K: 1}", "CG116", "modes: M, N"),
    (ADD, "targets:", "static: {«Q: 4}\ntargets:", "CG116", "`Q`"),
    (ADD, "targets:", "divisible: {«Q: 4}\ntargets:", "CG116", "`Q`"),
    (GEMM, "tiler: {M: 128", "tiler: {«m: 128", "CG116", "did you mean `M`"),
    (GEMM, "permutation: {M:", "permutation: {«P:", "CG116", "`P`"),
    (PROBE, "tiler: {M: 4, N: 6}", "tiler: {M: 4, «T: 6}", "CG116", "`T`"),
    (ADD, "align: 16", "align: «24", "CG117", "write 16"),
    (ADD, "align: 16", "align: «2", "CG117", "write 4"),
    (ADD, "align: 16", "align: «2048", "CG105", "at most 1024"),
    (GEMM, "B: {shape: [N, K], dtype: f16}", "B: {shape: [N, K], dtype: «i8}", "CG118", "f64, f32, f16, bf16"),
    (GEMM, "B: {shape: [N, K], dtype: f16}", "B: {shape: [N, K], dtype: «f32}", "CG118", "both must be the same"),
    (ADD, '">= 4"', "«many", "CG119", "a bound such as"),
    (ADD, '">= 4"', '«">= 99999999999"', "CG119", "a bound such as"),
    (ADD, '">= 4"', '«">= 9999999999"', "CG119", "a bound such as"),
    (ADD, "LDG.E.128", "«LDG E", "CG119", "not a glob"),
    # compute
    (ADD, "C = A + alpha * B", "C = A + «* B", "CG120", "not an assignment"),
    (ADD, "C = A + alpha * B", "C = A + «alpha[0] * B", "CG120", "`alpha[0]` is not supported"),
    (ADD, "C = A + alpha * B", "C = A + «geru(alpha * B)", "CG120", "did you mean `gelu`"),
    (ADD, "C = A + alpha * B", "«A + alpha * B", "CG120", "one assignment"),
    (ADD, "C = A + alpha * B", "«D = alpha * B; C = A + D", "CG120", "several statements in one text"),
    (ADD, "C = A + alpha * B", "'C = A + «alpa * B'", "CG121", "did you mean `alpha`"),
    (ADD, "C = A + alpha * B", "C = A + alpha * B + «D", "CG121", "`D` is neither"),
    (ADD, "C = A + alpha * B", "«D = A + alpha * B", "CG125", "never used"),
    (ADD, "C = A + alpha * B", "«c = A + alpha * B", "CG121", "did you mean `C`"),
    (ADD, "C = A + alpha * B", "«C[A] = B", "CG120", "scatter"),
    (ADD, "C = A + alpha * B", "«C += A + alpha * B", "CG120", "write `C = C + (A + alpha * B)`"),
    (ADD, "C = A + alpha * B", "C = A + «B[:, 1:]", "CG120", "with a `view` such as"),
    (ADD, "shape: [N]", "shape: [«2*N]", "CG113", "only an argument that has views"),
    (GEMM, "C = A @ B.T + C", "C = A @ «BB.T + C", "CG121", "`BB` is neither"),
    (GEMM, "C = A @ B.T + C", "C = A @ «B + C", "CG120", "give B the shape [N, K]"),
    (ADD, "C = A + alpha * B", "«A = A + alpha * B", "CG122", "role: inout"),
    (ADD, "C = A + alpha * B", "«alpha = A + alpha * B", "CG122", "outputs: C"),
    (ADD, "C = A + alpha * B", "C = A + alpha * B + «C", "CG123", "role: inout"),
    (ADD, "role: out", "role: «inout", "CG124", "role: out"),
    (GEMM, "C = A @ B.T + C", "C = A @ B.T", "CG124", "role: out"),
    (ADD, "  B: {", "  «X: {shape: [M], dtype: f32}\n  B: {", "CG125", "never used"),
    (ADD, "{alpha: f32}", "{alpha: f32, «beta: f32}", "CG125", "never used"),
    (ADD, "  B: {", "  X: {shape: [M], dtype: f32, role: «out}\n  B: {", "CG126", "remove the tensor"),
    (ADD, "B: {shape: [N], dtype: f32}", "B: {shape: [N], dtype: f32, role: «inout}", "CG126", "role: in"),
    (ADD, "C = A + alpha * B", "C = «A @ B.T + alpha", "CG127", "op: gemm"),
    (ADD, "C = A + alpha * B", "C = alpha + «A @ B", "CG127", "elementwise kernel has no `@` write `op: gemm`"),
    (ADD, "C = A + alpha * B", "C = «(A + B) @ B.T", "CG127", "op: gemm"),
    (PROBE, "D = A", "D = «A @ A", "CG127", "D = A"),
    (GEMM, "C = A @ B.T + C", "C = «A + B + C", "CG127", "op: elementwise"),
    (PROBE, "D = A", "D = «A + 1", "CG127", "D = A"),
    (ADD, "C = A + alpha * B", "C = where(«A, alpha, B)", "CG128", "a condition is needed"),
    (ADD, "C = A + alpha * B", "C = A + alpha * B + 1 / «0", "CG135", "division by zero"),
    (ADD, "C = A + alpha * B", "C = A + alpha * B + «1e39", "CG135", "1e+39 does not fit in f32"),
    (ADD, "C = A + alpha * B", "C = A + alpha * B + «5000000000000000000 * 4", "CG135", "20000000000000000000"),
    (ADD, "C: {shape: [M, N], dtype: f32", "C: {shape: [M, N], dtype: i32", "CG128", "cast(..., i32)"),
    (ADD, "B: {shape: [N]", "B: {shape: [«K]", "CG129", "`C` lacks"),
    (ADD, "B: {shape: [N]", "B: {shape: «[N, M]", "CG129", "shape: [M, N]"),
    (GEMM, "C = A @ B.T + C", "C = A @ B.T + C + A", "CG129", "`K`"),
    (PROBE, "D: {shape: [T, V]", "D: {shape: «[T]", "CG129", "[T, V]"),
    (PROBE, "D: {shape: [T, V]", "D: {shape: [T, «M]", "CG129", "T and V"),
    (GEMM, "B: {shape: [N, K]", "B: {shape: «[K, N]", "CG130", "major:"),
    (GEMM, "C: {shape: [M, N]", "C: {shape: «[N, M]", "CG130", "shape: [M, N]"),
    (GEMM, "B: {shape: [N, K]", "B: {shape: «[N]", "CG130", "[N, K]"),
    # promises
    (ADD, "targets:", "static: {M: 8}\ntargets:", "CG131", "static says 8"),
    (ADD, "targets:", "divisible: {M: 4}\ntargets:", "CG131", "write 8"),
    (PROBE, "- {M: 4, N: 6}", "- {M: 4, N: 6, T: «4}", "CG131", "remove `T`"),
    (ADD, "- {M: 7, N: 16}", "- «{M: 7}", "CG132", "lacks a size for `N`"),
    (ADD, "atol: 1e-3", "atol: «.inf", "CG133", "finite"),
    (ADD, "atol: 1e-3", "atol: «.nan", "CG133", "finite"),
    (ADD, "{M: 7, N: 16}", "«{M: 2097152, N: 1048576}", "CG136", "2097152 * 1048576 = 2199023255552 > 2**40"),
    (GEMM, "{M: 7, N: 16, K: 0}", "«{M: 16384, N: 16384, K: 16384}", "CG136", "multiply-adds"),
    (ADD, "targets:", "static: {M: 7}\ndivisible: {«M: 7}\ntargets:", "CG134", "always 7"),
    # layouts and schedule
    (ADD, "thread_layout: (32,8):(8,1)", "thread_layout: (32,«-8):(8,1)", "CG201", "negative"),
    (ADD, "thread_layout: (32,8):(8,1)", 'thread_layout: "(32,8):«(8)"', "CG201", "compact would be (8,1)"),
    (ADD, "thread_layout: (32,8):(8,1)", 'thread_layout: "(32,8):«(1)"', "CG201", "compact would be (1,32)"),
    (ADD, "thread_layout: (32,8):(8,1)", "thread_layout: (32,8«;(8,1)", "CG201", "missing before"),
    (ADD, "thread_layout: (32,8):(8,1)", "thread_layout: (32,«0)", "CG201", "at least 1"),
    (GEMM, '"(32,8):(1,32)"', '"(32,8):(1,32)«x"', "CG201", "too much"),
    (PROBE, "((2,2),(2,3)):((2,12),(1,4))", "«4:1", "CG201", "two modes"),
    (ADD, "thread_layout: (32,8):(8,1)", "thread_layout: «(32,8):(8,0)", "CG202", "stride 0"),
    (ADD, "thread_layout: (32,8):(8,1)", "thread_layout: «(32,8):(1,1)", "CG202", "256 coordinates reach only 39"),
    (GEMM, "(16,16,1):(1,16,0)", "«(16,16,1):(1,0,0)", "CG202", "compact would be"),
    (ADD, "thread_value\n", "thread_value\n  «threads: 64\n", "CG203", "does not apply"),
    (ADD, "thread_value\n", "thread_value\n  «tiler: {M: 4}\n", "CG203", "follows from the two layouts"),
    (ADD, "  partition: thread_value\n  thread_layout: (32,8):(8,1)\n  value_layout",
     "  partition: inner\n  tiler: {M: 4}\n  «value_layout", "CG203", "inner takes tiler and threads"),
    (ADD, "  partition: thread_value\n  thread_layout: (32,8):(8,1)\n  value_layout",
     "  threads: 64\n  «value_layout", "CG203", "no partition takes"),
    (GEMM, "smem: {A:", "smem: {«C:", "CG203", "shared memory holds A and B"),
    (GEMM, "  copies:\n    A:", "  copies:\n    «a:", "CG204", "did you mean `A`"),
    (GEMM, "smem: {A:", "smem: {«Q:", "CG204", "tensors: A, B"),
    (ADD, "thread_layout: (32,8):(8,1)", "thread_layout: «(1000000,2):(1,7)", "CG205", "65536"),
    (ADD, "thread_layout: (32,8):(8,1)", "thread_layout: «(32,8):(16,1)", "CG206", "256 coordinates are spread over"),
    (GEMM, "predication: {M: mask", "predication: {M: «residue_first", "CG207", "write `mask`"),
]  # fmt: skip
NO_MARK = {
    "CG102": (1, 1),
    "CG114": (7, 3),
    "CG124": None,
    "CG129": (5, 18),
    "CG131": None,
    "CG128": None,
    "CG144": (10, 23),
}


@pytest.mark.parametrize(("base", "old", "new", "code", "words"), CASES)
def test_every_problem_is_found_in_its_place(base: str, old: str, new: str, code: str, words: str) -> None:
    assert base.count(old) == 1, "the case must say what it changes"
    marked = base.replace(old, new)
    at = marked.find("«")
    text = marked.replace("«", "")
    found = problems(text)
    hits = [d for d in found if d.code == code]
    assert hits, [(d.code, d.message, d.span) for d in found]
    everything = " ".join([hits[0].message, *hits[0].notes, hits[0].help or ""])
    assert words in everything, everything
    if at >= 0:
        line, column = text[:at].count("\n") + 1, at - text.rfind("\n", 0, at)
        assert (line, column) in [(d.span.line, d.span.column) for d in hits], hits
        assert hits[0].span.length >= 1
    elif (place := NO_MARK[code]) is not None:
        assert (hits[0].span.line, hits[0].span.column) == place
    # One mistake gives one diagnostic, unless it is one that takes others along.
    if code not in ("CG011", "CG012", "CG013", "CG014", "CG015", "CG017", "CG110", "CG111", "CG113", "CG114"):
        assert len(found) <= 2, found


@pytest.mark.parametrize("version", ['"1"', "true", "2", "1.5", "x"])
def test_a_wrong_version_is_one_mistake(version: str) -> None:
    assert len(problems(ADD.replace("cutegen: 1", f"cutegen: {version}"))) == 1


def test_a_key_of_another_op_is_not_read_as_a_misspelling() -> None:
    found = problems(GEMM.replace("schedule:\n", "schedule:\n  partition: inner\n"))
    assert [d.code for d in found] == ["CG101"]
    assert "did you mean" not in (found[0].help or "")


def test_a_probe_with_a_wrong_compute_does_not_miss_the_modes_that_follow() -> None:
    assert [d.code for d in problems(PROBE.replace("D = A", "D = A @ A"))] == ["CG127"]


@pytest.mark.parametrize(
    ("written", "better"),
    [
        ("(32,8):(8,0)", "(32,8):(1,32)"),
        ("(32,8):(9,1)", "(32,8):(8,1)"),
        ("(32,8):(1,33)", "(32,8):(1,32)"),
        ("((4,8),8):((16,64),1)", "((4,8),8):((8,32),1)"),
    ],
)
def test_a_compact_layout_keeps_the_order_that_was_written(written: str, better: str) -> None:
    (found,) = problems(ADD.replace("(32,8):(8,1)", f'"{written}"'))
    assert found.help == f"compact would be {better}"
    read_specs(ADD.replace("(32,8):(8,1)", f'"{better}"'))


def test_an_mma_is_not_advised_to_have_threads_along_k() -> None:
    (found,) = problems(GEMM.replace("(16,16,1):(1,16,0)", "(16,16,2):(16,1,0)"))
    assert found.help == "compact would be (16,16,1):(16,1,0)"


def test_every_code_has_a_case() -> None:
    elsewhere = {"CG001", "CG002", "CG003", "CG007", "CG008", "CG009", "CG016", "CG137"}  # test_document, tests/cases
    elsewhere |= {"CG140", "CG141"}  # tests/planning/test_gradients
    language = {code for code in CODES if code < "CG220"}  # planning and lint have their own tests
    assert language - {case[3] for case in CASES} == elsewhere


def test_all_problems_are_told_at_once_and_in_order() -> None:
    text = ADD.replace("dtype: f32, major: N", "dtype: f33, major: N").replace("bits: 128", "bit: 128")
    assert [d.code for d in problems(text)] == ["CG104", "CG101"]
    text = (
        ADD.replace("align: 16", "align: 24").replace("(32,8):(8,1)", "(32,8):(8,0)").replace("alpha * B", "alpa * B")
    )
    assert [d.code for d in problems(text)] == ["CG117", "CG121", "CG202"]


def test_a_misspelt_word_does_not_hide_what_comes_after_it() -> None:
    text = ADD.replace("universal", "universl").replace("thread_layout", "thread_layuot")
    text = text.replace("align: 16", "align: 24").replace("alpha * B", "alpa * B").replace("role: out", "rol: out")
    assert [d.code for d in problems(text)] == ["CG117", "CG101", "CG121", "CG101", "CG104"]


def test_variants_of_a_matrix_tell_a_problem_once() -> None:
    text = "matrix: {n: [one, two, three]}\n" + ADD.replace("add", "add_{n}").replace("align: 16", "align: 24")
    assert len(problems(text)) == 1


def test_places_survive_the_matrix() -> None:
    text = "matrix: {f: [exp, tanh]}\n" + ADD.replace("add", "add_{f}").replace(
        "C = A + alpha * B", 'C = "{f}(A) + alpha * Q"'
    )
    text = text.replace('C = "', '"C = ')
    (found,) = [d for d in problems(text) if d.code == "CG121"]
    assert found.span.column == text.splitlines()[found.span.line - 1].index("Q") + 1


def test_what_a_placeholder_brings_is_wrong_at_the_placeholder() -> None:
    text = "matrix: {f: [exp, geru]}\n" + ADD.replace("add", "add_{f}").replace("A + alpha", "A + {f}(A) + alpha")
    (found,) = problems(text)
    assert found.code == "CG120"
    assert found.span.column == text.splitlines()[found.span.line - 1].index("{f}") + 1


def test_statements_are_read_beside_wrong_places() -> None:
    found = problems(TAKEN.replace("{V: ids}", "{V: idz}").replace("Y = W", "Y = sumn(W)"))
    assert [d.code for d in found] == ["CG143", "CG120"]


def test_sizes_that_do_not_follow_are_named_together() -> None:
    text = SPLIT.replace("  X: {shape: [T, HQ, D], dtype: f32}\n", "").replace("Q * X", "2 * Q")
    assert read_specs(text)[0].by_view.tensor("Q").shape == ("T", "HQ", "D")
    (found,) = problems(text.replace("static: {D: 8, HK: 2}\n", ""))
    assert found.code == "CG145" and found.span.line == 5
    assert found.message == "the sizes of `D` and `HQ` and `HK` do not follow from that of `QKV` along `(HQ + 2*HK)*D`"
    assert found.help == "fix the others, as in `static: {HQ: ..., HK: ...}`"
    (one,) = problems(text.replace("static: {D: 8, HK: 2}\n", "static: {D: 8}\n"))
    assert "the sizes of `HQ` and `HK` do not" in one.message
