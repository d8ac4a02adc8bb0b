"""The text of an op with a gradient, in every combination of what can be saved, has no name that is not there."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cutegen.autograd import gradients_of
from cutegen.codegen.environment import environment
from cutegen.codegen.formatting import WIDTH
from cutegen.codegen.regions import separate
from cutegen.codegen.torch_op import op_context
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.planning import make_plan, resolve
from cutegen.planning.report import Report

HEADER = """\
import importlib.util
import sys
from pathlib import Path

import torch


def {kernel}(*arguments) -> torch.Tensor:
    return arguments[0]


"""


def some(names: list[str]) -> list[list[str]]:
    """None of the names, the first, and all of them."""
    return [list(x) for x in dict.fromkeys(((), tuple(names[:1]), tuple(names)))]


def spec_text(kernel: str, tensors: dict[str, str], scalars: list[str], compute: list[str], torch: str) -> str:
    """A spec; tensors are `NAME: "out"`, or what else their declaration has."""
    lines = ["cutegen: 1", f"kernel: {kernel}", "op: elementwise", "tensors:"]
    lines += [f"  {name}: {{shape: [M, N], dtype: f32{more}}}" for name, more in tensors.items()]
    lines += [f"scalars: {{{', '.join(f'{name}: f32' for name in scalars)}}}"] if scalars else []
    return "\n".join([*lines, "compute:", *(f"  - {line}" for line in compute), f"torch: {torch}", ""])


def forward(kernel: str, inputs: list[str], outputs: list[str], scalars: list[str], backward: list[str]) -> str:
    terms = [*inputs, *scalars]
    tensors = dict.fromkeys(inputs, "") | dict.fromkeys(outputs, ", role: out")
    compute = [f"{name} = {' * '.join(terms[i % len(terms) :] or terms)}" for i, name in enumerate(outputs)]
    return spec_text(kernel, tensors, scalars, compute, f'{{op: "t::{kernel}", backward: [{", ".join(backward)}]}}')


def backward(kernel: str, reads: list[str], writes: list[str], scalars: list[str], more: str = "") -> str:
    tensors = {name: more if name.startswith("d") else "" for name in reads} | dict.fromkeys(writes, ", role: out")
    compute = [f"{name} = {' * '.join([*reads, *scalars])}" for name in writes]
    return spec_text(kernel, tensors, scalars, compute, f'{{op: "t::{kernel}"}}')


def printed(text: str, resolved: dict[str, KernelSpec]) -> str:
    """The op's part of a module; specs that differ only in their op are resolved once."""
    of, *beside = read_specs(text)
    gradients, problems = gradients_of(of, beside)
    assert not problems and gradients
    key = text.partition("torch:")[0].partition("tensors:")[2]
    if key not in resolved:
        resolved[key] = make_plan(resolve(of, Report(of.source))).spec
    spec = resolved[key]
    context = {"kernel": of.kernel, **op_context(spec, gradients)}
    context |= {"op": of.torch.op, "op_call": str(context["op_call"]).replace(spec.kernel, of.kernel)}
    body, _ = separate(environment(spec.family).get_template("module/torch_op.j2").render(context))
    return HEADER.format(kernel=of.kernel) + body


def combinations() -> Iterator[str]:
    """Specs of ops, each with those of their gradients."""
    inputs, scalars = ["X", "W"], ["eps", "rate"]
    written = itertools.cycle([[["dX"]], [["dX", "dW"]], [["dX"], ["dW"]]])
    for outputs in (["Y"], ["Y", "Z"]):
        for kept in itertools.product(some(inputs), some(outputs), some(scalars)):
            for differentiable in some(outputs):
                reads = [*kept[0], *kept[1], *(f"d{name}" for name in differentiable)]
                if not reads:
                    continue
                writes = next(written)
                names = [f"g{i}" for i in range(len(writes))]
                kernels = [backward(n, reads, w, kept[2]) for n, w in zip(names, writes, strict=True)]
                yield "---\n".join([forward("f", inputs, outputs, scalars, names), *kernels])
    # Kernels that read each something else, gradients whose rows they want aligned, long names, few and many
    half = [backward("g0", ["X", "dY"], ["dX"], ["eps"]), backward("g1", ["Z", "dZ"], ["dW"], [], ", align: 16")]
    yield "---\n".join([forward("f", inputs, ["Y", "Z"], scalars, ["g0", "g1"]), *half])
    long = [f"{letter}_a_tensor_with_a_long_name" for letter in "PQRST"]
    for count in (1, 3, 5):
        numbers = [f"a_scalar_with_a_long_name_{i}" for i in range(count)]
        reads = [*long[:count], "Y", "dY"]
        kernel = backward("g", reads, [f"d{name}" for name in long[:count]], numbers)
        yield f"{forward('f', long[:count], ['Y', 'Z'], numbers, ['g'])}---\n{kernel}"


def test_no_combination_of_what_is_saved_leaves_a_name_undefined(tmp_path: Path) -> None:
    resolved: dict[str, KernelSpec] = {}
    texts = list(dict.fromkeys(printed(text, resolved) for text in combinations()))
    assert len(texts) > 100
    for number, text in enumerate(texts):
        (tmp_path / f"op{number}.py").write_text(text, encoding="utf-8")
    for command in (("check",), ("format", "--check", "--diff")):
        options = ["--isolated", "--no-cache", "--config", f"line-length={WIDTH}"]
        arguments = [sys.executable, "-m", "ruff", *command, *options, "."]
        result = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]
