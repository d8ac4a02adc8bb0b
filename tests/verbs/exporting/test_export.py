"""`cutegen export`: what it writes is called without a compiler, and launches what the module does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from specs_kit import modules_of_specs

from cutegen.codegen.render import marked
from cutegen.codegen.shipping import loader_text
from cutegen.compiling import Job
from cutegen.compiling.loading import load
from cutegen.compiling.objects import Object, c_compiler
from cutegen.console import PlainProgress
from cutegen.emulator.host.builds import builds
from cutegen.emulator.host.device_tensors import made_on_device, on_device
from cutegen.emulator.host.modules import install
from cutegen.emulator.host.packing import TensorArgument
from cutegen.project.selection import select
from cutegen.project.sources import gather
from cutegen.verbs.exporting.export import ExportReport, Options, _is_built, export
from cutegen.verbs.exporting.selecting import in_the_way, with_gradients

ROOT = Path(__file__).parents[3]
# A kernel with a scalar for two targets; that of its gradient has a workspace, and is for one
SPECS = """
cutegen: 1
kernel: rms_norm
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
  rstd: {shape: [M], dtype: f32, role: out}
scalars: {eps: f32}
compute:
  - rstd = rsqrt(mean(X * X, N) + eps)
  - Y = X * rstd * W
static: {N: 256}
targets: [sm_80, sm_90a]
torch: {op: "shipped::rms_norm", backward: rms_norm_bwd}
"""
BACKWARD = """
cutegen: 1
kernel: rms_norm_bwd
op: rowwise
tensors:
  dY: {shape: [M, N], dtype: bf16}
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: bf16}
  rstd: {shape: [M], dtype: f32}
  dX: {shape: [M, N], dtype: bf16, role: out}
  dW: {shape: [N], dtype: f32, role: out}
compute:
  - x = X * rstd
  - g = dY * W
  - dX = (g - x * mean(g * x, N)) * rstd
  - dW = sum(dY * x, M)
static: {N: 256}
targets: [sm_90a]
torch: {op: "shipped::rms_norm_bwd"}
"""
GRADIENTS = (
    """
cutegen: 1
kernel: square
op: elementwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * X
torch: {op: "shipped::square", backward: square_bwd}
""",
    """
cutegen: 1
kernel: square_bwd
op: elementwise
tensors:
  dY: {shape: [M, N], dtype: f32}
  X: {shape: [M, N], dtype: f32}
  dX: {shape: [M, N], dtype: f32, role: out}
compute: dX = 2 * X * dY
torch: {op: "shipped::square_bwd", backward: square_bwd_bwd}
---
cutegen: 1
kernel: square_bwd_bwd
op: elementwise
tensors:
  ddX: {shape: [M, N], dtype: f32}
  dY: {shape: [M, N], dtype: f32}
  X: {shape: [M, N], dtype: f32}
  ddY: {shape: [M, N], dtype: f32, role: out}
  dX: {shape: [M, N], dtype: f32, role: out}
compute:
  - ddY = 2 * X * ddX
  - dX = 2 * dY * ddX
torch: {op: "shipped::square_bwd_bwd"}
""",
)
X, W, Y, RSTD = (
    TensorArgument(0x10000, (7, 256), (256, 1), "V", 16),
    TensorArgument(0x80000, (256,), (1,), "V", 16),
    TensorArgument(0x100000, (7, 256), (256, 1), "V", 16),
    TensorArgument(0x200000, (7,), (1,), "f", 32),
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of two specs, of which nothing is built."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "specs").mkdir()
    (folder / "specs" / "rms_norm.yaml").write_text(SPECS)
    (folder / "specs" / "backward.yaml").write_text(BACKWARD)
    return folder


def run(project: Path, out: Path, *names: str, **options: Any) -> ExportReport:
    """Exports specs of the project to a folder."""
    selection = select([project / "specs" / name for name in names or ("rms_norm.yaml",)])
    return export(selection, Options(out, **{"verify": False, **options}), PlainProgress())


@pytest.fixture(scope="module")
def exported(project: Path) -> Path:
    """The folder that the first of them was exported to."""
    report = run(project, project / "out")
    assert report.exit_code == 0, report
    assert [kernel.unit.kernel for kernel in report.kernels] == ["rms_norm", "rms_norm_bwd"]
    assert report.notices == ("rms_norm_bwd is exported, too: it computes the gradient of rms_norm",)
    return project / "out"


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CUDA runtime that prints launches."""
    path = tmp_path_factory.mktemp("stub") / "cudart.so"
    source = Path(__file__).with_name("cudart_stub.c")
    subprocess.run([*c_compiler(), "-shared", "-fPIC", str(source), "-o", str(path)], check=True)
    return path


