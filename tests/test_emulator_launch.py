"""Launches as a module's compiled host code makes them, and generated modules run by the emulator."""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import FaultError, TensorArgument, install, on_device, run  # noqa: E402
from cutegen.emulator.modules import Build, build, builds, roles  # noqa: E402
from cutegen.verification.cases import Case  # noqa: E402
from cutegen.verification.executor import EmulatorExecutor, load_module, make_executor  # noqa: E402
from cutegen.verification.runner import verify_case  # noqa: E402

SPECS = Path(__file__).parent.parent / "specs"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


@lru_cache(maxsize=8)
def spec_of(name: str):  # type: ignore[no-untyped-def]
    (module,) = generate((SPECS / f"{name}.yaml").read_text(encoding="utf-8"), f"specs/{name}.yaml").modules
    return module


def loaded(name: str, folder: Path) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(spec_of(name).text, encoding="utf-8")
    return load_module(path)


@pytest.fixture(scope="module")
def axpby(folder: Path) -> Build:
    return build(loaded("sgemm_axpby", folder), "sm_80")


def tensor(address: int, *shape: int) -> TensorArgument:
    return TensorArgument(address, shape, (shape[1], 1), "f", 32)


def test_launch_of_the_compiled_host_code(axpby: Build) -> None:
    (found,) = axpby.host(tensor(1 << 40, 300, 20), tensor(2 << 40, 129, 20), tensor(3 << 40, 300, 129), 1.5, -2.0)
    assert (found.grid, found.block) == ((3, 2, 1), (256, 1, 1))
    assert found.shared == 3 * 8 * (128 + 4) * 4 * 2 - 32  # three stages of A and of B; the last pad is not allocated
    pointers = [struct.unpack_from("<Q", found.parameters, at)[0] for at in (0, 24, 48)]
    assert pointers == [1 << 40, 2 << 40, 3 << 40]
    assert struct.unpack_from("<ii", found.parameters, 8) == (300, 20)
    assert struct.unpack_from("<ff", found.parameters, len(found.parameters) - 8) == (1.5, -2.0)
    assert found.kernel in axpby.ptx


def test_each_call_is_its_own(axpby: Build) -> None:
    first = axpby.host(tensor(1 << 40, 1, 1), tensor(2 << 40, 1, 1), tensor(3 << 40, 1, 1), 1.0, 1.0)
    second = axpby.host(tensor(1 << 40, 999, 1), tensor(2 << 40, 1, 1), tensor(3 << 40, 999, 1), 1.0, 1.0)
    assert [first[0].grid, second[0].grid] == [(1, 1, 1), (8, 1, 1)]


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((tensor(1 << 40, 8, 8), tensor(2 << 40, 8, 8), tensor(3 << 40, 9, 8), 1.0, 1.0), ValueError, "shape"),
        ((tensor(1 << 40, 8, 8), tensor(2 << 40, 8, 8), 1.0, 1.0, 1.0), TypeError, "Tensor"),
        ((tensor(1 << 40, 8, 8), tensor(2 << 40, 8, 8)), TypeError, "Expects 5 parameters"),
        ((tensor(1 << 40 | 2, 8, 8), tensor(2 << 40, 8, 8), tensor(3 << 40, 8, 8), 1.0, 1.0), ValueError, "alignment"),
        (
            (TensorArgument(1 << 40, (8, 8), (8, 1), "i", 32), tensor(2 << 40, 8, 8), tensor(3 << 40, 8, 8), 1.0, 1.0),
            ValueError,
            "dtype",
        ),
    ],
)
def test_compiled_host_code_refuses(axpby: Build, arguments: tuple, error: type, says: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(error, match=says):
        axpby.host(*arguments)


def test_targets_with_the_same_code_run_once(folder: Path) -> None:
    module = loaded("add_tv", folder)
    made = builds(module)
    assert [b.target for b in made] == ["sm_80"] and len(module.TARGETS) == 2
    assert build(module, "sm_90a").ptx != made[0].ptx  # they differ, by their target's name


def test_the_compilers_files_are_removed(folder: Path) -> None:
    import cutlass.cute as cute

    module = loaded("probe_tv", folder)
    keep = cute.KeepPTX()
    module.compile("sm_80", options=(keep,))
    written = Path(keep.full_ptx_path)
    assert written.exists()  # what the compiler does by itself
    written.unlink()
    build(module, "sm_80")
    assert not written.exists()


def test_roles_are_what_the_documentation_says(folder: Path) -> None:
    assert roles(loaded("sgemm_axpby", folder), "sgemm_axpby") == {"a": "in", "b": "in", "c": "inout"}
    assert roles(loaded("sgemm_mmajor", folder), "sgemm_mmajor") == {"a": "in", "b": "in", "c": "out"}


def test_run_a_module(folder: Path) -> None:
    module = loaded("add_tv", folder)
    a, b, c = module.make_inputs(M=37, N=132, device="cpu")
    reports = run(module, a, b, c, kernel="add_tv")
    assert torch.equal(c, a + b)
    assert [r.ok for r in reports] == [True] and reports[0].grid == (6, 1, 1) and reports[0].approximate == ()


def test_the_public_function_checks_and_runs(folder: Path) -> None:
    module = loaded("add_naive", folder)
    emulated = install(module, "add_naive")
    a, b, c = module.make_inputs(M=30, N=50, device="cpu")
    result = module.add_naive(*map(on_device, (a, b, c)))
    assert torch.equal(c, a + b) and result.data_ptr() == c.data_ptr()
    with pytest.raises(ValueError, match="b: expected a CUDA tensor"):
        module.add_naive(on_device(a), b, on_device(c))
    with pytest.raises(ValueError, match="c: expected memory of its own"):
        module.add_naive(*map(on_device, (a, b, a)))
    with pytest.raises(TypeError, match="a: expected torch.float32"):
        module.add_naive(*map(on_device, (a.double(), b, c)))
    assert len(emulated.reports) == 1


def test_orders(folder: Path) -> None:
    module = loaded("add_naive", folder)
    emulated = install(module, "add_naive")
    for _ in range(5):
        module.add_naive(*map(on_device, module.make_inputs(M=30, N=50, device="cpu")))
    assert [r.orders for r in emulated.reports] == [3, 3, 3, 1, 1]


def test_a_fault_is_no_refusal(folder: Path) -> None:
    """Generated functions try the compiled function first and take its errors for wrong arguments: not these."""
    text = spec_of("probe_tv").text
    broken = text.replace("block=[THREADS, 1, 1]", "block=[THREADS + 1, 1, 1]")
    assert broken != text
    path = folder / "broken" / "probe_tv.py"
    path.parent.mkdir()
    path.write_text(broken, encoding="utf-8")
    module = load_module(path)
    install(module, "probe_tv")
    for _ in range(2):  # the first call loads, the second goes straight
        with pytest.raises(FaultError) as caught:
            module.probe_tv(*map(on_device, module.make_inputs(device="cpu")))
        assert caught.value.fault.kind == "out-of-bounds" and caught.value.fault.source_file == str(path)
        assert "mD[tidx" in caught.value.fault.source_text or "tDgA[" in caught.value.fault.source_text


def test_the_executor_verifies(folder: Path) -> None:
    executor = make_executor("cpu")
    assert isinstance(executor, EmulatorExecutor) and executor.element_limit
    module = spec_of("sgemm_axpby")
    case = Case("here", "a test", {"M": 130, "N": 7, "K": 19}, "offset", "integers", 3)
    report = verify_case(module.spec, case, loaded("sgemm_axpby", folder), executor)
    assert report.status == "passed" and report.elements == 910, report.message
