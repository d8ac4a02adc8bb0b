"""Kernels whose blocks follow from the GPU, as they are exported: their library asks for its multiprocessors."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from cplusplus_kit import compile_in

from cutegen.cases.plan import CasesPlan
from cutegen.codegen import Module, generate
from cutegen.codegen.cplusplus import entry_text, header_text
from cutegen.codegen.shipping import loader_text, object_text

COMPARED = """
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16, align: 16}
  B: {shape: [N, K], dtype: bf16, align: 16}
  C: {shape: [M, N], dtype: bf16, align: 16, role: out}
scalars: {alpha: f32}
compute: C = (A @ B.T) * alpha
schedule:
  - {for: {cost: least}, tiler: {M: 64, N: 64, K: 128}, mma: {atom: wgmma, rows: N}}
  - {for: {cost: least}, tiler: {M: 128, N: 128, K: 64}, mma: {atom: wgmma}}
  - {for: {cost: least}, tiler: {M: 128, N: 256, K: 64}, mma: {atom: wgmma}%s}
divisible: {N: 8}
"""
ONE = COMPARED[: COMPARED.index("schedule:")] + "schedule: {mma: {atom: wgmma}}\ndivisible: {N: 8}\n"
SIZES = (132, 114, 78, 16, 1)


def made(text: str) -> Module:
    (module,) = generate(text, "specs/product.yaml").modules
    return module


@pytest.mark.parametrize("more", ["", ", scheduler: {blocks: 64}"], ids=["of the GPU", "written"])
def test_a_header_chooses_the_kernel_that_the_plan_does(more: str, tmp_path: Path) -> None:
    module, numbers = made(COMPARED % more), random.Random(3)
    plan = module.plan
    assert isinstance(plan, CasesPlan)
    calls = [[*(int(2 ** numbers.uniform(0, 15)) for _ in range(3)), numbers.choice(SIZES)] for _ in range(3000)]
    (tmp_path / "include" / "kernels").mkdir(parents=True)
    (tmp_path / "include" / "kernels" / "product.h").write_text(header_text(module, "specs/product.yaml"))
    (tmp_path / "calls.cpp").write_text(
        '#include "kernels/product.h"\n#include <cstdio>\n'
        f"const int64_t calls[][4] = {{{', '.join(f'{{{m}, {n}, {k}, {sms}}}' for m, n, k, sms in calls)}}};\n"
        "int main() {\n  for (const auto& x : calls)\n"
        '    std::printf("%d\\n", static_cast<int>(kernels::product_kernel(x[0], x[1], x[2], x[3])));\n}\n'
    )
    # What the library has is not called, nor there
    compile_in(tmp_path, "g++", "-std=c++17", "-O1", "-c", "calls.cpp", "-o", "calls.o")
    compile_in(tmp_path, "g++", "calls.o", "-o", "calls", "-Wl,--unresolved-symbols=ignore-all")
    found = subprocess.run([tmp_path / "calls"], capture_output=True, text=True, check=True).stdout.split()
    wanted = [plan.chosen_for({"M": m, "N": n, "K": k}, sms) for m, n, k, sms in calls]
    assert list(map(int, found)) == wanted
    others = [plan.chosen_for({"M": m, "N": n, "K": k}) for m, n, k, _ in calls]
    assert wanted != others and len(set(wanted)) == 3


@pytest.mark.parametrize("text", [ONE, COMPARED % ""], ids=["one", "compared"])
def test_the_entry_of_a_library_adds_the_multiprocessors_of_the_gpu(text: str, tmp_path: Path) -> None:
    """To calls with as many arguments as its function has; any other one is refused by what is compiled."""
    module = made(text)
    given = 4 + (text is not ONE)  # the number of a kernel
    told = "__tvm_ffi__multiprocessors_product(1)" if text is not ONE else "-1"
    program = f"""{entry_text(module, ("sm_90a",))}
int __tvm_ffi_product_sm_90a(void* self, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {{
  (void)self, (void)result;
  printf("%d of %d", count, (int)arguments[0].v_int64);
  for (int i = 1; i < count; ++i) printf(" %d:%d", arguments[i].type_index, (int)arguments[i].v_int64);
  puts("");
  return 0;
}}
static int asked;
int cudaDeviceGetAttribute(int* value, int attribute, int device) {{
  asked += attribute == 16;
  *value = attribute == 16 ? 70 + device : attribute == MAJOR ? 9 : 0;
  return 0;
}}
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {{ printf("%s: %s\\n", kind, message); }}
int main(void) {{
  DLTensor tensor = {{.device = {{kDLCUDA, 0}}}};
  TVMFFIAny arguments[{given}] = {{{{.type_index = kTVMFFIInt, .v_int64 = 5}}}};
  for (int i = 1; i < {given}; ++i) arguments[i] = (TVMFFIAny){{.type_index = kTVMFFIInt, .v_int64 = i}};
  __tvm_ffi_product(NULL, arguments, {given}, NULL); /* no tensor: what is compiled says so */
  arguments[2] = (TVMFFIAny){{.type_index = kTVMFFIDLTensorPtr, .v_ptr = &tensor}};
  for (int device = 0; device < 3; ++device) {{
    tensor.device.device_id = device == 2 ? 99 : device;
    for (int again = 0; again < 2; ++again) {{
      __tvm_ffi_product(NULL, arguments, {given}, NULL);
      arguments[2].v_ptr = &tensor;
    }}
  }}
  __tvm_ffi_product(NULL, arguments, {given - 1}, NULL);
  printf("%d %d\\n", asked, (int){told});
}}
"""
    (tmp_path / "entry.c").write_text(program)
    compile_in(tmp_path, "gcc", "-std=c11", "-fsanitize=address,undefined", "entry.c", "-o", "entry")
    ran = subprocess.run([tmp_path / "entry"], capture_output=True, text=True, check=True)
    none, *calls, few, last = ran.stdout.splitlines()
    assert none.startswith(f"{given + 1} of 5 ") and none.endswith(" 1:1")
    assert [line.rpartition(":")[2] for line in calls] == ["70", "70", "71", "71", "169", "169"]
    assert all(line.startswith(f"{given + 1} of 5 ") for line in calls) and few.startswith(f"{given - 1} of 5 ")
    assert last == f"4 {71 if text is not ONE else -1}"  # a device beyond those that are remembered is asked each time


def test_what_is_compiled_for_a_library_takes_the_number_last() -> None:
    compared, one = made(COMPARED % ""), made(ONE)
    added = object_text(compared).removeprefix(compared.text)
    assert "    multiprocessors: cutlass.Int32,\n    kernels: cutlass.Constexpr[tuple],\n):" in added
    assert "    _launch(mA, mB, mC, alpha, kernel, stream, multiprocessors, kernels)\n" in added
    assert "    _launch(mA, mB, mC, alpha, stream, multiprocessors)\n" in object_text(one)
    written = made(ONE.replace("atom: wgmma}", "atom: wgmma}, scheduler: {blocks: 64}"))
    assert object_text(written) == written.text


def test_the_python_of_an_export_chooses_for_the_gpu_of_a_call() -> None:
    text = loader_text(made(COMPARED % ""), "specs/product.yaml", "lib.so", ("sm_90a",))
    assert "_multiprocessors(a.get_device())" in text and "def _multiprocessors(device: int)" in text
    assert "multiprocessors" not in loader_text(made(ONE), "specs/product.yaml", "lib.so", ("sm_90a",))
