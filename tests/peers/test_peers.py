"""Peers follow from the expression, and each of them computes what the spec says."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from measuring_kit import FakeWatch, called, elementwise, f8_gemm, gemm, steady

from cutegen.codegen import Module, generate
from cutegen.measuring import contenders
from cutegen.measuring.arguments import make_arguments
from cutegen.measuring.measure import Reference
from cutegen.peers.peers import Product, Scaled, choose, product_of, rounds_between, scaled_of
from cutegen.reference.bounds import evaluate
from cutegen.verification.compare import compare

torch = pytest.importorskip("torch")

HALF = "{shape: [M, N], dtype: bf16}"
OUT_HALF = "{shape: [M, N], dtype: bf16, role: out}"
SCALAR = "scalars: {alpha: f32, beta: f32}\n"
KERNELS = {
    "copy": (lambda: elementwise("D = A"), ["torch copy_"]),
    "convert": (lambda: elementwise("D = A", D=OUT_HALF), ["torch copy_"]),
    "add": (lambda: elementwise("D = A + B"), ["torch.add"]),
    "sub": (lambda: elementwise("D = B - A"), ["torch.sub"]),
    "mul": (lambda: elementwise("D = A * A"), ["torch.mul"]),
    "div": (lambda: elementwise("D = A / B"), ["torch.div"]),
    "bias": (lambda: elementwise("D = A + B", B="{shape: [N], dtype: f32}"), ["torch.compile", "torch eager"]),
    "narrow add": (lambda: elementwise("D = A + B", A=HALF), ["torch.compile", "torch eager"]),
    "axpby": (lambda: elementwise("D = alpha * A + beta * B", SCALAR), ["torch.compile", "torch eager"]),
    "clamp": (lambda: elementwise("D = minimum(maximum(A, 0.0), 1.5)"), ["torch.compile", "torch eager"]),
    "gelu": (lambda: elementwise("D = gelu(A) * B", A=HALF, D=OUT_HALF), ["torch.compile", "torch eager"]),
    "compare": (
        lambda: elementwise("D = A < B", D="{shape: [M, N], dtype: bool, role: out}"),
        ["torch.compile", "torch eager"],
    ),
    "broadcast": (
        lambda: elementwise("D = B", B="{shape: [N], dtype: f32}"),
        ["torch.compile", "torch eager"],
    ),
    "accumulate": (
        lambda: elementwise("D = D + A", D="{shape: [M, N], dtype: f32, role: inout}"),
        ["torch.add"],
    ),
    "gemm": (lambda: gemm(), ["cuBLAS", "cuBLAS best layout"]),
    "scaled gemm": (
        lambda: gemm("C = alpha * (A @ B.T) + beta * C", SCALAR, "inout"),
        ["cuBLAS", "cuBLAS best layout"],
    ),
    "gemm epilogue": (lambda: gemm("C = relu(A @ B.T)"), ["cuBLAS, then torch", "torch.compile"]),
    "narrow gemm": (lambda: gemm("C = cast(A @ B.T, bf16)", dtype="bf16"), ["cuBLAS, then torch", "torch.compile"]),
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """torch's threads wait for each other in a busy loop, far longer than these tensors take."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("make", "names"), KERNELS.values(), ids=KERNELS)
def test_the_peers_of_an_expression(make: Callable[[], Module], names: list[str]) -> None:
    assert [peer.name for peer in choose(make().spec)] == names


@pytest.mark.parametrize("sets", [1, 3])
@pytest.mark.parametrize(("make", "names"), KERNELS.values(), ids=KERNELS)
def test_every_peer_computes_what_the_spec_says(make: Callable[[], Module], names: list[str], sets: int) -> None:
    """Against the float64 reference, on every set; twice, as a recording does."""
    module = make()
    spec = module.spec
    sizes = dict(zip(spec.modes, (12, 20, 28), strict=False))
    arguments = make_arguments(spec, sizes, sets, "cpu")
    ((expected, bound, *_),) = evaluate(spec, arguments.named(0), arguments.scalars).values()
    watch = FakeWatch(steady())
    for peer in choose(spec):
        if peer.kind == "compile":
            continue  # see below
        candidates = list(contenders.peer(peer, module.plan, arguments))
        assert len(candidates) == (8 if peer.kind == "cublas best" else 1)
        for candidate in candidates:
            assert candidate.name == peer.name
            contender = contenders.Contender(candidate.name, candidate.contender.calls, candidate.poison)
            recording = watch.record(contender, sets)
            watch.time([recording, recording])
            for results in candidate.results:
                assert results is not None
                (result,) = results
                found = compare(result, expected, bound)
                assert found.ok, f"{peer.name}: {found.reason}"
                assert result.dtype is arguments.sets[0][arguments.output].dtype


