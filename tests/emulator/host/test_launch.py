"""Launches as a module's compiled host code makes them, and generated modules run by the emulator."""

from __future__ import annotations

import re
import struct
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest
from emulator_kit import THROUGH_A_WORKSPACE
from specs_kit import modules_of_specs

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from calls_kit import arguments_of, call  # noqa: E402

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import (  # noqa: E402
    Emulated,
    Fault,
    FaultError,
    TensorArgument,
    UnsupportedInstruction,
    install,
    on_device,
    run,
)
from cutegen.emulator.host.builds import Build, build, builds  # noqa: E402
from cutegen.emulator.host.capture import Launch  # noqa: E402
from cutegen.emulator.host.emulated import WORKSPACE, _check_whole  # noqa: E402
from cutegen.emulator.host.limits import CURRENT_STREAM, DEFAULT_STREAMS  # noqa: E402
from cutegen.emulator.host.source_lines import cached_line_tables  # noqa: E402
from cutegen.emulator.memory.bound_tensors import BoundTensor  # noqa: E402
from cutegen.verification.cases import Case  # noqa: E402
from cutegen.verification.executor import CannotRun, EmulatorExecutor, load_module  # noqa: E402
from cutegen.verification.executors import make_executor  # noqa: E402
from cutegen.verification.runner import verify_case  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


@lru_cache(maxsize=8)
def spec_of(name: str):  # type: ignore[no-untyped-def]
    if name == "through_a_workspace":
        (module,) = generate(THROUGH_A_WORKSPACE, "specs/x.yaml").modules
        return module
    return modules_of_specs()[name]


def loaded(name: str, folder: Path) -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(spec_of(name).text, encoding="utf-8")
    return load_module(path)


def changed(name: str, pattern: str, text: str, folder: Path) -> ModuleType:
    """A module in which what the pattern finds first is `text`."""
    broken, count = re.subn(pattern, text, spec_of(name).text, count=1)
    assert count == 1, f"{pattern} is not in {name}: adapt the pattern"
    path = folder / f"{name}.py"
    path.write_text(broken, encoding="utf-8")
    return load_module(path)


BLOCK_TOO_FEW = r"grid=\[grid,", "grid=[cutlass.max(grid - 1, 1),"


@pytest.fixture(scope="module")
def axpby(folder: Path) -> Build:
    return build(loaded("sgemm_axpby", folder), "sm_80", lines=False)


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


def test_a_launch_knows_its_stream(axpby: Build) -> None:
    """The current one is none that is there by default."""
    (asked,) = axpby.host(tensor(1 << 20, 4, 4), tensor(1 << 21, 4, 4), tensor(1 << 22, 4, 4), 1.0, 0.0)
    assert asked.stream == CURRENT_STREAM and CURRENT_STREAM not in DEFAULT_STREAMS


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


