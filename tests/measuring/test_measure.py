"""Figures exist only for correct results on random data, with a cold cache and steady times."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring_kit import FakeWatch, Recording, elementwise, gemm, module_of, steady

from cutegen.codegen import Module, generate
from cutegen.language.reader import read_specs
from cutegen.measuring import contenders, measure
from cutegen.measuring.arguments import COLD, Arguments, bytes_of, make_arguments, sets_for
from cutegen.measuring.clock import MOST_LAUNCHES, Contender
from cutegen.measuring.host import host_times
from cutegen.measuring.limits import limit_us, work_of
from cutegen.measuring.measure import Bench, Refused, measure_shape
from cutegen.measuring.model import Failure, KernelResult, Limits, Machine, Measured, Request, Timing
from cutegen.verification.cases import strides_for

torch = pytest.importorskip("torch")
LIMITS = Limits(copy=4000.0, fill=5000.0, read=4500.0, fma=60.0)
SHAPE = {"M": 16, "N": 24}
GEMM_SHAPE = {"M": 8, "N": 16, "K": 24}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """torch's threads wait for each other in a busy loop, far longer than these tensors take."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def add(a: object, b: object, d: object) -> object:
    return torch.add(a, b, out=d)


def multiply(a: object, b: object, c: object) -> object:
    return torch.mm(a, b.T, out=c)


def request(module: Module, **more: object) -> Request:
    return replace(Request(module.plan, Path("work.py"), "0" * 64, (SHAPE,), rounds=8), **more)


def bench(watch: FakeWatch) -> Bench:
    """With an L2 that takes four sets of `SHAPE` to be cold."""
    return Bench(watch, "cpu", 1 << 12, LIMITS)


def measured(
    module: Module,
    function: Callable[..., object],
    watch: FakeWatch | None = None,
    shape: dict[str, int] | None = None,
    **more: object,
) -> tuple[Measured, list[Failure]]:
    watch = watch or FakeWatch(steady())
    return measure_shape(
        request(module, **more), module_of(function), shape or SHAPE, bench(watch), lambda kind, data: None
    )


def test_kernel_and_peer_are_timed_and_checked() -> None:
    watch = FakeWatch(steady(work=20.0, **{"torch.add": 30.0}))
    found, failures = measured(elementwise("D = A + B"), add, watch)
    assert failures == []
    assert found.timing == Timing(pytest.approx(20.0), pytest.approx(0, abs=1e-9), 8)
    assert list(found.peers) == ["torch.add"]
    assert found.against("torch.add") == pytest.approx(1.5)
    assert found.bytes == 3 * 16 * 24 * 4
    assert found.operations == 16 * 24
    assert found.gbs == pytest.approx(found.bytes / 20e-6 / 1e9)
    assert found.tflops == pytest.approx(found.operations / 20e-6 / 1e12)
    assert found.error and found.bound and found.ratio and found.error <= found.bound and 0 < found.ratio <= 1
    assert found.l2 == "cold"
    assert found.of_limit == pytest.approx(found.bytes / 4000e9 / 20e-6)


def test_both_layouts_of_cublas_are_timed() -> None:
    found, failures = measured(gemm(), multiply, shape=GEMM_SHAPE)
    assert failures == [] and list(found.peers) == ["cuBLAS", "cuBLAS best layout"]


def test_the_best_layout_is_the_fastest() -> None:
    class Layouts(FakeWatch):
        """A column-major output is fast."""

        def time(self, recordings):  # type: ignore[no-untyped-def]
            found = super().time(recordings)
            for i, recording in enumerate(recordings):
                result = next((c for c in recording.contender.calls if c.keywords or c.args), None)
                if recording.contender.name == "cuBLAS best layout" and result is not None:
                    results = result.func.__closure__
                    tensors = [cell.cell_contents for cell in results if isinstance(cell.cell_contents, list)]
                    (last,) = next(x for values in tensors for x in values if isinstance(x, tuple))
                    found[i] *= 0.5 if last.stride(0) == 1 else 2.0
            return found

    found, _ = measured(gemm(), multiply, Layouts(steady()), GEMM_SHAPE)
    assert found.peers["cuBLAS best layout"].us == pytest.approx(5.0)