@pytest.mark.parametrize("name", ["axpby", "gelu", "bias", "broadcast", "accumulate", "gemm epilogue", "narrow gemm"])
def test_the_expression_that_is_compiled_writes_the_output(name: str) -> None:
    """The argument of `torch.compile`, without its compiler."""
    module = KERNELS[name][0]()
    spec = module.spec
    arguments = make_arguments(spec, dict(zip(spec.modes, (12, 20, 28), strict=False)), 1, "cpu")
    ((expected, bound, *_),) = evaluate(spec, arguments.named(0), arguments.scalars).values()
    arguments.poison()
    output = arguments.sets[0][arguments.output]
    result = called(contenders.expression(module.plan, inplace=True), arguments)
    assert result is output
    assert compare(output, expected, bound).ok


@pytest.mark.parametrize("name", ["axpby", "clamp", "bias", "gemm epilogue"])
def test_the_expression_can_be_compiled_whole(name: str) -> None:
    """With torch's tracer, but without its code generator, which takes a minute on a CPU."""
    module = KERNELS[name][0]()
    spec = module.spec
    arguments = make_arguments(spec, dict(zip(spec.modes, (12, 20, 28), strict=False)), 2, "cpu")
    ((expected, bound, *_),) = evaluate(spec, arguments.named(0), arguments.scalars).values()
    tracer = functools.partial(torch.compile, dynamic=False, fullgraph=True, backend="aot_eager")
    function = contenders.expression(module.plan, inplace=True, through=tracer)
    arguments.poison()
    for number in range(2):
        called(function, arguments, number)
        assert compare(arguments.sets[number][arguments.output], expected, bound).ok


