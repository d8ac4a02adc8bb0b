"""No field without an effect: every field of the schema, changed, changes the code or the verification, or is refused.

The table is held to the schema: a field that is added there and not here fails.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from fields_kit import body, cases, expectation_failures, verdicts

from cutegen.codegen import Module, generate
from cutegen.language.diagnostics import SpecError
from cutegen.language.schema import schema_text
from cutegen.measuring.shapes import shapes_of
from cutegen.planning.scalars import measured_scalars
from cutegen.tuning.space import make_space

Spec = dict[str, Any]

ELEMENTWISE: Spec = {
    "cutegen": 1,
    "kernel": "work",
    "summary": "A kernel.",
    "op": "elementwise",
    "tensors": {
        "S": {"shape": ["M", "N"], "dtype": "f32", "major": "N", "align": 16, "role": "in"},
        "D": {"shape": ["M", "N"], "dtype": "f32", "major": "N", "align": 16, "role": "out"},
    },
    "scalars": {"alpha": "f32"},
    "compute": "D = alpha * S",
    "schedule": {
        "partition": "thread_value",
        "thread_layout": "(4,32):(32,1)",
        "value_layout": "(4,4):(4,1)",
        "copy": {"atom": "universal", "bits": 128},
        "predication": {"M": "mask", "N": "mask"},
    },
    "targets": ["sm_80"],
    "static": {},
    "divisible": {"N": 4},
    "verify": {"shapes": [{"M": 64, "N": 128}], "tolerance": {"rtol": 1e-5, "atol": 1e-5}},
    "bench": {"shapes": [{"M": 64, "N": 128}]},
    "torch": {"op": "mylib::own"},
    "expect": {"spills": 0, "registers": "<= 64", "bank_clashes": 0, "sass": {"LDG.E.128": 4}},
}
INNER: Spec = ELEMENTWISE | {
    "schedule": {"partition": "inner", "tiler": {"M": 1, "N": 4}, "threads": 256},
}
TAKEN: Spec = {
    "cutegen": 1,
    "kernel": "work",
    "op": "elementwise",
    "tensors": {
        "W": {"shape": ["V", "D"], "dtype": "f32", "at": {"V": "ids"}},
        "ids": {"shape": ["T"], "dtype": "i64"},
        "rows": {"shape": ["T"], "dtype": "i64"},
        "Y": {"shape": ["T", "D"], "dtype": "f32", "role": "out"},
    },
    "compute": "Y = W * cast(ids + rows, f32)",
}
SEGMENTS: Spec = {
    "cutegen": 1,
    "kernel": "work",
    "op": "gemm",
    "tensors": {
        "A": {"shape": ["M", "K"], "dtype": "bf16", "align": 16},
        "W": {"shape": ["X", "N", "K"], "dtype": "bf16", "align": 16},
        "ends": {"shape": ["X"], "dtype": "i32"},
        "C": {"shape": ["M", "N"], "dtype": "bf16", "align": 16, "role": "out"},
    },
    "modes": {"M": {"of": "X", "offsets": "ends"}},
    "compute": "C = A @ W.T",
    "schedule": {"mma": {"atom": "wgmma"}},
    "divisible": {"N": 8, "K": 8},
}
PACKED: Spec = {
    "cutegen": 1,
    "kernel": "work",
    "op": "elementwise",
    "tensors": {
        "GU": {"shape": ["M", "2*N"], "dtype": "f32"},
        "G": {"shape": ["M", "N"], "view": "GU[:, :N]"},
        "U": {"shape": ["M", "N"], "view": "GU[:, N:]"},
        "Y": {"shape": ["M", "N"], "dtype": "f32", "role": "out"},
    },
    "compute": "Y = G * U",
}
BLOCKED: Spec = {
    "cutegen": 1,
    "kernel": "work",
    "op": "elementwise",
    "tensors": {
        "X": {"shape": ["M", "N"], "dtype": "f32"},
        "s": {"shape": ["NB"], "dtype": "f32"},
        "Y": {"shape": ["M", "N"], "dtype": "f32", "role": "out"},
    },
    "modes": {"NB": {"blocks": "N", "size": 128}},
    "compute": "Y = X * s",
}
OUTER: Spec = ELEMENTWISE | {
    "schedule": {"partition": "inner_outer", "tiler": {"M": 8, "N": 128}, "thread_layout": "(4,32):(32,1)"},
}
ATTENTION: Spec = {
    "cutegen": 1,
    "kernel": "work",
    "op": "contract",
    "tensors": {
        "Q": {"shape": ["M", "D"], "dtype": "bf16"},
        "K": {"shape": ["N", "D"], "dtype": "bf16"},
        "V": {"shape": ["N", "E"], "dtype": "bf16"},
        "O": {"shape": ["M", "E"], "dtype": "bf16", "role": "out"},
    },
    "compute": [
        "s = sum(Q * K, D)",
        "p = exp(s - max(s, N))",
        "O = sum(cast(p, bf16) * V, N) / sum(p, N)",
    ],
    "schedule": {
        "tiler": {"M": 64, "N": 64},
        "mma": {"atom": "mma_sync", "warps": 4},
        "pipeline": {"stages": 2},
        "math": "fast",
    },
    "targets": ["sm_80"],
    "static": {"D": 128, "E": 128},
}
LENGTHS: Spec = {
    **ATTENTION,
    "tensors": {
        "Q": {"shape": ["B", "M", "D"], "dtype": "bf16"},
        "K": {"shape": ["B", "N", "D"], "dtype": "bf16"},
        "V": {"shape": ["B", "N", "E"], "dtype": "bf16"},
        "used": {"shape": ["B"], "dtype": "i32"},
        "O": {"shape": ["B", "M", "E"], "dtype": "bf16", "role": "out"},
    },
    "modes": {"N": {"of": "B", "lengths": "used"}},
}
WARPGROUPS: Spec = {
    **ATTENTION,
    "scalars": {"scale": "f32"},
    "compute": ["s = sum(Q * K, D) * scale", *ATTENTION["compute"][1:]],
    "schedule": {
        "tiler": {"M": 128, "N": 64},
        "mma": {"atom": "wgmma"},
        "pipeline": {"stages": 2},
        "math": "fast",
    },
    "targets": ["sm_90a"],
}
ROWWISE: Spec = {
    "cutegen": 1,
    "kernel": "work",
    "op": "rowwise",
    "tensors": {
        "X": {"shape": ["M", "N"], "dtype": "f32"},
        "Y": {"shape": ["M", "N"], "dtype": "f32", "role": "out"},
    },
    "compute": "Y = X * rsqrt(sum(X * X, N))",
    "schedule": {
        "tiler": {"M": 4, "N": 512},
        "threads_per_row": 32,
        "keep": "registers",
        "copy": {"atom": "universal", "bits": 128},
        "predication": {"M": "mask", "N": "mask"},
    },
    "targets": ["sm_80"],
    "static": {"N": 500},
}
ANY_ROWS: Spec = {k: v for k, v in ROWWISE.items() if k != "static"} | {"schedule": {"keep": "registers"}}
EXPONENTIALS: Spec = ANY_ROWS | {
    "compute": "Y = X - log(sum(exp(X - max(X, N)), N))",
    "schedule": {"keep": "reload", "online": "walked", "math": "precise"},
}
WALKING: Spec = ROWWISE | {"schedule": {"scheduler": {"kind": "persistent", "blocks": 8}}}
LONG: Spec = ROWWISE | {
    "schedule": {"cluster": {"N": 4}, "scheduler": {"kind": "persistent"}, "pipeline": {"stages": 2}},
    "static": {"N": 2048},
    "targets": ["sm_90a"],
}
GEMM: Spec = {
    "cutegen": 1,
    "kernel": "work",
    "op": "gemm",
    "tensors": {
        "A": {"shape": ["M", "K"], "dtype": "f32", "major": "M", "align": 16},
        "B": {"shape": ["N", "K"], "dtype": "f32", "major": "N", "align": 16},
        "C": {"shape": ["M", "N"], "dtype": "f32", "major": "M", "align": 16, "role": "out"},
    },
    "compute": "C = A @ B.T",
    "schedule": {
        "tiler": {"M": 128, "N": 128, "K": 8},
        "mma": {
            "atom": "fma",
            "thread_layout": "(16,16,1):(1,16,0)",
            "permutation": {"M": "(16,4):(4,1)", "N": "(16,4):(4,1)"},
            "accumulator": "f32",
        },
        "copies": {
            "A": {"atom": "cp_async", "bits": 128, "thread_layout": "(32,8):(1,32)", "value_layout": "(4,1):(1,0)"},
        },
        "smem": {"A": {"pad": 0}},
        "pipeline": {"stages": 3},
        "predication": {"M": "mask", "N": "mask", "K": "residue_first"},
    },
    "targets": ["sm_80"],
}
STORED: Spec = copy.deepcopy(GEMM)
STORED["schedule"]["copies"]["A"]["atom"] = "universal"
TURNED: Spec = copy.deepcopy(GEMM)
TURNED["tensors"]["B"]["major"] = "K"
TURNED["schedule"]["workspace"] = {"B": {"major": "N", "thread_layout": "(16,16):(1,16)"}}
HOPPER: Spec = GEMM | {
    "tensors": {
        "A": {"shape": ["M", "K"], "dtype": "bf16", "major": "K", "align": 16},
        "B": {"shape": ["N", "K"], "dtype": "bf16", "major": "K", "align": 16},
        "C": {"shape": ["M", "N"], "dtype": "bf16", "major": "N", "align": 16, "role": "out"},
    },
    "schedule": {
        "tiler": {"M": 128, "N": 64, "K": 64},
        "cluster": {"M": 2, "N": 1},
        "mma": {"atom": "wgmma", "rows": "M"},
        "warps": {"roles": "cooperative", "consumers": 2, "registers": {"producer": 40, "consumer": 232}},
        "copies": {
            "A": {"atom": "tma", "box": 64},
            "B": {"atom": "tma", "multicast": "cluster"},
            "C": {"atom": "tma", "through": "smem", "columns": 64, "stages": 2, "bits": 32},
        },
        "smem": {"A": {"swizzle": 128}, "B": {"swizzle": 128}},
        "pipeline": {"stages": 3},
        "predication": {"M": "mask", "N": "mask"},
        "scheduler": {"kind": "persistent", "raster": "M", "swizzle": 8, "blocks": 132, "launch": "dependent"},
    },
    "divisible": {"N": 8},
    "targets": ["sm_90a"],
}
BLACKWELL: Spec = HOPPER | {
    "schedule": {
        "tiler": {"M": 128, "N": 128, "K": 64},
        "mma": {"atom": "tcgen05"},
        "copies": {"A": {"atom": "tma", "misaligned": "refuse"}, "C": {"atom": "universal", "bits": 128}},
        "smem": {"A": {"swizzle": 128}, "B": {"swizzle": 128}},
        "pipeline": {"stages": 3},
        "predication": {"M": "mask", "N": "mask"},
        "scheduler": {"raster": "M"},
    },
    "targets": ["sm_100a"],
}
UNBOXED: Spec = copy.deepcopy(HOPPER)
del UNBOXED["schedule"]["copies"]["A"]["box"]  # which is of tiles that end beyond A
WARPS: Spec = HOPPER | {
    "schedule": {
        "tiler": {"M": 128, "N": 64, "K": 64},
        "mma": {"atom": "mma_sync", "atom_layout": "(2,2,1):(1,2,0)"},
        "copies": {"A": {"atom": "cp_async", "bits": 128}, "C": {"bits": 128}},
        "smem": {"A": {"swizzle": 128}, "B": {"swizzle": 128}},
        "pipeline": {"stages": 3},
        "predication": {"M": "mask", "N": "mask", "K": "residue_first"},
        "scheduler": {"raster": "M", "swizzle": 8},
    },
    "divisible": {"N": 8, "K": 8},
    "targets": ["sm_80"],
}
WARPS_OF_F32: Spec = GEMM | {"schedule": {"tiler": {"M": 64, "N": 64, "K": 16}, "mma": {"atom": "mma_sync"}}}
OF_CASES: Spec = ELEMENTWISE | {
    "schedule": [
        {"for": {"N": "% 8 == 0", "target": "sm_80", "align": 32}, **ELEMENTWISE["schedule"]},
        ELEMENTWISE["schedule"],
    ],
    "targets": ["sm_80", "sm_90a"],
}
BY_COST: Spec = HOPPER | {
    "schedule": [
        {"for": {"cost": "least"}, "mma": {"atom": "wgmma"}, "tiler": {"N": 128}},
        {"for": {"cost": "least"}, "mma": {"atom": "wgmma"}},
    ]
}
PROBE: Spec = {
    "cutegen": 1,
    "kernel": "work",
    "op": "probe",
    "tensors": {
        "A": {"shape": ["M", "N"], "dtype": "i32", "major": "M"},
        "D": {"shape": ["T", "V"], "dtype": "i32", "major": "V", "role": "out"},
    },
    "compute": "D = A",
    "schedule": {"tv_layout": "((2,2),(2,3)):((2,12),(1,4))", "tiler": {"M": 24, "N": 1}},
    "targets": ["sm_80"],
}

# field in the schema -> (base, path in the spec, other value, what must differ)
TEXT, CASES, VERDICT, EXPECTATION, REFUSED = "text", "cases", "verdict", "expectation", "refused"
SPACE, MEASURED = "space", "measured"
PERTURBED: dict[str, list[tuple[Spec, str, Any, str]]] = {
    "cutegen": [(ELEMENTWISE, "cutegen", 2, REFUSED)],
    "kernel": [(ELEMENTWISE, "kernel", "other", TEXT)],
    "summary": [(ELEMENTWISE, "summary", "Another kernel.", TEXT)],
    "matrix": [(ELEMENTWISE, "matrix", {"x": [1, 2]}, REFUSED)],  # used: see test_matrix
    "modules": [(ELEMENTWISE, "modules", ["other"], REFUSED)],  # used: see tests/project/test_modules_key.py
    "op": [(ELEMENTWISE, "op", "gemm", REFUSED)],
    "tensors": [(ELEMENTWISE, "tensors.E", {"shape": ["M"], "dtype": "f32"}, REFUSED)],
    "tensor.shape": [(ELEMENTWISE, "tensors.S.shape", ["N"], TEXT)],
    "tensor.dtype": [(ELEMENTWISE, "tensors.S.dtype", "f16", TEXT)],
    "tensor.major": [(ELEMENTWISE, "tensors.S.major", "M", TEXT), (GEMM, "tensors.C.major", "N", TEXT)],
    "tensor.align": [(ELEMENTWISE, "tensors.S.align", 32, TEXT), (GEMM, "tensors.C.align", 4, TEXT)],
    "tensor.at": [(TAKEN, "tensors.W.at", {"V": "rows"}, TEXT), (TAKEN, "tensors.W.at", {"V": "none"}, REFUSED)],
    "modes": [(SEGMENTS, "modes.N", {"of": "X", "offsets": "ends"}, REFUSED)],
    "mode.of": [(SEGMENTS, "modes.M.of", "N", REFUSED)],
    "mode.offsets": [(SEGMENTS, "modes.M.offsets", "A", REFUSED)],
    "tensor.view": [(PACKED, "tensors.G.view", "GU[:, N:]", TEXT), (PACKED, "tensors.G.view", "GU", REFUSED)],
    "mode.lengths": [
        (LENGTHS, "modes.N.lengths", "Q", REFUSED),
    ],
    "mode.blocks": [(BLOCKED, "modes.NB.blocks", "M", TEXT)],
    "mode.size": [(BLOCKED, "modes.NB.size", 64, TEXT)],
    "tensor.role": [(ELEMENTWISE, "tensors.S.role", "out", REFUSED)],
    "scalars": [(ELEMENTWISE, "scalars.alpha", "f64", TEXT), (ELEMENTWISE, "scalars.beta", "f32", REFUSED)],
    "compute": [(ELEMENTWISE, "compute", "D = alpha + S", TEXT)],
    "schedule": [(ELEMENTWISE, "schedule", {"partition": "inner_outer"}, TEXT)],
    "tune": [
        (GEMM, "tune", {"schedule.pipeline.stages": [2, 4]}, SPACE),
        (GEMM, "tune", {"schedule.pipeline.stages": ["two"]}, REFUSED),
    ],
    "targets": [(ELEMENTWISE, "targets", ["sm_90a"], TEXT)],
    "static": [(ELEMENTWISE, "static", {"M": 64}, TEXT)],
    "divisible": [(ELEMENTWISE, "divisible", {"N": 8}, TEXT), (ELEMENTWISE, "divisible", {"M": 16}, TEXT)],
    "verify": [(ELEMENTWISE, "verify", {}, CASES)],
    "verify.shapes": [(ELEMENTWISE, "verify.shapes", [{"M": 65, "N": 132}], CASES)],
    "verify.tolerance": [(ELEMENTWISE, "verify.tolerance", {}, VERDICT)],
    "verify.tolerance.rtol": [(ELEMENTWISE, "verify.tolerance.rtol", 1e-3, VERDICT)],
    "bench": [(ELEMENTWISE, "bench", {}, MEASURED)],
    "bench.scalars": [(ELEMENTWISE, "bench.scalars", {"alpha": 2.5}, MEASURED)],
    "bench.shapes": [(ELEMENTWISE, "bench.shapes", [{"M": 65, "N": 132}], MEASURED)],
    "verify.tolerance.atol": [(ELEMENTWISE, "verify.tolerance.atol", 1e-3, VERDICT)],
    "torch": [(ELEMENTWISE, "torch", {"op": "mylib::other"}, TEXT)],
    "torch.op": [(ELEMENTWISE, "torch.op", "mylib::other", TEXT)],
    "torch.backward": [(ELEMENTWISE, "torch.backward", "missing", REFUSED)],
    "expect": [(ELEMENTWISE, "expect", {}, EXPECTATION)],
    "expect.spills": [(ELEMENTWISE, "expect.spills", "> 8", EXPECTATION)],
    "expect.registers": [(ELEMENTWISE, "expect.registers", 33, EXPECTATION)],
    "expect.bank_clashes": [(ELEMENTWISE, "expect.bank_clashes", "> 0", EXPECTATION)],
    "expect.sass": [(ELEMENTWISE, "expect.sass", {"LDG.E.128": 3}, EXPECTATION)],
    "elementwise_schedule.partition": [(ELEMENTWISE, "schedule.partition", "inner", REFUSED)],
    "elementwise_schedule.tiler": [(INNER, "schedule.tiler", {"M": 1, "N": 8}, TEXT)],
    "elementwise_schedule.threads": [(INNER, "schedule.threads", 128, TEXT)],
    "elementwise_schedule.thread_layout": [(ELEMENTWISE, "schedule.thread_layout", "(8,32):(32,1)", TEXT)],
    "elementwise_schedule.value_layout": [(ELEMENTWISE, "schedule.value_layout", "(2,4):(4,1)", TEXT)],
    "elementwise_schedule.copy": [(ELEMENTWISE, "schedule.copy", {"bits": 64}, TEXT)],
    "elementwise_schedule.copy.atom": [(ELEMENTWISE, "schedule.copy.atom", "cp_async", REFUSED)],
    "elementwise_schedule.copy.bits": [
        (ELEMENTWISE, "schedule.copy.bits", 32, TEXT),
        (ELEMENTWISE, "schedule.copy.bits", 16, REFUSED),
        (OUTER, "schedule.copy", {"bits": 128}, TEXT),
        (OUTER, "schedule.copy", {"bits": 64}, TEXT),
        (OUTER, "schedule.copy", {"bits": 16}, REFUSED),
    ],
    "elementwise_schedule.copy.fallback": [
        (ELEMENTWISE | {"divisible": {}}, "schedule.copy.fallback", "refuse", TEXT),
        (ELEMENTWISE, "schedule.copy.fallback", "narrow", REFUSED),
    ],
    "elementwise_schedule.copy.evict_priority": [
        (ELEMENTWISE, "schedule.copy.evict_priority", "no_allocate", TEXT),
        (ELEMENTWISE, "schedule.copy.evict_priority", "evict_first", TEXT),
        (ELEMENTWISE, "schedule.copy.evict_priority", "streaming", REFUSED),
    ],
    "elementwise_schedule.predication": [(ELEMENTWISE, "schedule.predication.M", "none", TEXT)],
    "elementwise_schedule.scheduler": [
        (ELEMENTWISE, "schedule.scheduler", {"raster": "M"}, TEXT),
        (INNER, "schedule.scheduler", {"raster": "M"}, TEXT),
        (ELEMENTWISE, "schedule.scheduler", {"raster": "N", "swizzle": 8}, REFUSED),  # tiles share nothing
    ],
    "elementwise_schedule.scheduler.raster": [(ELEMENTWISE, "schedule.scheduler", {"raster": "K"}, REFUSED)],
    "gemm_schedule.scheduler": [(GEMM, "schedule.scheduler", {"raster": "N", "swizzle": 2}, TEXT)],
    "gemm_schedule.scheduler.raster": [
        (GEMM, "schedule.scheduler", {"raster": "N"}, TEXT),
        (GEMM, "schedule.scheduler", {"raster": "K"}, REFUSED),  # summed over: the output has no tiles along it
    ],
    "gemm_schedule.scheduler.swizzle": [
        (GEMM, "schedule.scheduler", {"swizzle": 8}, TEXT),
        (GEMM, "schedule.scheduler", {"swizzle": 0}, REFUSED),
        (GEMM, "schedule.scheduler", {"swizzle": 65}, REFUSED),
    ],
    "gemm_schedule.tiler": [(GEMM, "schedule.tiler.N", 64, TEXT)],
    "gemm_schedule.mma": [(GEMM, "schedule.mma", {"permutation": {"M": "(16,2):(2,1)"}}, TEXT)],
    "gemm_schedule.mma.atom": [(GEMM, "schedule.mma.atom", "wgmma", REFUSED)],  # of f32
    "gemm_wgmma_schedule.tiler": [
        (HOPPER, "schedule.tiler.N", 128, TEXT),
        (HOPPER, "schedule.tiler.N", 60, REFUSED),
    ],
    "gemm_wgmma_schedule.mma": [(HOPPER, "schedule.mma", {"atom": "fma"}, REFUSED)],
    "gemm_wgmma_schedule.mma.atom": [(HOPPER, "schedule.mma.atom", "fma", REFUSED)],  # has no roles
    "gemm_wgmma_schedule.mma.rows": [(HOPPER, "schedule.mma.rows", "K", REFUSED)],
    "gemm_wgmma_schedule.mma.in_flight": [(HOPPER, "schedule.mma.in_flight", 0, TEXT)],
    "gemm_wgmma_schedule.warps": [(HOPPER, "schedule.warps", {"consumers": 3}, REFUSED)],  # of 128 rows
    "gemm_wgmma_schedule.warps.roles": [(HOPPER, "schedule.warps.roles", "pingpong", TEXT)],
    "gemm_wgmma_schedule.warps.turns": [(HOPPER, "schedule.warps.turns", "all", REFUSED)],  # of one tile
    "gemm_wgmma_schedule.cluster": [
        (HOPPER, "schedule.cluster", {"M": 1, "N": 1}, REFUSED),  # with a load for several blocks
        (HOPPER, "schedule.cluster.N", 2, TEXT),
        (HOPPER, "schedule.cluster.M", 16, REFUSED),
    ],
    "gemm_wgmma_schedule.warps.consumers": [
        (HOPPER, "schedule.warps.consumers", 1, TEXT),
        (HOPPER, "schedule.warps.consumers", 3, REFUSED),
        (HOPPER, "schedule.warps.consumers", 4, REFUSED),
    ],
    "gemm_wgmma_schedule.warps.registers": [
        (HOPPER, "schedule.warps.registers.producer", 24, TEXT),
        (HOPPER, "schedule.warps.registers.consumer", 240, REFUSED),
    ],
    "gemm_wgmma_schedule.copies": [(HOPPER, "schedule.copies", {"A": {"bits": 128}}, REFUSED)],
    "gemm_wgmma_schedule.copies.atom": [
        (HOPPER, "schedule.copies.B.atom", "universal", REFUSED),  # operands are loaded
        (HOPPER, "schedule.copies.C.atom", "universal", REFUSED),  # through shared memory
    ],
    "gemm_wgmma_schedule.copies.multicast": [
        (HOPPER, "schedule.copies.B.multicast", "none", TEXT),
        (HOPPER, "schedule.copies.A.multicast", "cluster", REFUSED),  # no other block multiplies it
    ],
    "gemm_wgmma_schedule.copies.box": [
        (HOPPER, "schedule.copies.A.box", 32, TEXT),
        (HOPPER, "schedule.copies.B.box", 32, REFUSED),  # loaded once for two blocks
    ],
    "gemm_wgmma_schedule.copies.through": [(HOPPER, "schedule.copies.A.through", "smem", REFUSED)],
    "gemm_wgmma_schedule.copies.misaligned": [
        (HOPPER, "schedule.copies.A.misaligned", "workspace", TEXT),
        (HOPPER, "schedule.copies.C.misaligned", "workspace", TEXT),
    ],
    "gemm_wgmma_schedule.copies.columns": [
        (HOPPER, "schedule.copies.C.columns", 32, TEXT),
        (HOPPER, "schedule.copies.C.columns", 48, REFUSED),
    ],
    "gemm_wgmma_schedule.copies.stages": [(HOPPER, "schedule.copies.C.stages", 3, TEXT)],
    "gemm_wgmma_schedule.copies.bits": [
        (HOPPER, "schedule.copies.C.bits", 16, TEXT),
        (HOPPER, "schedule.copies.C.bits", 64, REFUSED),  # a thread has pairs
    ],
    "gemm_wgmma_schedule.smem": [(HOPPER, "schedule.smem", {"A": {"swizzle": 64}}, TEXT)],
    "gemm_wgmma_schedule.smem.swizzle": [
        (HOPPER, "schedule.smem.B.swizzle", 32, TEXT),
        (HOPPER, "schedule.smem.B.swizzle", 256, REFUSED),
    ],
    "gemm_wgmma_schedule.pipeline": [(HOPPER, "schedule.pipeline", {"stages": 2}, TEXT)],
    "gemm_wgmma_schedule.pipeline.stages": [
        (HOPPER, "schedule.pipeline.stages", 5, TEXT),
        (HOPPER, "schedule.pipeline.stages", 12, REFUSED),
    ],
    "gemm_wgmma_schedule.predication": [(UNBOXED, "schedule.predication.M", "none", TEXT)],
    "gemm_wgmma_schedule.scheduler": [(HOPPER, "schedule.scheduler", {"raster": "N"}, TEXT)],
    "gemm_wgmma_schedule.scheduler.kind": [(HOPPER, "schedule.scheduler.kind", "grid", REFUSED)],  # of blocks
    "gemm_wgmma_schedule.scheduler.swizzle": [(HOPPER, "schedule.scheduler.swizzle", 4, TEXT)],
    "gemm_wgmma_schedule.scheduler.blocks": [
        (HOPPER, "schedule.scheduler.blocks", 66, TEXT),
        (HOPPER, "schedule.scheduler.blocks", 33, REFUSED),
    ],
    "gemm_wgmma_schedule.scheduler.launch": [(HOPPER, "schedule.scheduler.launch", "serial", TEXT)],
    "gemm_wgmma_schedule.scheduler.raster": [(HOPPER, "schedule.scheduler.raster", "K", REFUSED)],
    "gemm_tcgen05_schedule.tiler": [
        (BLACKWELL, "schedule.tiler.N", 64, TEXT),
        (BLACKWELL, "schedule.tiler.N", 264, REFUSED),
        (BLACKWELL, "schedule.tiler.M", 64, REFUSED),
    ],
    "gemm_tcgen05_schedule.mma": [(BLACKWELL, "schedule.mma", {"atom": "wgmma"}, REFUSED)],
    "gemm_tcgen05_schedule.mma.atom": [(BLACKWELL, "schedule.mma.atom", "wgmma", REFUSED)],  # of that target
    "gemm_tcgen05_schedule.copies": [(BLACKWELL, "schedule.copies", {"C": {"bits": 64}}, TEXT)],
    "gemm_tcgen05_schedule.copies.atom": [
        (BLACKWELL, "schedule.copies.A.atom", "universal", REFUSED),  # operands are loaded
        (BLACKWELL, "schedule.copies.C.atom", "tma", REFUSED),  # from registers
    ],
    "gemm_tcgen05_schedule.copies.misaligned": [
        (BLACKWELL, "schedule.copies.A.misaligned", "workspace", TEXT),
        (BLACKWELL, "schedule.copies.C.misaligned", "workspace", REFUSED),
    ],
    "gemm_tcgen05_schedule.copies.bits": [
        (BLACKWELL, "schedule.copies.C.bits", 64, TEXT),
        (BLACKWELL, "schedule.copies.A.bits", 128, REFUSED),
    ],
    "gemm_tcgen05_schedule.smem": [(BLACKWELL, "schedule.smem", {"A": {"swizzle": 64}}, TEXT)],
    "gemm_tcgen05_schedule.smem.swizzle": [
        (BLACKWELL, "schedule.smem.B.swizzle", 32, TEXT),
        (BLACKWELL, "schedule.smem.B.swizzle", 256, REFUSED),
    ],
    "gemm_tcgen05_schedule.pipeline": [(BLACKWELL, "schedule.pipeline", {"stages": 2}, TEXT)],
    "gemm_tcgen05_schedule.pipeline.stages": [
        (BLACKWELL, "schedule.pipeline.stages", 6, TEXT),
        (BLACKWELL, "schedule.pipeline.stages", 8, REFUSED),
    ],
    "gemm_tcgen05_schedule.predication": [(BLACKWELL, "schedule.predication.M", "none", TEXT)],
    "gemm_tcgen05_schedule.scheduler": [(BLACKWELL, "schedule.scheduler", {"raster": "N"}, TEXT)],
    "gemm_tcgen05_schedule.scheduler.raster": [
        (BLACKWELL, "schedule.scheduler.raster", "N", TEXT),
        (BLACKWELL, "schedule.scheduler.raster", "K", REFUSED),
    ],
    "contract_schedule.tiler": [
        (ATTENTION, "schedule.tiler", {"M": 128, "N": 64}, TEXT),
        (ATTENTION, "schedule.tiler.N", 40, REFUSED),  # products take 16
        (ATTENTION, "schedule.tiler", {"M": 64, "N": 64, "D": 64}, REFUSED),  # of which a tile has all
    ],
    "contract_schedule.mma": [(ATTENTION, "schedule.mma", {"warps": 2}, TEXT)],
    "contract_schedule.mma.atom": [(ATTENTION, "schedule.mma.atom", "wgmma", REFUSED)],
    "contract_schedule.mma.warps": [
        (ATTENTION, "schedule.mma.warps", 2, TEXT),
        (ATTENTION, "schedule.mma.warps", 3, REFUSED),
    ],
    "contract_schedule.pipeline": [(ATTENTION, "schedule.pipeline", {"stages": 1}, TEXT)],
    "contract_schedule.pipeline.stages": [
        (ATTENTION, "schedule.pipeline.stages", 3, TEXT),
        (ATTENTION, "schedule.pipeline.stages", 8, REFUSED),  # shared memory
    ],
    "contract_schedule.math": [(ATTENTION, "schedule.math", "precise", TEXT)],
    "contract_schedule.split": [
        (ATTENTION, "schedule.split", {"N": 2}, TEXT),
        (ATTENTION, "schedule.split", {"N": "auto"}, TEXT),
        (ATTENTION, "schedule.split", {"M": 2}, REFUSED),
    ],
    "attention_wgmma_schedule.tiler": [
        (WARPGROUPS, "schedule.tiler", {"M": 64, "N": 64}, TEXT),
        (WARPGROUPS, "schedule.tiler.M", 96, REFUSED),  # a warpgroup has 64 rows
        (WARPGROUPS, "schedule.tiler", {"M": 192, "N": 128}, REFUSED),  # registers
    ],
    "attention_wgmma_schedule.mma": [(WARPGROUPS, "schedule.mma", {"atom": "mma_sync"}, TEXT)],
    "attention_wgmma_schedule.mma.atom": [(WARPGROUPS, "schedule.mma.atom", "fma", REFUSED)],
    "attention_wgmma_schedule.pipeline": [(WARPGROUPS, "schedule.pipeline", {"stages": 3}, TEXT)],
    "attention_wgmma_schedule.pipeline.stages": [
        (WARPGROUPS, "schedule.pipeline.stages", 3, TEXT),
        (WARPGROUPS, "schedule.pipeline.stages", 8, REFUSED),  # shared memory
    ],
    "attention_wgmma_schedule.math": [(WARPGROUPS, "schedule.math", "precise", TEXT)],
    "gemm_mma_sync_schedule.tiler": [
        (WARPS, "schedule.tiler.N", 128, TEXT),
        (WARPS, "schedule.tiler.N", 72, REFUSED),
    ],
    "gemm_mma_sync_schedule.mma": [(WARPS, "schedule.mma", {"atom": "fma"}, REFUSED)],
    "gemm_mma_sync_schedule.mma.atom": [(WARPS, "schedule.mma.atom", "wgmma", REFUSED)],  # has no atom_layout
    "gemm_mma_sync_schedule.mma.operands": [
        (WARPS, "schedule.mma.operands", "tf32", REFUSED),  # of bf16
        (WARPS_OF_F32, "schedule.mma.operands", "bf16", REFUSED),
    ],
    "gemm_mma_sync_schedule.mma.atom_layout": [
        (WARPS, "schedule.mma.atom_layout", "(4,2,1):(1,4,0)", TEXT),
        (WARPS, "schedule.mma.atom_layout", "(2,2,1):(2,1,0)", TEXT),
        (WARPS, "schedule.mma.atom_layout", "(2,2,1):(1,3,0)", REFUSED),
        (WARPS, "schedule.mma.atom_layout", "(2,1,2):(1,0,2)", REFUSED),
    ],
    "gemm_mma_sync_schedule.copies": [(WARPS, "schedule.copies", {"A": {"atom": "universal"}}, TEXT)],
    "gemm_mma_sync_schedule.copies.atom": [
        (WARPS, "schedule.copies.A.atom", "universal", TEXT),
        (WARPS, "schedule.copies.C.atom", "cp_async", REFUSED),
    ],
    "gemm_mma_sync_schedule.copies.bits": [
        (WARPS, "schedule.copies.A.bits", 64, TEXT),
        (WARPS, "schedule.copies.A.bits", 16, REFUSED),  # cp.async moves 4 bytes at least
        (WARPS, "schedule.copies.C.bits", 32, TEXT),
    ],
    "gemm_mma_sync_schedule.smem": [(WARPS, "schedule.smem", {"A": {"swizzle": 64}}, TEXT)],
    "gemm_mma_sync_schedule.smem.swizzle": [
        (WARPS, "schedule.smem.B.swizzle", 32, TEXT),
        (WARPS, "schedule.smem.B.swizzle", 256, REFUSED),
    ],
    "gemm_mma_sync_schedule.pipeline": [(WARPS, "schedule.pipeline", {"stages": 2}, TEXT)],
    "gemm_mma_sync_schedule.pipeline.stages": [
        (WARPS, "schedule.pipeline.stages", 5, TEXT),
        (WARPS, "schedule.pipeline.stages", 1, REFUSED),
    ],
    "gemm_mma_sync_schedule.predication": [
        (WARPS, "schedule.predication.M", "none", TEXT),
        (WARPS, "schedule.predication.K", "mask", REFUSED),
    ],
    "gemm_mma_sync_schedule.scheduler": [(WARPS, "schedule.scheduler", {"raster": "N"}, TEXT)],
    "gemm_mma_sync_schedule.scheduler.raster": [(WARPS, "schedule.scheduler.raster", "K", REFUSED)],
    "gemm_mma_sync_schedule.scheduler.swizzle": [(WARPS, "schedule.scheduler.swizzle", 1, TEXT)],
    "gemm_schedule.mma.thread_layout": [(GEMM, "schedule.mma.thread_layout", "(16,16,1):(16,1,0)", TEXT)],
    "gemm_schedule.mma.permutation": [(GEMM, "schedule.mma.permutation.M", "(16,2):(2,1)", TEXT)],
    "gemm_schedule.mma.accumulator": [(GEMM, "schedule.mma.accumulator", "f64", TEXT)],
    "gemm_schedule.copies": [(GEMM, "schedule.copies", {"C": {"bits": 32}}, TEXT)],
    "gemm_schedule.copies.atom": [(GEMM, "schedule.copies.A.atom", "universal", TEXT)],
    "gemm_schedule.copies.bits": [(GEMM, "schedule.copies.A.bits", 64, TEXT)],
    "gemm_schedule.copies.thread_layout": [(GEMM, "schedule.copies.A.thread_layout", "(32,8):(8,1)", TEXT)],
    "gemm_schedule.copies.value_layout": [(GEMM, "schedule.copies.A.value_layout", "(8,1):(1,0)", REFUSED)],
    "gemm_schedule.workspace": [
        (TURNED, "schedule.workspace", {}, TEXT),
        (TURNED, "schedule.workspace.C", {"major": "M"}, REFUSED),  # only operands go through one
    ],
    "gemm_schedule.workspace.major": [
        (TURNED, "schedule.workspace.B.major", "K", REFUSED),  # as it is
        (TURNED, "schedule.workspace.B.major", "M", REFUSED),
        (GEMM, "schedule.workspace", {"B": {"major": "N"}}, REFUSED),  # B is n-major
    ],
    "gemm_schedule.workspace.thread_layout": [
        (TURNED, "schedule.workspace.B.thread_layout", "(8,32):(1,8)", TEXT),
        (TURNED, "schedule.workspace.B.thread_layout", "(16,16):(16,1)", TEXT),
        (TURNED, "schedule.workspace.B.thread_layout", "(16,16):(1,8)", REFUSED),
    ],
    "gemm_schedule.smem": [(GEMM, "schedule.smem", {"B": {"pad": 4}}, TEXT)],
    "gemm_schedule.smem.layout": [
        (STORED, "schedule.smem.A.layout", "(64,2):(2,1)", TEXT),
        (STORED, "schedule.smem.A.layout", "(64,2):(1,1)", REFUSED),  # two coordinates at one place
        (STORED, "schedule.smem.A.layout", "64", REFUSED),  # the tile is 128 long
        (GEMM, "schedule.smem.A.layout", "(64,2):(2,1)", REFUSED),  # cp.async writes 4 neighbours at once
    ],
    "gemm_schedule.smem.pad": [(GEMM, "schedule.smem.A.pad", 8, TEXT)],
    "gemm_schedule.pipeline": [(GEMM, "schedule.pipeline", {"stages": 5}, TEXT)],
    "gemm_schedule.pipeline.stages": [(GEMM, "schedule.pipeline.stages", 4, TEXT)],
    "gemm_schedule.pipeline.store": [
        (STORED, "schedule.pipeline.store", 2, TEXT),
        (STORED, "schedule.pipeline.store", 8, REFUSED),  # the steps of the tile are 0 to 7
        (GEMM, "schedule.pipeline.store", 5, REFUSED),  # nothing travels through registers
    ],
    "gemm_schedule.predication": [
        (GEMM, "schedule.predication.M", "none", TEXT),
        (GEMM, "schedule.predication.K", "none", TEXT),
        (GEMM, "schedule.predication.K", "mask", REFUSED),
    ],
    "rowwise_schedule.tiler": [
        (ROWWISE, "schedule.tiler", {"M": 2, "N": 512}, TEXT),
        (ROWWISE, "schedule.tiler.N", 384, REFUSED),
    ],
    "rowwise_schedule.threads_per_row": [
        (ROWWISE, "schedule.threads_per_row", 64, TEXT),
        (ROWWISE, "schedule.threads_per_row", 48, REFUSED),
    ],
    "rowwise_schedule.cluster": [
        (LONG, "schedule.cluster", {"N": 2}, TEXT),
        (LONG, "schedule.cluster", {"N": 32}, REFUSED),
        (LONG, "schedule.cluster", {"M": 2}, REFUSED),
        (ROWWISE, "schedule.cluster", {"N": 2}, REFUSED),  # sm_80 has no clusters
    ],
    "rowwise_schedule.pipeline": [(LONG, "schedule.pipeline", {"stages": 1}, TEXT)],
    "rowwise_schedule.pipeline.stages": [
        (LONG, "schedule.pipeline.stages", 1, TEXT),
        (LONG, "schedule.pipeline.stages", 3, REFUSED),
        (ROWWISE, "schedule.pipeline", {"stages": 2}, REFUSED),  # a block has one tile of rows
    ],
    "rowwise_schedule.shorter": [
        (ANY_ROWS, "schedule.shorter", "mask", TEXT),
        (ROWWISE, "schedule.shorter", "fewer_threads", REFUSED),  # the tiler has 4 rows
    ],
    "rowwise_schedule.longer": [
        (ANY_ROWS, "schedule.longer", "refuse", TEXT),
        (ROWWISE, "schedule.longer", "reload", REFUSED),  # whose threads no launch chooses
    ],
    "rowwise_schedule.online": [
        (EXPONENTIALS, "schedule.online", "never", TEXT),
        (ROWWISE, "schedule.online", "walked", REFUSED),  # which has no exponentials
    ],
    "rowwise_schedule.math": [
        (EXPONENTIALS, "schedule.math", "fast", TEXT),
        (ROWWISE, "schedule.math", "fast", REFUSED),
    ],
    "rowwise_schedule.keep": [(ROWWISE, "schedule.keep", "reload", TEXT)],
    "rowwise_schedule.copy": [(ROWWISE, "schedule.copy", {"bits": 64}, TEXT)],
    "rowwise_schedule.copy.atom": [(ROWWISE, "schedule.copy.atom", "cp_async", REFUSED)],
    "rowwise_schedule.copy.bits": [
        (ROWWISE, "schedule.copy.bits", 64, TEXT),
        (ROWWISE, "schedule.copy.bits", 16, REFUSED),
    ],
    "rowwise_schedule.copy.fallback": [
        (ROWWISE, "schedule.copy.fallback", "refuse", TEXT),
        (ROWWISE, "schedule.copy.fallback", "wide", REFUSED),
    ],
    "rowwise_schedule.copy.evict_priority": [(ROWWISE, "schedule.copy.evict_priority", "no_allocate", TEXT)],
    "rowwise_schedule.predication": [(ROWWISE, "schedule.predication.M", "none", TEXT)],
    "rowwise_schedule.scheduler": [(ROWWISE, "schedule.scheduler", {"kind": "persistent"}, TEXT)],
    "rowwise_schedule.scheduler.kind": [(WALKING, "schedule.scheduler.kind", "grid", REFUSED)],
    "rowwise_schedule.scheduler.blocks": [(WALKING, "schedule.scheduler.blocks", 16, TEXT)],
    "rowwise_schedule.scheduler.raster": [
        (ROWWISE, "schedule.scheduler", {"raster": "N"}, REFUSED),
        (ROWWISE, "schedule.scheduler", {"raster": "K"}, REFUSED),
    ],
    "case.for": [
        (OF_CASES, "schedule.0.for", {"N": "% 8 == 0"}, TEXT),
        (OF_CASES, "schedule.0.for.N", "<= 512", TEXT),
        (OF_CASES, "schedule.0.for.N", "< -1", REFUSED),
    ],
    "case.for.target": [
        (OF_CASES, "schedule.0.for.target", "sm_90a", TEXT),
        (OF_CASES, "schedule.0.for.target", "sm_100a", REFUSED),
    ],
    "case.for.align": [(OF_CASES, "schedule.0.for.align", 64, TEXT), (OF_CASES, "schedule.0.for.align", 3, REFUSED)],
    "case.for.cost": [(OF_CASES, "schedule.0.for.cost", "least", REFUSED)],
    "probe_schedule.tv_layout": [(PROBE, "schedule.tv_layout", "((2,2),(3,2)):((2,12),(4,1))", TEXT)],
    "probe_schedule.tiler": [(PROBE, "schedule.tiler", {"M": 12, "N": 2}, TEXT)],
}


def fields(node: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Every property of an object schema, with those of the objects in it."""
    for name, value in node.get("properties", {}).items():
        yield f"{prefix}{name}"
        yield from fields(value, f"{prefix}{name}.")
        inner = value.get("additionalProperties")
        if isinstance(inner, Mapping):
            yield from fields(inner, f"{prefix}{name}.")


