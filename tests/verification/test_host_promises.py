"""Everything that a module's host code promises is broken once, and a check of the call says so."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest
from emulator_kit import THROUGH_A_WORKSPACE
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.hostchecks import host_checks
from cutegen.verification.executor import EmulatorExecutor, load_module

pytest.importorskip("cutlass")

PRODUCT = """
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32, major: M, align: 16}
  B: {shape: [N, K], dtype: f32, major: K, align: 4}
  R: {shape: [M, N], dtype: f32, align: 16}
  C: {shape: [M, N], dtype: f32, align: 16, role: out}
scalars: {alpha: f32, times: i32}
compute: C = alpha * (A @ B.T) + times * R
schedule: {tiler: {M: 16, N: 16, K: 4}, mma: {thread_layout: "(8,4,1)"}}
divisible: {M: 4, N: 4}
targets: [sm_80]
"""
BYTES = """
cutegen: 1
kernel: bytes
op: elementwise
tensors:
  X: {shape: [L, M, N], dtype: u8}
  Y: {shape: [L, M, N], dtype: u8, role: out}
  Z: {shape: [L, M, N], dtype: i32, role: out}
compute: [Y = X, Z = X + coord(M)]
static: {L: 2}
targets: [sm_80]
"""
ONE_BATCH = """
cutegen: 1
kernel: one_batch
op: elementwise
tensors:
  X: {shape: [B, M, N], dtype: f32, align: 16}
  S: {shape: [M, 1], dtype: f32}
  Y: {shape: [B, M, N], dtype: f32, align: 16, role: out}
compute: Y = X * S
static: {B: 1}
divisible: {N: 4}
targets: [sm_80]
"""
LOGARITHMS = """
cutegen: 1
kernel: logarithms
op: rowwise
tensors:
  X: {shape: [N], dtype: f32}
  Y: {shape: [N], dtype: f32, role: out}