def python(code: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own, in which importing the compiler raises."""
    blocked = "import sys\nfor name in ('cutlass', 'cuda'): sys.modules[name] = None\n"
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", **variables}
    command = [sys.executable, "-c", blocked + code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)


CALL = """
import ctypes, os, sys
sys.modules["torch"] = None  # which TVM FFI imports where it is, for seconds
ctypes.CDLL({stub!r}, mode=ctypes.RTLD_GLOBAL)
import tvm_ffi
from cutegen.emulator.host.packing import AnyValue, TensorArgument, pack
runtime, library = ctypes.CDLL("libtvm_ffi.so"), ctypes.CDLL({library!r})
for capability, sizes, arguments in {calls!r}:
    os.environ["CAPABILITY"], os.environ["SIZES"] = str(capability), sizes
    packed, alive, error = (AnyValue * len(arguments))(), [], ctypes.c_void_p()
    for slot, argument in zip(packed, arguments):
        pack(slot, argument, alive)
    if library.__tvm_ffi_rms_norm(None, packed, len(arguments), ctypes.byref(AnyValue())):
        runtime.TVMFFIErrorMoveFromRaised(ctypes.byref(error))
        kind, length, message, size = (ctypes.c_size_t * 4).from_address(error.value + 24)  # behind the object's header
        print(ctypes.string_at(kind, length).decode(), ctypes.string_at(message, size).decode(), flush=True)
"""
Call = tuple[int, str, list[Any]]  # a compute capability, the bytes of each of the kernel's parameters, and arguments


def answers(exported: Path, stub: Path, calls: Sequence[Call]) -> list[str]:
    """The launch of the library, or its error, for each of these calls."""
    done = python(CALL.format(stub=str(stub), library=str(exported / "librms_norm.so"), calls=list(calls)), exported)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def modules(project: Path) -> dict[str, ModuleType]:
    """The modules of the project's kernels."""
    found = {}
    for unit in gather(select([project / "specs"])).units:
        path = project / "generated" / unit.module.name
        path.parent.mkdir(exist_ok=True)
        path.write_text(unit.module.text)
        found[unit.kernel] = load(path, f"module_{unit.kernel}")
    return found


def parameter_reads(ptx: str, kernel: str) -> list[tuple[int, int, int]]:
    """The parts of its parameters that a kernel reads, by their numbers, offsets and sizes in bytes: the rest of what a
    launch is given is padding, which may hold anything."""
    read = rf"ld\.param\.(?:v(\d)\.)?[bfsu](\d+)\s.*\[{kernel}_param_(\d+)(?:\+(\d+))?\]"
    return [
        (int(number), int(at or 0), int(count or 1) * int(bits) // 8)
        for count, bits, number, at in re.findall(read, ptx)
    ]


def test_a_call_launches_what_the_module_launches(exported: Path, stub: Path, modules: dict[str, ModuleType]) -> None:
    """Where rows are aligned and where they are not, which is another kernel, with other parameters."""
    (build,) = builds(modules["rms_norm"], ["sm_90a"], lines=False)
    odd = [replace(X, address=0x10002), W, replace(Y, shape=(7, 256), strides=(257, 1)), RSTD, 0.25]
    given = ([X, W, Y, RSTD, 1e-5], odd)
    launches = [launch for arguments in given for launch in build.host(*arguments)]
    layouts = [build.host._parameters[launch.kernel] for launch in launches]
    calls = [
        (90, ",".join(str(size) for _, size in layout), list(arguments))
        for layout, arguments in zip(layouts, given, strict=True)
    ]
    for launch, layout, found in zip(launches, layouts, answers(exported, stub, calls), strict=True):
        grid, block = (",".join(map(str, sizes)) for sizes in (launch.grid, launch.block))
        *said, parameters = found.split()
        assert said == ["launch", launch.kernel, grid, block, str(launch.shared)]
        starts = [sum(size for _, size in layout[:number]) for number in range(len(layout))]
        read = parameter_reads(build.ptx, launch.kernel)
        assert len(read) > 5
        for number, at, size in read:
            begin = layout[number][0] + at
            kept = bytes.fromhex(parameters)[starts[number] + at :][:size]
            assert kept == launch.parameters[begin : begin + size], (number, at)
    assert len({launch.kernel for launch in launches}) == 2


def test_the_library_chooses_by_the_gpu_and_refuses_what_does_not_fit(exported: Path, stub: Path) -> None:
    def on(device: int, *tensors: TensorArgument, on_device: bool = True) -> list[Any]:
        return [*(replace(x, device=device, on_device=on_device) for x in tensors), 1e-5]

    calls: list[Call] = [  # each on a device of its own: what is chosen for one is kept
        *((capability, "", on(n, X, W, Y, RSTD)) for n, capability in enumerate((90, 80, 86, 75, 100))),
        (90, "", on(0, X, W, replace(Y, shape=(8, 256)), RSTD)),
        (90, "", on(0, X, W, X, RSTD)),
        (90, "", on(0, X, W, Y, RSTD, on_device=False)),
    ]
    hopper, ampere, small_ampere, turing, blackwell, wrong, overlapping, on_cpu = answers(exported, stub, calls)
    assert all(line.startswith("launch ") for line in (hopper, ampere, small_ampere))
    assert turing == "ValueError cuda:3: expected a GPU for sm_80 and sm_90a, got sm_75"
    assert blackwell == "ValueError cuda:4: expected a GPU for sm_80 and sm_90a, got sm_100"
    assert wrong.startswith("ValueError Mismatched ") and "argument #2" in wrong
    assert overlapping == "CUDADialectError CUDA error 1, cudaErrorInvalidValue"
    assert on_cpu.startswith("ValueError Mismatched ")


def test_nothing_but_the_kernels_can_be_called(exported: Path) -> None:
    """Else two libraries in one process would call functions of each other; and what it needs, torch brings."""
    listed = subprocess.run(["nm", "-D", "librms_norm.so"], cwd=exported, check=True, capture_output=True, text=True)
    symbols = [line.split() for line in listed.stdout.splitlines()]
    defined = {name for *_, kind, name in symbols if kind == "T"}
    needed = {name.partition("@")[0] for *_, kind, name in symbols if kind == "U"}
    assert defined == {f"__tvm_ffi_rms_norm{target}" for target in ("", "_sm_80", "_sm_90a")}
    libc = {"abort", "fprintf", "free", "malloc", "snprintf", "stderr", "strlen"}
    assert {name for name in needed - libc if not name.startswith(("cuda", "TVMFFI"))} == set()


def test_the_loader_does_what_the_module_does(exported: Path, modules: dict[str, ModuleType]) -> None:
    """Outputs are made, the op and its gradient are known, and what is wrong is named; the kernels are emulated."""
    names = ("rms_norm", "rms_norm_bwd")
    forward, backward = (load(exported / f"{name}.py", f"shipped_{name}") for name in names)
    for loader, name in zip((forward, backward), names, strict=True):
        vars(loader)["compile_for"] = modules[name].compile_for
        install(loader, name, ["sm_90a"], lines=False)
    x, w = torch.randn(3, 256, dtype=torch.bfloat16), torch.randn(256, dtype=torch.bfloat16)
    with made_on_device():
        outputs = forward.rms_norm(on_device(x), on_device(w), eps=1e-5)
        with pytest.raises(ValueError, match="w: expected N = 256, as the kernel has it, got 128"):
            forward.rms_norm(on_device(x), on_device(w[:128]), eps=1e-5)
        with pytest.raises(TypeError, match="eps: expected a float, got str"):
            forward.rms_norm(on_device(x), on_device(w), eps="small")
    wanted = torch.nn.functional.rms_norm(x.double(), (256,), w.double(), 1e-5)
    (y,) = (one for one in outputs if one.shape == x.shape)
    torch.testing.assert_close(y.as_subclass(torch.Tensor).double(), wanted, rtol=2**-7, atol=2**-7)
    x.requires_grad_()
    by_shape = {one.shape: one for one in torch.ops.shipped.rms_norm(x, w, 1e-5)}
    by_shape[x.shape].float().sum().backward()
    assert x.grad is not None and x.grad.abs().max() > 0


def test_it_is_imported_and_refuses_without_the_compiler(exported: Path, stub: Path) -> None:
    """The library is loaded by the first call on each GPU."""
    code = f"""
import ctypes, torch, rms_norm
ctypes.CDLL({str(stub)!r}, mode=ctypes.RTLD_GLOBAL)
from rms_norm import rms_norm as function
x, w = torch.zeros(4, 256, dtype=torch.bfloat16), torch.zeros(256, dtype=torch.bfloat16)
try:
    function(x, w, 1e-5)
except Exception as problem:
    print(type(problem).__name__, problem)
print([type(rms_norm._compiled(gpu)).__name__ for gpu in (1, 0)])
"""
    done = python(code, exported)
    assert done.stdout.splitlines() == [
        "TypeError x: expected torch.bfloat16 [M, N] on a GPU, got torch.bfloat16 [4, 256] on cpu",
        "['Function', 'Function']",
    ], done.stderr


def test_a_library_that_is_gone_is_named(exported: Path, tmp_path: Path) -> None:
    shutil.copy(exported / "rms_norm.py", tmp_path)
    loader = load(tmp_path / "rms_norm.py", "rms_norm_alone")
    with pytest.raises(FileNotFoundError, match="librms_norm.so is not there: it was exported with"):
        loader._compiled(0)


def test_an_example_is_built_by_cmake_and_runs(exported: Path, stub: Path, tmp_path: Path) -> None:
    if shutil.which("cmake") is None or not any(map(shutil.which, ("nvcc", "nvcc.exe"))):
        pytest.skip("CMake and the CUDA toolkit are needed")
    for command in (["-S", str(exported), "-B", "."], ["--build", "."]):
        python_option = [f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"]
        done = subprocess.run(
            ["cmake", *command, *(python_option if command[0] == "-S" else [])],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    for kernel, launches, outputs in (("rms_norm", 1, ("y", "rstd")), ("rms_norm_bwd", 2, ("dx", "dw"))):
        environment = {**os.environ, "LD_PRELOAD": str(stub), "CAPABILITY": "90"}
        ran = subprocess.run([tmp_path / f"example_{kernel}"], capture_output=True, text=True, env=environment)
        assert ran.returncode == 0, ran.stderr
        lines = ran.stdout.splitlines()
        assert [line.partition(" ")[0] for line in lines] == ["launch"] * launches + [f"{name}:" for name in outputs]
        assert lines[-1].endswith(" 0.5 1 2 0.5 1 2")  # as they were: the stub launches nothing


def test_what_was_not_exported_is_not_overwritten(
    project: Path, exported: Path, modules: dict[str, ModuleType]
) -> None:
    assert modules
    report = run(project, project / "generated")
    assert report.exit_code == 2 and not (project / "generated" / "include").exists()
    assert [problem.message.partition(" ")[2] for problem in report.problems] == ["is there, and was not exported"] * 2
    missing = run(project, project / "specs" / "rms_norm.yaml" / "out")
    assert missing.problems[0].message.endswith("is not a folder")


def test_a_library_that_others_need_or_that_no_export_wrote_stays(
    project: Path, exported: Path, tmp_path: Path
) -> None:
    """The library of an export is known by what is in it, and who loads it by the Python beside it."""
    units = gather(select([project / "specs"])).units
    assert in_the_way(exported, units) == []
    (other,) = in_the_way(exported, [u for u in units if u.kernel == "rms_norm_bwd"], "rms_norm")
    assert other.message.endswith("librms_norm.so also has rms_norm, which this export does not")
    shutil.copy(exported / "rms_norm.py", tmp_path)
    (tmp_path / "librms_norm.so").write_bytes(b"\x7fELF, of somebody")
    (foreign,) = in_the_way(tmp_path, [unit for unit in units if unit.kernel == "rms_norm"])
    assert foreign.message.endswith("librms_norm.so is there, and was not exported")
    assert in_the_way(tmp_path, units, force=True) == []


def test_gradients_of_gradients_are_exported_with_an_op(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "first.yaml").write_text(GRADIENTS[0])
    (tmp_path / "specs" / "others.yaml").write_text(GRADIENTS[1])
    gathered = gather(select([tmp_path / "specs" / "first.yaml"]))
    assert not gathered.failed, gathered.diagnostics
    units, notices = with_gradients(gathered.units)
    assert [unit.kernel for unit in units] == ["square", "square_bwd", "square_bwd_bwd"]
    assert notices[1] == "square_bwd_bwd is exported, too: it computes the gradient of square_bwd"


@pytest.mark.parametrize(
    ("said", "wrong"),
    [("no-such-compiler -m64", "$CC says 'no-such-compiler', which is not there"), ("gcc 'x", "No closing quotation")],
)
def test_a_c_compiler_that_is_not_there_is_named_at_once(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, wrong: str
) -> None:
    monkeypatch.setenv("CC", said)
    report = run(project, tmp_path / "out")
    assert report.exit_code == 2 and [wrong in problem.message for problem in report.problems] == [True]


def test_targets_and_names_are_refused_before_anything_is_compiled(project: Path, tmp_path: Path) -> None:
    other = run(project, tmp_path / "out", targets=("sm_80",))
    assert [p.message for p in other.problems] == ["rms_norm_bwd is not for `sm_80`"]
    none = run(project, tmp_path / "out", targets=("sm_90a", "sm_100a"))
    assert [p.message for p in none.problems] == ["no kernel here is for `sm_100a`"]
    twice = tmp_path / "another" / "specs"
    twice.mkdir(parents=True)
    (twice / "backward.yaml").write_text(BACKWARD.replace("shipped::", "elsewhere::"))
    selection = select([project / "specs" / "backward.yaml", twice / "backward.yaml"])
    report = export(selection, Options(tmp_path / "out"), PlainProgress())
    assert "two kernels are called `rms_norm_bwd`" in report.problems[0].message
    assert report.exit_code == 2 and not (tmp_path / "out").exists()


def test_other_code_than_that_of_the_build_is_not_exported(
    project: Path, exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def altered(jobs: Sequence[Job], **_: Any) -> list[Object]:
        return [Object(job, b"other code", (), tmp_path, tmp_path) for job in jobs]

    monkeypatch.setattr("cutegen.verbs.exporting.export.make_objects", altered)
    report = run(project, tmp_path / "out", "backward.yaml")
    assert report.exit_code == 1 and not (tmp_path / "out").exists()
    assert "the compiler gave other code for the library than for the build" in report.problems[0].message


def test_all_loaders_are_whole(tmp_path: Path) -> None:
    """Of every spec: all that they name is there, and nothing is that they do not."""
    for kernel, module in modules_of_specs().items():
        (tmp_path / f"{kernel}.py").write_text(loader_text(module, "specs/x.yaml", "lib.so", ("sm_90a",)))
    assert len(list(tmp_path.iterdir())) > 80
    for command in (["check", "--select", "E9,F,I"], ["format", "--check"]):
        options = ["--isolated", "--line-length", "100", "."]
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *options], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout
    assert not any("cutlass" in path.read_text() for path in tmp_path.glob("*.py"))


def test_what_was_verified_in_part_is_verified_before_it_is_exported(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "backward.yaml").write_text(BACKWARD)
    (unit,) = gather(select([tmp_path / "specs"])).units
    unit.path.parent.mkdir(parents=True)
    for text, built in ((unit.module.text, True), (marked(unit.module.text), False)):
        unit.path.write_text(text)
        assert _is_built(unit) is built
