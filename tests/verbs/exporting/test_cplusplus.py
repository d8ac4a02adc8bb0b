"""C++ around exported kernels: headers compile whatever a spec calls its things, and say the same sizes as Python."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from cplusplus_kit import compile_in, config
from specs_kit import modules_of, modules_of_specs

from cutegen.codegen import Module, generate
from cutegen.codegen.cplusplus import entry_text, example_text, header_text, shared_texts
from cutegen.codegen.shipping import loader_text, told
from cutegen.compiling.loading import load

# Names that C++, its headers, or the texts of an export have for something else; `New_` is what `New` would become, and
# a header `features.h` in the way of the C library's own would break all that includes that
ODD = """
cutegen: 1
kernel: features
op: elementwise
tensors:
  New: {shape: [Buffer, NAN], dtype: f16}
  New_: {shape: [NAN], dtype: u32}
  Errno: {shape: [NAN], dtype: bool}
  Int64_t: {shape: [Buffer, NAN], dtype: f64, role: out}
scalars: {delete: f32, EOF: i64}
compute: Int64_t = New * delete + New_ + Errno + EOF
---
cutegen: 1
kernel: buffer
op: gemm
tensors:
  Linux: {shape: [new, int64_t], dtype: f32, major: int64_t}
  Unix: {shape: [new_, int64_t], dtype: f32, major: int64_t}
  This: {shape: [new, new_], dtype: f32, role: out}
compute: This = Linux @ Unix.T
schedule: {workspace: {Linux: {major: new}, Unix: {major: new_}}}
divisible: {int64_t: 4}
---
cutegen: 1
kernel: signed
op: rowwise
tensors:
  New: {shape: [new_, N], dtype: bf16}
  Weights: {shape: [1, N], dtype: f32}
  N_: {shape: [], dtype: f32}
  Rstd: {shape: [new_, 1], dtype: f32, role: out}
  Total: {shape: [1, N], dtype: f32, role: out}
compute:
  - Rstd = rsqrt(mean(New * New, N))
  - Total = sum(New * Weights * N_, new_)