@pytest.mark.parametrize("inplace", [False, True])
def test_constants_are_made_once(inplace: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CUDA graph cannot hold the copy of a constant from the host."""
    module = elementwise("D = minimum(alpha * A, 1.0)", "scalars: {alpha: f32}\n")
    arguments = make_arguments(module.spec, {"M": 4, "N": 4}, 1, "cpu")
    seen: list[tuple[object, ...]] = []

    def through(function: Callable[..., object]) -> Callable[..., object]:
        def noted(*given: object) -> object:
            seen.append(given)
            return function(*given)

        return noted

    function = contenders.expression(module.plan, inplace=inplace, through=through)
    called(function, arguments)

    def copied(*given: object, **more: object) -> None:
        raise AssertionError("a constant is made again")

    monkeypatch.setattr(torch, "tensor", copied)
    called(function, arguments)
    assert all(isinstance(x, torch.Tensor) for given in seen for x in given), "a compiler sees tensors only"
    assert [float(x) for x in seen[0][2:]] == [0.75, 1.0]
    assert all(x is y for x, y in zip(*seen, strict=True))


def test_fresh_results_of_a_rotation_lie_in_memory_of_their_own() -> None:
    """One that reused the memory of the last would find it in the cache."""
    module = elementwise("D = A * A + B")
    arguments = make_arguments(module.spec, {"M": 64, "N": 64}, 4, "cpu")
    (candidate,) = contenders.peer(choose(module.spec)[1], module.plan, arguments)
    for _ in range(2):
        for call in candidate.contender.calls:
            call()
    assert len({results[0].data_ptr() for results in candidate.results if results is not None}) == 4


@pytest.mark.parametrize(
    ("compute", "role", "product"),
    [
        ("C = A @ B.T", "out", Product(1.0)),
        ("C = 2.0 * (A @ B.T)", "out", Product(2.0)),
        ("C = -(A @ B.T)", "out", Product(-1.0)),
        ("C = (A @ B.T) * alpha * 3.0", "out", Product(1.5)),
        ("C = A @ B.T + C", "inout", Product(1.0, 1.0, "C")),
        ("C = A @ B.T - 2 * C", "inout", Product(1.0, -2.0, "C")),
        ("C = -(alpha * (A @ B.T) - C)", "inout", Product(-0.5, 1.0, "C")),
        ("C = A @ B.T + C + C", "inout", None),
        ("C = A @ B.T + 1.0", "out", None),
        ("C = A @ B.T * C", "inout", None),
        ("C = relu(A @ B.T)", "out", None),
        ("C = (A @ B.T) / 2.0", "out", None),
    ],
)
def test_what_one_call_of_cublas_computes(compute: str, role: str, product: Product | None) -> None:
    more = "scalars: {alpha: f32}\n" if "alpha" in compute else ""
    assert product_of(gemm(compute, more, role).spec, {"alpha": 0.5} if more else {}) == product


F8 = {
    "C = (A @ B.T) * R * V": Scaled(1.0, "R", "V"),
    "C = R * (A @ B.T)": Scaled(1.0, "R"),
    "C = 2 * ((A @ B.T) * V)": Scaled(2.0, None, "V"),
    "C = alpha * (A @ B.T) * beta": Scaled(0.75 * 0.375),
    "C = A @ B.T": Scaled(),
    "C = (A @ B.T) * R * V * alpha": None,
    "C = (A @ B.T) * R * R": None,
    "C = (A @ B.T) * R + V": None,
    "C = relu((A @ B.T) * alpha)": None,
}


@pytest.mark.parametrize("compute", F8)
def test_operands_of_8_bits_are_multiplied_and_scaled_in_one_call(compute: str) -> None:
    """By torch's implementation for CPUs here, which sums in f32; what it does not compute whole, torch does around."""
    scalars = [name for name in ("alpha", "beta") if name in compute]
    more = f"scalars: {{{', '.join(f'{name}: f32' for name in scalars)}}}\n" if scalars else ""
    c, b = ("f32", "f8e5m2") if compute == "C = A @ B.T" else ("bf16", "f8e4m3")
    module = f8_gemm(compute, more, c, b)
    arguments = make_arguments(module.spec, {"M": 16, "N": 48, "K": 32}, 2, "cpu")
    assert scaled_of(module.spec, arguments.scalars) == F8[compute]
    ((expected, bound, *_),) = evaluate(module.spec, arguments.named(0), arguments.scalars).values()
    names = ["cuBLAS, then torch", "torch.compile"] if F8[compute] is None else ["torch._scaled_mm"]
    peers = choose(module.spec)
    assert [peer.name for peer in peers] == names
    (candidate,) = contenders.peer(peers[0], module.plan, arguments)
    for results, call in zip(candidate.results, candidate.contender.calls, strict=True):
        assert results is None
        call()
    for results in candidate.results:
        assert results is not None and compare(results[0], expected, bound).ok
        assert results[0].dtype is getattr(torch, {"f32": "float32", "bf16": "bfloat16"}[c])
    inplace = called(contenders.expression(module.plan, inplace=True), arguments)
    assert isinstance(inplace, torch.Tensor) and compare(inplace, expected, bound).ok


def test_a_probe_has_no_peers() -> None:
    from measuring_kit import made

    spec = made(
        "cutegen: 1\nkernel: p\nop: probe\ntensors:\n  A: {shape: [M], dtype: i32}\n"
        "  D: {shape: [T, V], dtype: i32, role: out}\ncompute: D = A\n"
        "schedule: {tv_layout: '(2,3):(3,1)', tiler: {M: 6}}\n"
    ).spec
    assert choose(spec) == ()


def test_functions_of_the_user_are_found(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("FACTOR = 3\n")
    file = tmp_path / "mine.py"
    file.write_text("from beside import FACTOR\ndef triple(a, d):\n    d.copy_(FACTOR * a)\n")
    triple = contenders.imported(f"{file}:triple")
    d = torch.zeros(2)
    triple(torch.ones(2), d)
    assert d.tolist() == [3, 3]
    assert contenders.imported("math:sqrt")(4) == 2


@pytest.mark.parametrize(
    "place", ["math", "math:", ":sqrt", "math:pi", "math:nothing", "no_such_module_here:f", "no.py:f"]
)
def test_functions_that_are_not_there_are_named(place: str) -> None:
    with pytest.raises(
        ValueError, match=re.escape(place if place in ("math", "math:", ":sqrt") else place.split(":")[0])
    ):
        contenders.imported(place)


@pytest.mark.parametrize(
    ("compute", "more", "rounds"),
    [
        ("A @ B.T", "", {"cuBLAS": False, "cuBLAS best layout": False}),
        ("A @ B.T + D", "  D: {shape: [M, N], dtype: f32}\n", {"cuBLAS": True, "cuBLAS best layout": True}),
        ("relu(A @ B.T)", "", {"cuBLAS, then torch": True, "torch.compile": True}),
    ],
)
def test_a_peer_that_rounds_the_product_before_the_rest_has_room_for_that(
    compute: str, more: str, rounds: dict[str, bool]
) -> None:
    text = f"""\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {{shape: [M, K], dtype: f32}}
  B: {{shape: [N, K], dtype: f32}}
  C: {{shape: [M, N], dtype: f32, role: out}}
{more}compute: C = {compute}
"""
    (module,) = generate(text, "specs/x.yaml").modules
    found = {peer.name: rounds_between(peer, module.spec, {}) for peer in choose(module.spec)}
    assert {name: found[name] for name in rounds} == rounds


def test_room_for_roundings_is_that_of_the_types_that_are_rounded_to() -> None:
    """A whole number may be the next one, and a truth another; factors of 8 bits give no room."""
    text = """\
cutegen: 1
kernel: mm
op: gemm
tensors:
  A: {shape: [M, K], dtype: f8e5m2}
  B: {shape: [N, K], dtype: f8e4m3}
  C: {shape: [M, N], dtype: bf16, role: out}
  Q: {shape: [M, N], dtype: i8, role: out}
  P: {shape: [M, N], dtype: bool, role: out}
compute: ["x = A @ B.T", "C = x", "Q = cast(x, i8)", "P = x > 0"]
schedule: {mma: {atom: wgmma}}
"""
    (module,) = generate(text, "specs/x.yaml").modules
    arguments = make_arguments(module.spec, {"M": 16, "N": 16, "K": 32}, 1, "cpu")
    expected = evaluate(module.spec, arguments.named(0), arguments.scalars)
    reference = Reference(expected).for_peer(module.spec)
    values = [wanted.value.double() for wanted in expected.values()]
    c, q = values[0].to(torch.bfloat16), values[1].round().to(torch.int8)
    truth = values[2].bool()
    assert reference.judge([c, q, truth]).ok and reference.judge([c * 1.01, q + 1, ~truth]).ok
    assert not reference.judge([c * 1.2, q, truth]).ok and not reference.judge([c, q + 20, truth]).ok


BLOCKS = """\
cutegen: 1
kernel: scaled
op: gemm
tensors:
  A: {shape: [M, K], dtype: f8e4m3}
  B: {shape: [N, K], dtype: f8e4m3}
  sA: {shape: [M, KB], dtype: f32, major: M}
  sB: {shape: [NB, KB], dtype: f32}
  C: {shape: [M, N], dtype: bf16, role: out}
modes:
  KB: {blocks: K, size: 128}
  NB: {blocks: N, size: 128}
compute: C = (A * sA) @ (B * sB).T
schedule: {mma: {atom: wgmma}}
"""


@pytest.mark.parametrize(
    ("old", "new", "scaled"),
    [
        ("", "", Scaled(1.0, "sA", "sB", blocks=True)),
        ("(B * sB).T", "(B * sB).T + 1", None),
        ("size: 128", "size: 64", None),  # of which torch knows nothing
        (", major: M", "", None),
    ],
)
def test_scales_of_blocks_are_those_of_one_call_of_torch(old: str, new: str, scaled: Scaled | None) -> None:
    spec = generate(BLOCKS.replace(old, new), "specs/x.yaml").modules[0].spec
    assert scaled_of(spec, {}) == scaled
    assert product_of(spec, {}) is None
    assert [peer.name for peer in choose(spec)][:1] == ["cuBLAS, then torch" if scaled is None else "torch._scaled_mm"]