def test_source_lines_looked_up_once_are_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DSL that no longer has the name fails here: then compiling for the emulator takes twice as long."""
    from cutlass._mlir_helpers import op

    module = loaded("copy_tv", folder)
    quick = build(module, "sm_80").ptx
    names = ("_CO_POSITIONS", "_is_framework_stack_frame", "_fast_frameinfo", "_get_location_from_frame_info")
    before = [getattr(op, name) for name in names]
    with cached_line_tables():
        for name, function in zip(names, before, strict=True):
            assert getattr(op, name) is not function and callable(function)
    assert [getattr(op, name) for name in names] == before
    monkeypatch.setattr("cutegen.emulator.host.builds.cached_line_tables", nullcontext)
    assert build(module, "sm_80").ptx == quick and ".loc" in quick


def test_the_compilers_files_are_removed(folder: Path) -> None:
    import cutlass.cute as cute

    module = loaded("probe_tv", folder)
    keep = cute.KeepPTX()
    module.compile_for("sm_80", options=(keep,))
    written = Path(keep.full_ptx_path)
    assert written.exists()  # what the compiler does by itself
    written.unlink()
    build(module, "sm_80")
    assert not written.exists()


def test_run_a_module(folder: Path) -> None:
    module = loaded("add_tv", folder)
    a, b, c = arguments_of(module, M=37, N=132)
    reports = run(module, a, b, outputs={"c": c}, kernel="add_tv")
    assert torch.equal(c, a + b)
    assert [r.ok for r in reports] == [True] and reports[0].grid == (6, 1, 1) and reports[0].approximate == ()


def test_roles_are_held_to(tmp_path: Path) -> None:
    """Without them any tensor may be written, and none must be."""
    module = changed("add_naive", *BLOCK_TOO_FEW, tmp_path)
    tensors = arguments_of(module, M=30, N=50)
    emulated = install(module, "add_naive", ["sm_80"], lines=False)
    emulated(*map(on_device, tensors))
    assert emulated.reports[-1].ok
    for role, kind in (("out", "output-not-written"), ("in", "write-to-input")):
        for orders in (1, 3):
            held = Emulated(emulated.builds, emulated.names, {"c": role}, orders=orders)  # type: ignore[dict-item]
            with pytest.raises(FaultError) as caught:
                held(*map(on_device, tensors))
            assert (caught.value.fault.kind, caught.value.fault.tensor) == (kind, "c")
    with pytest.raises(ValueError, match="roles of C; the arguments are a, b, c"):
        run(module, *tensors[:2], outputs={"c": tensors[2]}, kernel="add_naive", roles={"C": "out"})


def test_the_executor_takes_roles_from_the_spec(tmp_path: Path) -> None:
    """Not from what a module says of itself."""
    plan = spec_of("add_naive").plan
    silent, count = re.subn(r'(def add_naive\((?:.*\n)*?    )"""[^"]*"""', r"\1pass", spec_of("add_naive").text)
    assert count == 1
    path = tmp_path / "add_naive.py"
    path.write_text(re.sub(*BLOCK_TOO_FEW, silent), encoding="utf-8")
    report = verify_case(plan, Case("here", "a test", {"M": 30, "N": 50}), load_module(path), EmulatorExecutor())
    assert report.status == "failed" and "fault[output-not-written]" in report.message


def test_targets_must_give_the_same(tmp_path: Path, folder: Path) -> None:
    made = loaded("add_naive", folder)
    other = changed("add_naive", r"result = a \+ b", "result = a - b", tmp_path)
    emulated = Emulated([build(made, "sm_80"), build(other, "sm_90a")], ["a", "b", "c"])
    arguments = [on_device(t) for t in arguments_of(made, M=3, N=5)]
    with pytest.raises(FaultError, match="the code for sm_90a gives another c than that for sm_80") as caught:
        emulated(*arguments)
    assert caught.value.fault.kind == "target-dependent"


def test_what_is_not_emulated_says_nothing_about_the_kernel(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the parser finds it as the module is compiled, or the machine as it is launched."""

    def refuse(*_: object, **__: object) -> None:
        raise UnsupportedInstruction("x.y", 3, "x.y %r1;")

    case = Case("here", "a test", {"M": 3, "N": 5})
    for where in ("builds.module_of", "emulated.launch"):
        with monkeypatch.context() as patch, pytest.raises(CannotRun, match="PTX line 3: x.y is not emulated"):
            patch.setattr(f"cutegen.emulator.host.{where}", refuse)
            verify_case(spec_of("add_naive").plan, case, loaded("add_naive", folder), EmulatorExecutor())


def test_the_public_function_checks_and_runs(folder: Path) -> None:
    module = loaded("add_naive", folder)
    emulated = install(module, "add_naive")
    a, b, c = arguments_of(module, M=30, N=50)
    result = call(module, "add_naive", list(map(on_device, (a, b, c))))
    assert torch.equal(c, a + b) and result.data_ptr() == c.data_ptr()
    with pytest.raises(TypeError, match="b: expected torch.float32 .* on cuda:0, got .* on cpu"):
        module.add_naive(on_device(a), b, c=on_device(c))
    with pytest.raises(ValueError, match="c: expected no overlap with"):
        call(module, "add_naive", list(map(on_device, (a, b, a))))
    with pytest.raises(TypeError, match="a: expected torch.float32 .*, got torch.float64"):
        call(module, "add_naive", list(map(on_device, (a.double(), b, c))))
    assert len(emulated.reports) == 1


def test_orders(folder: Path) -> None:
    for name, sizes, wanted in (("add_naive", {"M": 30, "N": 50}, [1, 4, 1]), ("probe_tv", {}, [1, 1, 1])):
        module = loaded(name, folder)
        emulated = install(module, name, ["sm_80"], lines=False)
        for orders in (1, 4, 1):
            emulated.orders = orders
            call(module, name, list(map(on_device, arguments_of(module, **sizes))))
        assert [r.orders for r in emulated.reports] == wanted  # a single warp has but one
        ran = run(
            module,
            *module.make_inputs(**sizes, device="cpu"),
            outputs=module.make_outputs(**sizes, device="cpu"),
            kernel=name,
            target="sm_80",
            seed=5,
            orders=2,
        )
        assert [(r.seed, r.orders) for r in ran] == [(5, 2 if name == "add_naive" else 1)]


def test_a_fault_is_no_refusal(tmp_path: Path) -> None:
    """Generated functions try the compiled function first and take its errors for wrong arguments: not these."""
    module = changed("probe_tv", r"block=\[THREADS, 1, 1\]", "block=[THREADS + 1, 1, 1]", tmp_path)
    install(module, "probe_tv")
    for _ in range(2):  # the first call loads, the second goes straight
        with pytest.raises(FaultError) as caught:
            call(module, "probe_tv", list(map(on_device, arguments_of(module))))
        assert caught.value.fault.kind == "out-of-bounds" and caught.value.fault.source_file == str(
            tmp_path / "probe_tv.py"
        )
        assert "mD[tidx" in caught.value.fault.source_text or "tDgA[" in caught.value.fault.source_text


def test_the_executor_verifies(folder: Path) -> None:
    executor = make_executor("cpu")
    assert isinstance(executor, EmulatorExecutor) and executor.element_limit
    module = spec_of("through_a_workspace")
    case = Case("here", "a test", {"M": 65, "N": 7, "K": 20}, "offset", "integers", 3)
    report = verify_case(module.plan, case, loaded("through_a_workspace", folder), executor)
    assert report.status == "passed" and report.elements == 455, report.message


# ------------------------------------------------------------------------------------------------ several launches


def test_a_call_of_two_kernels(folder: Path) -> None:
    module = loaded("through_a_workspace", folder)
    a, b, c = arguments_of(module, M=40, N=68, K=36)
    first, second = run(
        module, a, b, outputs={"c": c}, kernel="through_a_workspace", target="sm_80", roles={"c": "out"}
    )
    assert "workspace_B" in first.kernel and first.grid == (5, 2, 1) and second.grid == (2, 3, 1)
    torch.testing.assert_close(c, a @ b.T)


def test_each_kernel_is_given_what_its_parameters_name() -> None:
    """A workspace, and an output that several of them write, are written by all of them together."""

    def bound(name: str, at: int, role: str) -> BoundTensor:
        return BoundTensor(name, 0, (4,), (1,), 4, role, at)  # type: ignore[arg-type]

    def asked(*addresses: int) -> Launch:
        return Launch("k", (1, 1, 1), (32, 1, 1), 0, struct.pack(f"<{len(addresses)}Q", *addresses) + b"\1\2\3\4")

    a, c, space = bound("a", 1 << 40, "in"), bound("c", 2 << 40, "out"), bound(f"{WORKSPACE} 1", 3 << 40, "inout")
    emulated = Emulated([], ["a", "c"])

    def roles(*launches: Launch) -> list[dict[str, tuple[str, bool]]]:
        given, together = emulated._given(launches, [a, c, space])
        assert all(t.role == "inout" and t.name == "c" for t in together)
        return [{t.name: (t.role, t.unwritten is not None) for t in some} for some in given]

    workspace, alone, several = ("inout", True), ("out", False), ("inout", True)
    assert roles(asked(a.at, space.at), asked(space.at, c.at), asked(space.at, a.at)) == [
        {"a": ("in", False), space.name: workspace},
        {"c": alone, space.name: workspace},
        {"a": ("in", False), space.name: workspace},
    ]
    assert roles(asked(c.at), asked(c.at + 4, c.at)) == [{"c": several}, {"c": several}]
    assert roles(asked()) == [{"a": ("in", False), "c": alone, space.name: workspace}], "a single one is given all"


@pytest.mark.parametrize("launches", [0, 2])
def test_an_output_that_no_kernel_is_given_is_not_written(launches: int) -> None:
    c = BoundTensor("c", 0, (4,), (1,), 4, "out", 2 << 40)
    asked = [Launch("k", (1, 1, 1), (32, 1, 1), 0, b"\1\2\3\4")] * launches
    _, (unwritten,) = Emulated([], ["c"])._given(asked, [c])
    with pytest.raises(FaultError, match="4 of 4 elements of c .*: no kernel that the call launches is given c"):
        _check_whole(unwritten, "sm_80", given=False)


FILLED = r"    _fill_workspace_B\(.*"


def through_changed(pattern: str, text: str, folder: Path) -> Fault | None:
    """The problems of a product through a workspace, after a change of its module."""
    module = changed("through_a_workspace", pattern, text, folder)
    a, b, c = arguments_of(module, M=8, N=68, K=68)
    try:
        run(module, a, b, outputs={"c": c}, kernel="through_a_workspace", target="sm_80", roles={"c": "out"})
    except FaultError as caught:
        return caught.fault
    torch.testing.assert_close(c, a @ b.T)
    return None


@pytest.mark.parametrize(
    ("pattern", "text"), [(r"cutlass\.max\(deep, 1\)", "cutlass.max(deep - 1, 1)"), (FILLED, "    pass")]
)
def test_a_workspace_must_be_written_before_it_is_read(pattern: str, text: str, tmp_path: Path) -> None:
    fault = through_changed(pattern, text, tmp_path)
    assert fault is not None and fault.kind == "never-written"


def test_a_workspace_may_be_filled_again(tmp_path: Path) -> None:
    """It is neither an input nor an output."""
    assert through_changed(FILLED, r"\g<0>\n    \g<0>", tmp_path) is None