"""
CUDA = """
#include <stddef.h>
enum cudaError_t { cudaSuccess };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
cudaError_t cudaGetDevice(int*);
cudaError_t cudaMalloc(void**, size_t);
cudaError_t cudaMemcpy(void*, const void*, size_t, cudaMemcpyKind);
cudaError_t cudaFree(void*);
cudaError_t cudaDeviceSynchronize();
const char* cudaGetErrorString(cudaError_t);
"""
GPUS = (80, 86, 89, 90, 100, 103, 120, 121)


def write(folder: Path, modules: Sequence[Module]) -> None:
    """Writes what an export of these has for C++, and the Python beside it."""
    for part in ("include/kernels", "examples"):
        (folder / part).mkdir(parents=True)
    for name, text in shared_texts().items():
        (folder / name).write_text(text)
    for module in modules:
        kernel = module.spec.kernel
        (folder / "include" / "kernels" / f"{kernel}.h").write_text(header_text(module, "specs/x.yaml"))
        (folder / "examples" / f"{kernel}.cpp").write_text(example_text(module, "specs/x.yaml"))
        (folder / f"{kernel}.py").write_text(loader_text(module, "specs/x.yaml", "lib.so", ("sm_90a",)))


def test_no_name_of_a_spec_is_in_the_way_of_cplusplus(tmp_path: Path) -> None:
    """As CMake compiles it, with the macros of GNU; what the examples call of CUDA is declared here."""
    write(tmp_path, generate(ODD, "specs/odd.yaml").modules)
    (tmp_path / "include" / "cuda_runtime_api.h").write_text(CUDA)
    for kernel in ("features", "buffer", "signed"):
        program = f"examples/{kernel}.cpp"
        compile_in(tmp_path, "g++", "-std=gnu++17", "-fsyntax-only", program)


CALLS = """
#include "kernels/features.h"
#include <cstdio>
static int fails;
/* In the place of the library's: tells the stream that is the current one, and the types of what it is given */
extern "C" int __tvm_ffi_features(void*, const TVMFFIAny* arguments, int32_t count, TVMFFIAny*) {
  std::printf("stream %d of", (int)(intptr_t)TVMFFIEnvGetStream(kDLCUDA, 3));
  for (int i = 0; i < count; ++i) {
    const TVMFFIAny& x = arguments[i];
    if (x.type_index == kTVMFFIDLTensorPtr) std::printf(" %d", (int)static_cast<DLTensor*>(x.v_ptr)->dtype.bits);
    else if (x.type_index == kTVMFFIFloat) std::printf(" %g", x.v_float64);
    else std::printf(" %lld", (long long)x.v_int64);
  }
  std::puts("");
  if (fails) TVMFFIErrorSetRaisedFromCStr("ValueError", "does not fit");
  return fails;
}
int main() {
  TVMFFIEnvSetStream(kDLCUDA, 3, (void*)7, nullptr);
  int64_t sizes[] = {1, 1};
  DLTensor f16{nullptr, {kDLCUDA, 3}, 2, {kDLFloat, 16, 1}, sizes, sizes, 0}, f64 = f16, u32 = f16, i32 = f16, b8 = f16;
  f64.dtype.bits = 64;
  u32.dtype = {kDLUInt, 32, 1};
  i32.dtype = {kDLInt, 32, 1};
  b8.dtype = {kDLBool, 8, 1};
  for (DLTensor* second : {&u32, &u32, &i32}) try {
    kernels::features(&f16, second, &b8, 0.5, int64_t{1} << 40, &f64, (void*)9);
    fails = -1;
  } catch (const tvm::ffi::Error& error) {
    std::printf("%s: %s\\n", error.kind().c_str(), error.message().c_str());
  }
  std::printf("stream %d again\\n", (int)(intptr_t)TVMFFIEnvGetStream(kDLCUDA, 3));
}
"""


def test_a_header_passes_all_on_for_a_stream_and_tells_what_was_raised(tmp_path: Path) -> None:
    """And takes integers with their sign only: compiled code takes both, and the Python around it refuses one."""
    write(tmp_path, generate(ODD, "specs/odd.yaml").modules[:1])
    (tmp_path / "calls.cpp").write_text(CALLS)
    library = config("--libdir")
    linked = (f"-L{library}", "-ltvm_ffi", f"-Wl,-rpath,{library}")
    compile_in(tmp_path, "g++", "-std=c++17", "-O0", "calls.cpp", "-o", "calls", *linked)
    ran = subprocess.run([tmp_path / "calls"], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [
        *["stream 9 of 16 32 8 64 0.5 1099511627776"] * 2,
        "ValueError: does not fit",
        "TypeError: new__: expected uint32",
        "stream 7 again",
    ]


def test_rows_that_are_written_past_their_end_are_told() -> None:
    """Compiled code writes them all the same: the Python around it calls it with a copy then, C++ has to have room."""
    said = "/// c: rows are written in whole 16 bytes, over what stands behind a row up to there.\n"
    assert said in header_text(modules_of("gemm_bf16_odd")["gemm_bf16_odd"], "specs/x.yaml")
    assert "rows are written" not in header_text(modules_of("rms_norm")["rms_norm"], "specs/x.yaml")


def test_workspaces_have_the_sizes_that_python_gives_them(tmp_path: Path) -> None:
    """Of every kernel that has any, for sizes around the units that they come in, and for none."""
    odd = generate(ODD, "specs/odd.yaml").modules[1]
    modules = [odd, *modules_of_specs().values()]
    modules = [m for m in modules if m.spec.family.kernel_parts(m.plan).workspaces is not None]
    modules = [m for m in modules if "_multiprocessors(" not in m.text]  # whose spaces depend on the GPU
    assert len(modules) > 5
    write(tmp_path, modules)
    wanted, calls = [], []
    for module in modules:
        spec = module.spec
        loader = load(tmp_path / f"{spec.kernel}.py", f"workspaces_{spec.kernel}")
        parts = spec.family.kernel_parts(module.plan)
        assert parts.workspaces is not None
        for size in (4, 8, 12, 60, 64, 68, 1000, 4096, 10004):
            sizes = {mode: spec.static.get(mode, size + 4 * number) for number, mode in enumerate(spec.modes)}
            tensors = [torch.empty([sizes[m] for m in row[1]], device="meta") for row in loader.TENSORS.values()]
            made = loader._arguments(*tensors, *(0.5 for _ in spec.scalars))[len(tensors) + len(spec.scalars) :]
            for space, memory in zip(parts.workspaces.each, made, strict=True):
                named = dict.fromkeys(m.size for m in space.modes if m.size in sizes and m.size not in spec.static)
                given = ", ".join(str(sizes[str(mode)]) for mode in named)
                calls.append(f"  print(kernels::{spec.kernel}_{space.parameter}({given}));\n")
                wanted.append(list(memory.shape))
    includes = "".join(f'#include "kernels/{module.spec.kernel}.h"\n' for module in modules)
    program = f"""{includes}#include <cstdio>