def test_every_field_of_the_schema_is_perturbed() -> None:
    schema = json.loads(schema_text())
    found = set(fields(schema, ""))
    definitions = schema["definitions"]
    for name, definition in definitions.items():
        if not name.endswith("_case"):
            found |= set(fields(definition, f"{name}."))
            continue
        own, schedule = set(fields(definition, "")), set(fields(definitions[name.replace("_case", "_schedule")], ""))
        assert schedule == {field for field in own if field.split(".")[0] != "for"}
        found |= {f"case.{field}" for field in own - schedule}
    assert found == set(PERTURBED)


def module(spec: Spec) -> Module:
    return generate(yaml.safe_dump(spec, sort_keys=False), "specs/k.yaml").modules[0]


def changed(spec: Spec, path: str, value: Any) -> Spec:
    result = copy.deepcopy(spec)
    *parents, last = path.split(".")
    node = result
    for step in parents:
        node = node[int(step) if step.isdigit() else step]
    node[last] = value
    return result


def space(spec: Spec) -> list[Any]:
    """The schedules that a search tries."""
    return list(make_space(spec, (module(spec).spec,)).schedules(0))


@pytest.mark.parametrize(
    ("base", "path", "value", "effect"),
    [pytest.param(*row, id=f"{row[1]}={row[2]}") for rows in PERTURBED.values() for row in rows],
)
def test_perturbation(base: Spec, path: str, value: Any, effect: str) -> None:
    before, other = module(base), changed(base, path, value)
    if effect == REFUSED:
        with pytest.raises(SpecError) as refused:
            module(other)
        assert all(d.message for d in refused.value.diagnostics)
        return
    after = module(other)
    if effect == TEXT:
        assert body(before) != body(after)
    elif effect == CASES:
        assert cases(before) != cases(after)
    elif effect == SPACE:
        assert before.text == after.text and space(base) != space(other)
    elif effect == MEASURED:
        measured = [(shapes_of(made.spec), measured_scalars(made.spec)) for made in (before, after)]
        assert measured[0] != measured[1]
    elif effect == VERDICT:
        pytest.importorskip("torch")
        assert verdicts(before) != verdicts(after)
    else:
        assert expectation_failures(module(changed(base, "expect.sass", {"LDG.E.128": 4}))) == []
        if value == {}:
            wrong = module(changed(base, "expect.registers", 33))
            assert expectation_failures(wrong) == ["expect.registers"]
        else:
            assert len(expectation_failures(after)) == 1


def test_matrix() -> None:
    spec = changed(ELEMENTWISE, "matrix", {"t": ["f32", "f16"]}) | {"kernel": "work_{t}"}
    spec["tensors"]["S"]["dtype"] = "{t}"
    generated = generate(yaml.safe_dump(spec, sort_keys=False), "specs/k.yaml")
    assert [m.name for m in generated.modules] == ["work_f32.py", "work_f16.py"]
    assert body(generated.modules[0]) != body(generated.modules[1])