compute: "Y = X + sum(where(X != log(coord(N)), X, 1), N)"
static: {N: 64}
targets: [sm_80]
"""
CHECKED = r"\(x.dtype, x.dim\(\), x.device\) == \(dtype, len\(modes\), device\)"
MADE = r'_new\("c", r.shape'
REAL, MOST = r"    _expect\(isinstance\(x, numbers.Real\).*\n", r"65535 \* BLK_N"
SHARED, JUDGED = r"\(pitch for _, pitch in modes\)", r"    torch.testing.assert_close\(.*\n"
NARROW = (
    r"\1    rows = cute.assume(cutlass.Int32(mZ.stride[0]), divby=4)\n"
    "    mZ = cute.make_tensor(mZ.iterator, cute.make_layout(mZ.shape, stride=(rows, mZ.stride[1], 1)))\n"
)
MUTANTS = [
    # kernel, what is broken, pattern, text, which check says so
    ("product", "nothing is returned", r"    return c\n\n", "    return None\n\n", "accepts"),
    ("product", "an input is returned", r"    return c\n\n", "    return r\n\n", "accepts"),
    ("bytes", "one of two is returned", r"    return y, z\n", "    return y\n", "accepts"),
    ("product", "an output of another shape is made", MADE, '_new("c", (r.shape[0] + 1, r.shape[1])', "accepts None"),
    (
        "bytes",
        "an output of another type is made",
        r"(z = _empty\([^=]*torch\.)[\w]+, x\)",
        r"\1float64, x)",
        "accepts None",
    ),
    ("product", "gradients are not looked at", r"a.requires_grad or ", "", "wants a gradient"),
    ("product", "gradients are always refused", r" and torch.is_grad_enabled\(\)", "", "under no_grad"),
    ("product", "a scalar may be anything", REAL, "", "is 1j|is '1'|is None"),
    ("product", "a device is not looked at", CHECKED, "(x.dtype, x.dim()) == (dtype, len(modes))", "wrong device"),
    ("bytes", "signed bytes are unsigned ones", r"x.dtype is not torch.uint8", "False", "wrong dtype"),
    (
        "product",
        "32 bits for elements",
        r"cutlass\.min\(grid_m, grid_n\) > 0",
        "cute.size(mC) > 0",
        "more than 2.31 elem",
    ),
    ("product", "columns of blocks may be any number", MOST, "2**31 - 2**21", "N of 65536 tiles"),
    ("product", "columns of blocks are few", MOST, "32768 * BLK_N", "accepts N of 65535 tiles"),
    ("product", "no limit of rows", r'"M": 2\*\*31 - 2\*\*21', '"M": 2**40', "M of 2.31 elements"),
    ("product", "strides count without elements", r" or not x.numel\(\)", "", "what torch makes where . is 0"),
    ("product", "strides count of one element", r"if size == 1 or not", "if not", "any stride along"),
    ("one_batch", "strides count of fixed ones", r"if size == 1 or not", "if not", "2.32 elements along B, which is 1"),
    (
        "one_batch",
        "strides are not changed",
        r"all\(given\[n\].stride\(\) == x.stride\(\)",
        "all(x is x",
        "along B, which is 1",
    ),
    (
        "product",
        "what is told of strides is believed",
        r"\(pitch & \(align - 1\)\)",
        "pitch % align",
        "any stride along",
    ),
    ("product", "windows share memory", SHARED, "()", "columns of one buffer"),
    (
        "product",
        "windows overlap",
        r"column \+ spans\[1\] <= pitch",
        "column <= pitch",
        "overlaps",
    ),
    ("product", "memory may be shared", r"return \(start > 0\)", "return (start > 0) | (start > 0)", "overlaps"),
    ("bytes", "elements may share memory", r"\(size \* pitch >= span\)", "(size > 0)", "share memory"),
    ("product", "rows may overlap in part", r"size \* pitch >= span", "pitch >= width", "stride [1-9].* share memory"),
    (
        "through_a_workspace",
        "any k",
        r'"K": 65535 \* SPACE_B\[1\]',
        '"K": 2**31 - 2**21',
        "K beyond what a grid counts",
    ),
    ("product", "a whole number too large", r"x < 2\*\*31", "x <= 2**31", "is 2147483648"),
    ("bytes", "a fixed size is not looked at", r"STATIC = \{.*\}", "STATIC = {}", "fixed at|static"),
    ("product", "the compiled code refuses nothing", r"    _refuse_broken\(mA.*\n", "", "share memory"),
    ("product", "a divisor is not looked at", r'"N": 4', '"N": 1', "does not divide"),
    ("product", "the same values for every seed", r"manual_seed\(seed\)", "manual_seed(0)", "make_inputs"),
    ("product", "inputs of another size", r'"M": M,', '"M": M + 1,', "make_inputs|python"),
    ("product", "the program finds nothing", JUDGED, "", "a kernel that is wrong"),
    ("product", "the program finds too much", r"assert_close\(x, y", "assert_close(x, y + 1", "accepts `python"),
    ("product", "a lock of its own", r"vars\(cutlass\).setdefault\(.*\)", "threading.RLock()", "several threads"),
    (
        "product",
        "some wrong elements are right",
        r"assert_close\(x, y",
        "assert_close(x[:1, :1], y[:1, :1]",
        "a kernel that is wrong",
    ),
    ("product", "half of a divisor", r'"N": 4', '"N": 2', "does not divide"),
    (
        "bytes",
        "strides of 32 bits",
        r"(    tidx, _, _ = cute.arch.thread_idx\(\)\n)",
        NARROW,
        "steps of more than 2.32",
    ),
    ("product", "launched on the default stream", r", stream=stream", "", "accepts"),
    (
        "product",
        "an output is made on the current GPU",
        r"r.shape, a\.device\)\n",
        'r.shape, "cuda")\n',
        "None for c on cuda:1",
    ),
    (
        "product",
        "memory is counted in 32 bits",
        r"integer, width = type\(start\),",
        "integer, width = int if isinstance(start, int) else cutlass.Int32,",
        "2.32",
    ),
]


@lru_cache(maxsize=1)
def modules() -> dict[str, Module]:
    made = (generate(text, "specs/x.yaml").modules[0] for text in (PRODUCT, BYTES, ONE_BATCH, THROUGH_A_WORKSPACE))
    return {module.spec.kernel: module for module in made}


def failing(module: Module, text: str, folder: Path, says: str = "$^") -> list[str]:
    """The names of the checks that fail, up to the first one that matches `says`."""
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(text, encoding="utf-8")
    found: list[str] = []
    for check in host_checks(module.plan, load_module(path), EmulatorExecutor(lines=False)):
        found += [check.what] if check.status == "failed" else []
        if found and re.search(says, found[-1]):
            break
    return found


@pytest.mark.parametrize(
    ("kernel", "broken", "pattern", "text", "says"), sampled(MUTANTS), ids=[broken for _, broken, *_ in MUTANTS]
)
def test_a_broken_promise_is_seen(kernel: str, broken: str, pattern: str, text: str, says: str, tmp_path: Path) -> None:
    module = modules()[kernel]
    changed, count = re.subn(pattern, text, module.text, count=1)
    assert count and changed != module.text, f"{pattern} is not in {kernel}: adapt the pattern"
    failed = failing(module, changed, tmp_path, says)
    assert any(re.search(says, what) for what in failed), f"{broken}: {failed}"


def test_the_tensor_whose_gradient_is_always_refused_is_named(tmp_path: Path) -> None:
    """All are followed in one call first, and each alone where that is refused."""
    module, path = modules()["product"], tmp_path / "product.py"
    changed = module.text.replace("if wants_gradient and torch", "if b.requires_grad or wants_gradient and torch", 1)
    changed = changed.replace("free = not (x.requires_grad and", 'free = not (x.requires_grad and name == "b" or', 1)
    assert changed != module.text
    path.write_text(changed, encoding="utf-8")
    checks = [
        c
        for c in host_checks(module.plan, load_module(path), EmulatorExecutor(lines=False))
        if "one that wants a gradient, under no_grad" in c.what
    ]
    failed = {check.argument: check.message for check in checks if check.status == "failed"}
    assert set(failed) == {"b"} and "was refused: ValueError: b: " in failed["b"] and len(checks) > 1


def test_the_tensor_whose_steps_are_cut_to_32_bits_is_named(tmp_path: Path) -> None:
    """All have such steps in one call first, and each alone where that is wrong."""
    module, path = modules()["bytes"], tmp_path / "bytes.py"
    changed, count = re.subn(r"(    tidx, _, _ = cute.arch.thread_idx\(\)\n)", NARROW, module.text, count=1)
    assert count
    path.write_text(changed, encoding="utf-8")
    checks = [
        c for c in host_checks(module.plan, load_module(path), EmulatorExecutor(lines=False)) if "2^32 e" in c.what
    ]
    assert {check.argument for check in checks if check.status == "failed"} == {"z"}
    assert len({check.argument for check in checks}) > 1


def test_what_is_promised_is_kept(tmp_path: Path) -> None:
    assert not {name: found for name, module in modules().items() if (found := failing(module, module.text, tmp_path))}


def test_a_program_compares_what_comes_of_an_infinity(tmp_path: Path) -> None:
    (module,) = generate(LOGARITHMS, "specs/x.yaml").modules
    assert failing(module, module.text, tmp_path) == []