void print(std::array<int64_t, 2> sizes) {{ std::printf("%lld %lld\\n", (long long)sizes[0], (long long)sizes[1]); }}
int main() {{
{"".join(calls)}}}
"""
    (tmp_path / "sizes.cpp").write_text(program)
    # Nothing of what it would be linked with is called
    linked = ("-std=c++17", "-O0", "-Wl,--unresolved-symbols=ignore-all", "sizes.cpp", "-o", "sizes")
    compile_in(tmp_path, "g++", *linked)
    ran = subprocess.run([tmp_path / "sizes"], capture_output=True, text=True, check=True)
    assert [[int(size) for size in line.split()] for line in ran.stdout.splitlines()] == wanted


@pytest.mark.parametrize(
    ("targets", "chosen"),
    [
        (("sm_80", "sm_90a"), (80, 80, 80, 90, None, None, None, None)),
        (("sm_80", "sm_86", "sm_89"), (80, 86, 89, None, None, None, None, None)),
        (("sm_86", "sm_100a", "sm_103a", "sm_120a"), (None, 86, 86, None, 100, 103, 120, None)),
    ],
)
def test_code_is_chosen_for_the_gpu_as_cuda_runs_it(
    tmp_path: Path, targets: tuple[str, ...], chosen: tuple[int | None, ...]
) -> None:
    """The entry of a library, with functions in the place of kernels that return their targets."""
    module = modules_of("rms_norm")["rms_norm"]
    codes = "".join(
        f"int __tvm_ffi_rms_norm_{target}(void* s, const TVMFFIAny* a, int32_t n, TVMFFIAny* r)"
        f" {{ (void)s, (void)a, (void)n, (void)r; return {target[3:].rstrip('a')}; }}\n"
        for target in targets
    )
    program = f"""{entry_text(module, targets)}
{codes}
static int capability;
static char raised[200];
int cudaDeviceGetAttribute(int* value, int attribute, int device) {{
  *value = attribute == MAJOR ? capability / 10 : capability % 10;
  if (device == 70) *value = 0;
  return device == 70; /* as of one that is not there */
}}
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {{
  snprintf(raised, sizeof raised, "%s: %s", kind, message);
}}
int main(void) {{
  DLTensor on_cpu = {{.device = {{kDLCPU, 5}}}}, tensor = {{.device = {{kDLCUDA, 0}}}};
  TVMFFIAny arguments[3] = {{{{.type_index = kTVMFFIFloat}}, {{.type_index = kTVMFFIDLTensorPtr, .v_ptr = &on_cpu}},
                            {{.type_index = kTVMFFIDLTensorPtr, .v_ptr = &tensor}}}};
  const int capabilities[] = {{{", ".join(map(str, GPUS))}}};
  for (int again = 0; again < 2; ++again)
    for (int i = 0; i < {len(GPUS)}; ++i) {{
      capability = again ? 75 : capabilities[i]; /* what was chosen for a device is kept */
      tensor.device.device_id = i;
      printf("%d\\n", __tvm_ffi_rms_norm(NULL, arguments, 3, NULL));
    }}
  tensor.device.device_id = 70;
  __tvm_ffi_rms_norm(NULL, arguments, 3, NULL);
  puts(raised);
}}
"""
    (tmp_path / "entry.c").write_text(program)
    compile_in(tmp_path, "gcc", "-std=c11", "entry.c", "-o", "entry")
    ran = subprocess.run([tmp_path / "entry"], capture_output=True, text=True, check=True)
    *codes_given, message = ran.stdout.splitlines()
    assert [int(line) for line in codes_given] == [-1 if x is None else x for x in chosen] * 2
    assert message == f"ValueError: cuda:70: expected a GPU for {told(targets)}, got none that CUDA knows"