def test_a_wrong_kernel_has_no_figure() -> None:
    def wrong(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
        torch.add(a, b, out=d)
        d[3, 5] += 0.5

    with pytest.raises(Refused, match=r"\[3, 5\] is") as refused:
        measured(elementwise("D = A + B"), wrong)
    assert refused.value.kind == "wrong"


def test_a_kernel_that_writes_nothing_is_wrong() -> None:
    """Its output holds what no right result holds, also after another contender ran."""
    with pytest.raises(Refused, match="wrong"):
        measured(elementwise("D = A + B"), lambda a, b, d: d)


def test_every_set_of_arguments_is_written() -> None:
    """A kernel that always writes to where it wrote at first."""
    first: list[torch.Tensor] = []

    def stuck(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
        first.append(d)
        torch.add(a, b, out=first[0])

    with pytest.raises(Refused, match="wrong"):
        measured(elementwise("D = A + B"), stuck)


def test_a_kernel_that_goes_wrong_while_it_is_timed_has_no_figure() -> None:
    calls = iter(range(10**9))

    def tiring(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
        torch.add(a, b, out=d)
        if next(calls) > 200:
            d.add_(1)

    with pytest.raises(Refused, match="after it was timed"):
        measured(elementwise("D = A + B"), tiring)


def test_a_kernel_that_raises_is_named() -> None:
    def broken(*args: object, **named: object) -> None:
        raise ValueError("a: expected strides")

    with pytest.raises(Refused, match="ValueError: a: expected strides") as refused:
        measured(elementwise("D = A + B"), broken)
    assert refused.value.kind == "cannot run"


def test_a_wide_spread_has_no_figure() -> None:
    noise = random.Random(0)
    watch = FakeWatch(lambda name, number: noise.uniform(10, 20) if name == "work" else 10.0)
    with pytest.raises(
        Refused, match=r"spread over 24 rounds is \d+\.\d% of the median, and 5% is let pass"
    ) as refused:
        measured(elementwise("D = A + B"), add, watch)
    assert refused.value.kind == "spread"


def test_a_peer_that_varies_is_named_and_left_out() -> None:
    noise = random.Random(0)
    watch = FakeWatch(lambda name, number: noise.uniform(10, 20) if name == "torch.add" else 10.0)
    found, failures = measured(elementwise("D = A + B"), add, watch)
    assert found.timing.us == pytest.approx(10.0) and not found.peers
    assert [(f.kind, f.what) for f in failures] == [("spread", "torch.add")]
    assert "5%" in found.absent["torch.add"]


TIRING = """\
calls = []
def other(a, b, d):
    calls.append(a)
    result = a + b
    if len(calls) > 50:
        result[0, 0] += 1
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def other(a, b, d):\n    d.copy_(a)\n", "the result is wrong: "),
        ("def other(a, b, d):\n    return 1\n", "gave int, not a tensor"),
        (f"{TIRING}    d.copy_(result)\n", "the result is wrong after it was timed: "),
        (f"{TIRING}    return result\n", "the result is wrong after it was timed: "),
    ],
)
def test_a_users_function_that_is_wrong_is_left_out_and_a_failure(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    place = f"{file}:other"
    found, failures = measured(elementwise("D = A + B"), add, vs=(place,))
    assert list(found.peers) == ["torch.add"]
    assert words in found.absent[place]
    assert failures == [Failure("wrong", place, SHAPE, found.absent[place])]


def test_a_users_function_that_cannot_run_is_named_and_left_out(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def other(a, b, d):\n    raise RuntimeError('no such kernel')\n")
    found, failures = measured(elementwise("D = A + B"), add, vs=(f"{file}:other",))
    assert failures == [] and list(found.peers) == ["torch.add"]
    assert found.absent == {f"{file}:other": "not available: RuntimeError: no such kernel"}


def test_a_peer_that_goes_wrong_while_it_is_timed_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(10**9))

    def tiring(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        return a + b if next(calls) < 50 else a - b

    def peer(wanted: object, plan: object, arguments: Arguments) -> Iterator[contenders.Candidate]:
        yield contenders.function("torch.add", tiring, arguments)

    monkeypatch.setattr(contenders, "peer", peer)
    found, failures = measured(elementwise("D = A + B"), add)
    assert not found.peers and failures == [] and found.timing.us == pytest.approx(10.0)
    assert found.absent["torch.add"].startswith("the result is wrong after it was timed: ")


def test_results_are_looked_at_where_their_recording_put_them() -> None:
    """A graph writes to the tensors that it was recorded with, and a later recording has others."""
    made: list[torch.Tensor] = []

    def fresh(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        made.append(a + b)
        return made[-1]

    class Graphs(FakeWatch):
        """The recording that is checked goes wrong when it runs for the second time."""

        def record(self, contender: Contender, launches: int, graph: bool = True) -> Recording:
            made.clear()
            for call in contender.calls:
                call()
            first, runs = not self.recorded, iter(range(10**9))

            def play(result: torch.Tensor, right: torch.Tensor) -> None:
                result.copy_(right + (1 if first and next(runs) >= len(contender.calls) else 0))

            calls = [partial(play, result, result.clone()) for result in made]
            for result in made:
                result.fill_(float("nan"))  # until it is replayed
            self.recorded.append(Recording(replace(contender, calls=calls), launches, graph))
            return self.recorded[-1]

    with pytest.raises(Refused, match="wrong after it was timed"):
        measured(elementwise("D = A + B"), fresh, Graphs(steady()), peers=False)


def test_a_peer_that_breaks_the_device_is_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "broken = []\ndef other(*given, **named):\n    broken.append(1)\n    raise RuntimeError('illegal address')\n"
    )
    imported: dict[str, Callable[..., object]] = {}

    class Fragile(FakeWatch):
        def time(self, recordings: Sequence[Recording]) -> list[float]:
            if any(vars(sys.modules[f.__module__])["broken"] for f in imported.values()):
                raise RuntimeError("the device is lost")
            return super().time(recordings)

    def keep(place: str) -> Callable[..., object]:
        imported[place] = contenders.imported(place)
        return imported[place]

    place = f"{file}:other"
    asked, module = request(elementwise("D = A + B"), vs=(place,)), module_of(add)
    with pytest.raises(Refused, match="broke the device: RuntimeError: illegal address") as refused:
        measure_shape(asked, module, SHAPE, replace(bench(Fragile(steady())), imported=keep), lambda kind, data: None)
    assert (refused.value.kind, refused.value.what) == ("crashed", place)


def test_a_users_file_runs_once_for_all_shapes(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("runs = open(__file__ + '.runs', 'a').write('x')\ndef other(a, b, d):\n    return a + b\n")
    asked, here, before = (
        request(elementwise("D = A + B"), vs=(f"{file}:other",)),
        bench(FakeWatch(steady())),
        sys.path[:],
    )
    for shape in (SHAPE, {"M": 8, "N": 8}, {"M": 4, "N": 16}):
        found, _ = measure_shape(asked, module_of(add), shape, here, lambda kind, data: None)
        assert not found.absent
    assert Path(f"{file}.runs").read_text() == "x"
    contenders.imported(f"{file}:other")
    assert sys.path == [str(tmp_path), *before], "its own imports come first, and once is enough"
    sys.path[:] = before


def test_a_users_function_may_write_or_return(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def writes(a, b, d):\n    d.copy_(a + b)\n\n\ndef returns(a, b, d):\n    return a + b\n")
    places = (f"{file}:writes", f"{file}:returns")
    found, _ = measured(elementwise("D = A + B"), add, vs=places, peers=False)
    assert tuple(found.peers) == places and not found.absent


def test_what_is_read_and_written_starts_from_the_same_values_each_time() -> None:
    """Else `C = A @ B.T + C` would grow with every launch, and its check would fail."""
    module = gemm("C = A @ B.T + C", role="inout")

    def function(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None:
        torch.addmm(c, a, b.T, out=c)

    found, failures = measured(module, function, shape=GEMM_SHAPE)
    assert failures == [] and list(found.peers) == ["cuBLAS", "cuBLAS best layout"] and not found.absent


def test_without_a_check_nothing_is_said_about_errors() -> None:
    found, _ = measured(elementwise("D = A + B"), lambda a, b, d: d, check=False, peers=False)
    assert (found.error, found.bound, found.ratio) == (None, None, None)


# arguments


@given(st.integers(1, 4096), st.integers(1, 4096), st.integers(1 << 10, 1 << 26))
def test_a_cold_rotation_is_larger_than_the_cache(m: int, n: int, l2_bytes: int) -> None:
    spec = elementwise("D = A + B").spec
    sizes = {"M": m, "N": n - n % spec.divisible.get("N", 1) or spec.divisible.get("N", 1)}
    sets, l2 = sets_for(spec, sizes, "cold", l2_bytes)
    assert 1 <= sets <= MOST_LAUNCHES
    if l2 == "cold":
        assert sets * bytes_of(spec, sizes) >= COLD * l2_bytes
        assert sets == 1 or (sets - 1) * bytes_of(spec, sizes) < COLD * l2_bytes, "and no larger than that takes"
    else:
        assert sets == 1 and MOST_LAUNCHES * bytes_of(spec, sizes) < COLD * l2_bytes
    assert sets_for(spec, sizes, "warm", l2_bytes) == (1, "warm")


def test_arguments_are_random_alike_in_all_sets_and_apart() -> None:
    spec = gemm("C = alpha * (A @ B.T) + C", "scalars: {alpha: f32}\n", "inout").spec
    arguments = make_arguments(spec, {"M": 64, "N": 48, "K": 40}, 3, "cpu")
    assert len({x.data_ptr() for tensors in arguments.sets for x in tensors}) == 9
    for tensor, first, *others in zip(spec.tensors, *arguments.sets, strict=True):
        assert first.stride() == strides_for(tensor, arguments.sizes, "compact")
        assert all(torch.equal(first, other) and first.stride() == other.stride() for other in others)
        assert abs(float(first.mean())) < 0.1 and abs(float(first.std()) - 1) < 0.1
        assert not torch.equal(first, first.round())
    a, b, c = arguments.sets[0]
    assert 0 < abs(arguments.scalars["alpha"]) < 1
    c.fill_(7)
    arguments.reset()
    assert torch.equal(c, arguments.sets[1][2])


def test_an_output_is_poisoned() -> None:
    arguments = make_arguments(elementwise("D = A").spec, SHAPE, 2, "cpu")
    before = arguments.sets[0][0].clone()
    arguments.poison()
    assert all(bool(d.isnan().all()) for _, d in arguments.sets)
    assert torch.equal(arguments.sets[0][0], before)


def test_rows_that_break_the_alignment_are_padded() -> None:
    refusing = "schedule: {copy: {fallback: refuse}}\n"
    spec = elementwise("D = A", refusing, A="{shape: [M, N], dtype: f32, align: 16}").spec
    assert spec.divisible.get("N", 1) == 4
    arguments = make_arguments(
        elementwise("D = A", "schedule: {copy: {bits: 32}}\n", A="{shape: [M, N], dtype: f32, align: 16}").spec,
        {"M": 3, "N": 5},
        1,
        "cpu",
    )
    assert arguments.sets[0][0].stride(0) % 4 == 0


# limits


def test_the_limit_is_the_slower_of_memory_and_arithmetic() -> None:
    copy, product = elementwise("D = A"), gemm()
    large, cube = {"M": 8192, "N": 8192}, {"M": 4096, "N": 4096, "K": 4096}
    assert limit_us(copy.plan, large, LIMITS, "cold", 1 << 20) == pytest.approx(8192**2 * 8 / 4000e9 * 1e6)
    assert limit_us(product.plan, cube, LIMITS, "cold", 1 << 20) == pytest.approx(2 * 4096**3 / 60e12 * 1e6)
    thin = {"M": 4096, "N": 4096, "K": 1}
    moved = (2 * 4096 + 4096**2) * 4
    assert work_of(product.plan, thin) == (moved, 2 * 4096**2)
    assert limit_us(product.plan, thin, LIMITS, "cold", 1 << 20) == pytest.approx(moved / 4000e9 * 1e6)


def test_a_limit_counts_only_where_it_holds() -> None:
    copy, large = elementwise("D = A"), {"M": 1024, "N": 1024}
    assert limit_us(copy.plan, large, LIMITS, "warm", 1 << 30) is None, "all of it may stay in the cache"
    assert limit_us(copy.plan, large, LIMITS, "warm", 1 << 20) == limit_us(copy.plan, large, LIMITS, "cold", 1 << 20)
    wide = elementwise("D = A * A", A="{shape: [M, N], dtype: f64}", D="{shape: [M, N], dtype: f64, role: out}")
    assert limit_us(wide.plan, large, LIMITS, "warm", 1 << 30) is None, "nothing was measured in f64"
    without = replace(LIMITS, fma=None)
    assert limit_us(gemm().plan, {"M": 64, "N": 64, "K": 64}, without, "cold", 1) == pytest.approx(
        3 * 64 * 64 * 4 / 4000e9 * 1e6
    )


def test_products_on_tensor_cores_take_what_the_data_sheet_says() -> None:
    """The larger of memory and products, by the operands' type; of a GPU that is not known memory alone."""
    cube, thin = {"M": 8192, "N": 8192, "K": 8192}, {"M": 8192, "N": 8192, "K": 8}
    memory = {}
    for dtype, atom, gpu, rate in (
        ("bf16", "wgmma", "NVIDIA H200", 989.5e12),
        ("f8e4m3", "wgmma", "NVIDIA H100 80GB HBM3", 1979e12),
        ("bf16", "mma_sync", "NVIDIA A100-SXM4-80GB", 312e12),
        ("f32", "mma_sync, operands: tf32", "NVIDIA A100-SXM4-80GB", 156e12),
    ):
        tensors = {"A": "[M, K]", "B": "[N, K]"}
        text = "cutegen: 1\nkernel: product\nop: gemm\ntensors:\n" + "".join(
            f"  {name}: {{shape: {shape}, dtype: {dtype}}}\n" for name, shape in tensors.items()
        )
        text += "  C: {shape: [M, N], dtype: f32, role: out}\ncompute: C = A @ B.T\n"
        text += f"schedule: {{mma: {{atom: {atom}}}}}\n"
        plan = generate(text, "specs/x.yaml").modules[0].plan
        assert limit_us(plan, cube, LIMITS, "cold", 1, gpu) == pytest.approx(2 * 8192**3 / rate * 1e6)
        assert limit_us(plan, cube, LIMITS, "warm", 1 << 40, gpu) == limit_us(plan, cube, LIMITS, "cold", 1, gpu)
        memory[atom] = limit_us(plan, cube, LIMITS, "cold", 1, "a GPU")
        assert limit_us(plan, thin, LIMITS, "cold", 1, gpu) == limit_us(plan, thin, LIMITS, "cold", 1, "a GPU")
    assert all(memory.values())
    assert limit_us(gemm().plan, cube, LIMITS, "cold", 1, "NVIDIA H200") == limit_us(
        gemm().plan, cube, LIMITS, "cold", 1
    )


# host time


def test_host_time_is_the_cpus_for_one_call() -> None:
    clock = iter(range(10**6))
    module = elementwise("D = A + B")
    waits: list[int] = []
    found = host_times(module.plan, module_of(add), "cpu", lambda: waits.append(1), lambda: next(clock) * 1e-3)
    assert set(found) == {"call", "compiled", "torch.add"}
    assert all(timing.us == pytest.approx(10.0) for timing in found.values()), "a millisecond for 100 calls"
    assert len(waits) == 3 * (50 + 5) + 1


def test_the_compiled_function_is_timed_with_its_workspaces() -> None:
    module = gemm(more="schedule: {workspace: {B: {major: N}}}")
    given: list[int] = []

    def work(a: object, b: object, c: object, *spaces: object) -> None:
        given.append(len(spaces))

    made = module_of(work)
    vars(made)["_arguments"] = lambda a, b, c: (a, b, c, b.clone())
    host_times(module.plan, made, "cpu", lambda: None)
    assert set(given) == {0, 1} and given[:2] == [0, 0], "the generated function makes them itself"


# data


def test_results_survive_their_json() -> None:
    import json

    timing = Timing(1.5, 0.01, 30)
    one = Measured(SHAPE, timing, {"x": timing}, {"y": "why"}, 1, 2, None, "cold", 0.0, 0.1, 0.2)
    failure = Failure("spread", "work", SHAPE, "wide")
    result = KernelResult("work", "ab", (one,), (failure,), {"call": timing})
    assert KernelResult.from_json(json.loads(json.dumps(result.as_json()))) == result
    assert not result.ok and replace(result, failures=()).ok
    machine = Machine("G", "9.0", "580", {"torch": "2"}, 132, 1, 2, {"sm": 3}, LIMITS)
    assert Machine.from_json(json.loads(json.dumps(machine.as_json()))) == machine
    bare = replace(machine, limits=None)
    assert Machine.from_json(json.loads(json.dumps(bare.as_json()))) == bare


def test_a_request_travels() -> None:
    import pickle

    for module in (elementwise("D = A + B"), gemm()):
        sent = request(module)
        assert pickle.loads(pickle.dumps(sent)) == sent


def test_the_kernel_is_called_as_users_call_it() -> None:
    seen: list[tuple[object, ...]] = []
    module = gemm("C = alpha * (A @ B.T)", "scalars: {alpha: f32}\n")
    arguments = make_arguments(module.spec, GEMM_SHAPE, 1, "cpu")
    work = module_of(lambda *places, c: seen.append((*places, c)))
    contenders.kernel("work", work, arguments).contender.calls[0]()
    a, b, alpha, c = seen[0]
    assert (a, b, c) == arguments.sets[0] and alpha == 0.75


def test_results_at_places_are_compared_there() -> None:
    """Of an output that is written at places the elements there are judged, and no others."""
    text = "cutegen: 1\nkernel: append\nop: elementwise\ntensors:\n  K: {shape: [T, D], dtype: f32}\n"
    text += "  slots: {shape: [T], dtype: i64}\n  cache: {shape: [S, D], dtype: f32, role: out, at: {S: slots}}\n"
    (spec,) = read_specs(text + "compute: cache = K\n", "specs/append.yaml")
    arguments = make_arguments(spec, {"T": 4, "S": 9, "D": 3}, 1, "cpu")
    given, reference = arguments.named(0), measure._reference(arguments)
    right = given["cache"].index_put((given["slots"],), given["K"])
    assert reference.judge([right]).ok
    assert not reference.judge([right.roll(1, 0)]).ok


@pytest.mark.parametrize("inplace", [True, False])
def test_torch_writes_at_the_same_places(inplace: bool) -> None:
    """The expression that is timed beside a scatter leaves the rest of the output as it is."""
    text = "cutegen: 1\nkernel: append\nop: elementwise\ntensors:\n  K: {shape: [T, D], dtype: f32}\n"
    text += "  slots: {shape: [T], dtype: i64}\n  cache: {shape: [S, D], dtype: f32, role: out, at: {S: slots}}\n"
    (module,) = generate(text + "compute: cache = K * 2\n", "specs/append.yaml").modules
    arguments = make_arguments(module.spec, {"T": 4, "S": 9, "D": 3}, 1, "cpu")
    places, named = arguments.call(0)
    given, before = arguments.named(0), arguments.named(0)["cache"].clone()
    contenders.expression(module.plan, inplace=inplace)(*places, **named)
    assert given["cache"].equal(before.index_put((given["slots"],), given["K"] * 2))
