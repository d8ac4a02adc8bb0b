"""Everything that the op of a module does is broken once, in the text of the module, and a check of the op says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import pytest
from op_specs import ALIGNED, BATCH, CHAIN, LOSS, NORM, PRODUCT, SCATTER, SEVERAL, SOFTMAX, SPREAD, STEP

from cutegen.codegen import Module, generate
from cutegen.hostchecks import checks as host_checks_module
from cutegen.hostchecks import op_gradients, ops, sizes
from cutegen.hostchecks.judging import Check, Host, NotRun
from cutegen.language.model import KernelSpec
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.report import KernelReport
from cutegen.verification.scalars import scalar_values
from cutegen.verification.tensors import make_tensors

pytest.importorskip("cutlass")

TEXTS = {
    "softmax": SOFTMAX,
    "chain": CHAIN,
    "norm": NORM,
    "product": PRODUCT,
    "several": SEVERAL,
    "step": STEP,
    "spread": SPREAD,
    "scatter": SCATTER,
    "aligned": ALIGNED,
    "batch": BATCH,
    "loss": LOSS,  # whose gradient is one only where some coordinate is the target
}
RESULTS, FAKES, AUTOCAST, GRADIENT = ": its results", "without data", "autocast", "its gradient"
REFUSED, SCHEMA = "does not take", "its schema"
DOES = r'("""The op on a GPU."""\n)'
TELLS = r'(def _fake_op\(.*?""".*?"""\n)'
CASTS = r'(def _autocast_op\(.*?""".*?"""\n)'
SAVES = r'("""Saves the tensors that the gradient reads."""\n)'
RETURNS = r"(    return )(d[^\n]*\n)(?=\n\n(?:def|\Z))"
MUTANTS = [
    # op, what is broken, pattern, text, which check says so
    ("norm", "a scalar is ignored", DOES, r"\1    eps = 1e-5\n", RESULTS),
    ("product", "scalars are swapped", DOES, r"\1    rate, more = more, rate\n", RESULTS),
    ("product", "inputs are swapped", DOES, r"\1    a, b = b, a\n", RESULTS),
    ("step", "a whole number is ignored", DOES, r"\1    steps = 1\n", RESULTS),
    ("step", "what is to be written is copied", DOES, r"\1    p = p.clone()\n", RESULTS),
    ("step", "what is only read is written", DOES, r"\1    g.mul_(2)\n", RESULTS),
    ("spread", "an output of the caller is copied", DOES, r"\1    y = y.clone()\n", RESULTS),
    ("scatter", "an output at places is copied", DOES, r"\1    y = y.clone()\n", RESULTS),
    ("scatter", "what is at other places is written", DOES, r"\1    y.zero_()\n", RESULTS),
    ("spread", "a scalar is ignored", DOES, r"\1    rate = 1.0\n", RESULTS),
    ("norm", "an output is converted", r"(?<=return )op_norm\([^\n]*", "x.float(), x[:, 0]", RESULTS),
    ("norm", "a scalar of 0 is another one", DOES, r"\1    eps = eps or 1e-5\n", RESULTS),
    ("spread", "what has odd strides is copied", DOES, r"\1    y = y if y.stride(0) else y.clone()\n", RESULTS),
    ("norm", "strides are mended by copies", DOES, r"\1    x = x.contiguous()\n", REFUSED),
    ("softmax", "a type is mended by a copy", DOES, r"\1    x = x.to(torch.bfloat16)\n", REFUSED),
    ("softmax", "fakes of more rows", r"(def _fake_op.*?)x.shape\[0\]", r"\1x.shape[0] + 1", FAKES),
    ("softmax", "fakes of another type", r"(def _fake_op.*?)torch.bfloat16", r"\1torch.float32", FAKES),
    (
        "softmax",
        "fakes of other strides",
        r"(def _fake_op.*?)(    return y\n)",
        r"\1    y = y.mT.contiguous().mT\n\2",
        FAKES,
    ),
    (
        "batch",
        "fakes with the strides of an input",
        r"(def _fake_op.*?)torch.empty\([^\n]*",
        r"\1torch.empty_like(x)",
        FAKES,
    ),
    ("step", "fakes without padding", r"(def _fake_op.*?)(    return q\n)", r"\1    q = q.contiguous()\n\2", FAKES),
    ("norm", "fakes of fixed rows", r"(def _fake_op.*?)x.shape\[0\]", r"\g<1>3", FAKES),
    ("norm", "fakes of the rows of one call", r"(def _fake_op.*?)x.shape\[0\]", r"\1int(x.shape[0])", FAKES),
    ("norm", "a cast by way of fewer bits", r"w.to\(torch.float32\)", "w.bfloat16().float()", AUTOCAST),
    ("step", "what is written is cast", r"\.step\(p,", ".step(p.to(torch.float32),", AUTOCAST),
    ("softmax", "no cast", r"x.to\(torch.bfloat16\)", "x", AUTOCAST),
    ("norm", "the cast of one is left out", r"w.to\(torch.float32\)", "w", AUTOCAST),
    ("norm", "a scalar is lost under autocast", CASTS, r"\1    eps = 1e-5\n", AUTOCAST),
    ("product", "inputs are swapped under autocast", CASTS, r"\1    a, b = b, a\n", AUTOCAST),
    ("step", "what is written is copied under autocast", CASTS, r"\1    p = p.clone()\n", AUTOCAST),
    ("softmax", "no autocast", r'    library.impl\(name, _autocast_op, "AutocastCUDA"\)\n', "", AUTOCAST),
    ("softmax", "what is saved has no name", r"    y = output\n", "", GRADIENT),
    ("softmax", "an input is saved for an output", r"save_for_backward\(y\)", "save_for_backward(inputs[0])", GRADIENT),
    ("product", "inputs are saved in another order", r"save_for_backward\(a, b\)", "save_for_backward(b, a)", GRADIENT),
    ("product", "gradients are swapped", RETURNS, r"\1db, da, None, None\n", GRADIENT),
    ("product", "a gradient is scaled", RETURNS, r"\1da, 2 * db, None, None\n", GRADIENT),
    ("product", "a gradient is left out", RETURNS, r"\1da, None, None, None\n", GRADIENT),
    ("product", "a gradient is detached from its input", RETURNS, r"\1da, da * 0, None, None\n", GRADIENT),
    ("product", "a scalar is not kept", r"ctx.numbers = rate, more", "ctx.numbers = rate, 1.0", GRADIENT),
    ("product", "scalars are read in another order", r"rate, more = ctx.numbers", "more, rate = ctx.numbers", GRADIENT),
    (
        "softmax",
        "what is saved is not looked after",
        r"ctx.save_for_backward\(y\)(.*?)\(y,\) = ctx.saved_tensors",
        r"ctx.y = y\1y = ctx.y",
        GRADIENT,
    ),
    ("product", "what is saved is copied", r"backward\(a, b\)", "backward(a.clone(), b)", GRADIENT),
    (
        "product",
        "what is saved is overwritten",
        r"(    rate, more = ctx.numbers\n)",
        r"\1    a.data.mul_(2)\n",
        GRADIENT,
    ),
    ("product", "an input is overwritten", SAVES, r"\1    inputs[0].data.zero_()\n", GRADIENT),
    ("softmax", "strides are not looked at", r"dy.contiguous\(\)", "dy", GRADIENT),
    ("softmax", "strides are ignored", r"dy.contiguous\(\)", "dy.mT.contiguous().view(dy.shape)", GRADIENT),
    (
        "product",
        "what is spread out is read as if it was not",
        r"dy.contiguous\(\)",
        "(dy if dy.is_contiguous() else torch.empty_like(dy, memory_format=torch.contiguous_format))",
        GRADIENT,
    ),
    ("chain", "a value that is passed on is another", r"(    delta = [^\n]*)", r"\1 * 1.5", GRADIENT),
    (
        "chain",
        "a value is of what arrives alone",
        r"_delta\(dy.contiguous\(\), y\)",
        "_delta(dy.contiguous(), dy.contiguous())",
        GRADIENT,
    ),
    ("aligned", "rows that arrive are not aligned", r"_aligned_rows\(dy, 8\)", "dy.contiguous()", GRADIENT),
    ("aligned", "rows that are saved are not aligned", r"_aligned_rows\(x, 4\)", "x", GRADIENT),
    ("aligned", "a copy without its values", r"    return rows.copy_\(x\)", "    return rows.zero_()", GRADIENT),
    ("aligned", "where rows start is not looked at", r" and x.storage_offset\(\) % unit == 0", "", GRADIENT),
    ("softmax", "the gradient is not told", r"    torch.library.register_autograd\(.*?\)\n", "", GRADIENT),
    ("softmax", "the module of the gradient is not imported", r"    _import_gradient\(\)\n", "", GRADIENT),
    ("norm", "what has no gradient seems to have one", r"    ctx.mark_non_differentiable\(rstd\)\n", "", GRADIENT),
    ("several", "None for outputs that are not used", SAVES, r"\1    ctx.set_materialize_grads(False)\n", GRADIENT),
    ("several", "None in another place", RETURNS, r"\1dx, dw, None, None, None\n", GRADIENT),
    ("several", "what arrives for one is that for the other", r"dz.contiguous\(\)", "dy.bfloat16()", GRADIENT),
    ("several", "an output alone counts", r"def _gradient\(ctx, _s, dy, dz", "def _gradient(ctx, _s, dz, dy", GRADIENT),
    ("several", "results in another order", r"    s, y, _z = output\n", "    y, _z, s = output\n", GRADIENT),
    ("product", "a scalar loses its sign", r"ctx.numbers = rate", "ctx.numbers = abs(rate)", GRADIENT),
    ("product", "one row has no gradient", RETURNS, r"\1da * (len(dy) > 1), db, None, None\n", GRADIENT),
    ("norm", "no rows have a gradient", RETURNS, r"\1dx, dw + (not len(dy)), None\n", GRADIENT),
    (
        "product",
        "a gradient is another one of many rows",
        RETURNS,
        r"\1da * (1.01 if len(dy) > 5000 else 1), db, None, None\n",
        GRADIENT,
    ),
    ("norm", "rows are copied in parts", SAVES, r"\1    inputs = [x[:5000] for x in inputs[:2]]\n", GRADIENT),
    ("norm", "a scalar has a default", "float eps", "float eps=1.0", SCHEMA),
    ("step", "a whole number is no size", "SymInt steps", "int steps", SCHEMA),
    ("step", "compiled graphs choose strides", "torch.Tag.needs_fixed_stride_order", "", SCHEMA),
    ("step", "nothing is said of what is written", r"Tensor\(a!\) p", "Tensor p", SCHEMA),
    ("step", "the schema does not say what is written", r"Tensor\(a!\) p", "Tensor p", "test_schema"),
]


DAILY = {  # one of each kind of check and of mistake, of few modules; the sweep has all
    "norm: a scalar is ignored",
    "step: what is only read is written",
    "softmax: a type is mended by a copy",
    "norm: fakes of fixed rows",
    "scatter: what is at other places is written",
    "product: inputs are swapped under autocast",
    "product: inputs are saved in another order",
    "norm: what has no gradient seems to have one",
    "softmax: strides are ignored",
    "chain: a value that is passed on is another",
    "step: nothing is said of what is written",
}


def _parameters() -> Iterator[object]:
    names = {f"{op}: {what}" for op, what, *_ in MUTANTS}
    assert names >= DAILY and len(names) == len(MUTANTS)
    for mutant in MUTANTS:
        name = f"{mutant[0]}: {mutant[1]}"
        yield pytest.param(*mutant, id=name, marks=[] if name in DAILY else pytest.mark.sweep)


@lru_cache(maxsize=8)
def made(name: str) -> dict[str, Module]:
    return {module.spec.kernel: module for module in generate(TEXTS[name], "specs/x.yaml").modules}


class Kept(EmulatorExecutor):
    """An emulator that compiles each module once, also those of gradients."""

    def __init__(self) -> None:
        super().__init__(lines=False)

    def beside(self, module: ModuleType, spec: KernelSpec) -> Kept:
        return self


@pytest.fixture(scope="module")
def executor() -> Kept:
    return Kept()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All modules in one folder, as a build leaves them."""
    found = tmp_path_factory.mktemp("ops")
    for name in TEXTS:
        for module in made(name).values():
            (found / module.name).write_text(module.text, encoding="utf-8")
    return found


@lru_cache(maxsize=16)
def loaded(path: Path) -> ModuleType:
    return load_module(path)


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_gradients, "load_module", loaded)


def host_of(name: str, folder: Path, executor: Kept) -> tuple[Host, str]:
    """The arguments for checks of an op, and the op's part of its module's text."""
    module = made(name)[f"op_{name}"]
    case = Case("host checks", "", sizes.small(module.spec), "padded", "integers")
    tensors = make_tensors(module.spec, case, executor.device)
    host = Host(module.plan, loaded(folder / module.name), executor, case, tensors, scalar_values(module.spec, case))
    text = module.text.partition("# ------------------------------ The op, as torch knows it")[2]
    return host, text.partition("\n")[2].partition("\n\ndef main() -> int:")[0]


def checks_of(host: Host, words: str) -> list[Check]:
    return [check for check in ops.checks(host) if words in check.what]


@pytest.mark.parametrize("name", TEXTS)
def test_an_op_that_is_right_passes(name: str, folder: Path, executor: Kept) -> None:
    host, _ = host_of(name, folder, executor)
    found = [check.what for check in ops.checks(host)]
    assert any(GRADIENT in what for what in found) is bool(host.spec.torch.backward)
    assert {check.what: problem for check in ops.checks(host) if (problem := check.run())} == {}


def test_kernels_that_do_not_compute_the_derivative_are_told(folder: Path, executor: Kept) -> None:
    """They need not run for that: their statements say so."""
    wrong = PRODUCT.replace("dB = (rate * A + more) * dY", "dB = (rate * A - more) * dY")
    module = next(m for m in generate(wrong, "specs/x.yaml").modules if m.spec.kernel == "op_product")
    host, _ = host_of("product", folder, executor)
    (check,) = checks_of(replace(host, plan=module.plan), GRADIENT)
    problem = check.run()
    assert "the gradient of `B`, which `op_product_bwd` computes as `dB`, is not the derivative" in problem


def test_an_op_whose_gradient_cannot_be_had_was_not_differentiated(
    folder: Path, executor: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, _ = host_of("norm", folder, executor)
    alone = replace(host, plan=replace(host.plan, gradients=()))
    (check,) = checks_of(alone, GRADIENT)
    with pytest.raises(NotRun, match="the op was not differentiated: without the spec of op_norm_bwd beside its own"):
        check.run()
    monkeypatch.setattr(
        host_checks_module, "_checks", lambda host: ((one, False) for one in checks_of(alone, GRADIENT))
    )
    (found,) = host_checks_module.host_checks(alone.plan, host.module, executor)
    assert (found.status, found.reason) == ("not run", "cannot run") and "was not differentiated" in found.message
    report = KernelReport("op_norm", "", "cpu", host_checks=(found,))
    assert not report.complete and "1 not run (the op was not differentiated: without the spec" in report.text


@pytest.mark.parametrize(("name", "what", "old", "new", "words"), list(_parameters()))
def test_an_op_that_is_wrong_is_told(
    name: str, what: str, old: str, new: str, words: str, folder: Path, executor: Kept
) -> None:
    host, text = host_of(name, folder, executor)
    broken, count = re.subn(old, new, text, count=1, flags=re.DOTALL)
    assert count == 1 and broken != text, f"{what}: nothing is like {old}"
    exec(compile(broken, f"{what}.py", "exec"), vars(host.module))
    try:
        (check,) = checks_of(host, words)
        assert check.run(), f"{what}: nobody says so"
    finally:
        exec(compile(text, "right.py", "exec"), vars(host.module))


HUGE = r"\1    torch.empty(1 << 50, dtype=torch.uint8)\n"


@pytest.mark.parametrize(("place", "words"), [(DOES, RESULTS), (SAVES, GRADIENT)], ids=["call", "gradient"])
def test_an_op_that_asks_for_absurd_memory_is_wrong(place: str, words: str, folder: Path, executor: Kept) -> None:
    """The memory that its arguments need may be lacking; 2^50 bytes are a mistake of the module."""
    host, text = host_of("product", folder, executor)
    (check,) = checks_of(host, words)
    exec(compile(re.sub(place, HUGE, text, flags=re.DOTALL), str(host.module.__file__), "exec"), vars(host.module))
    try:
        assert "raises RuntimeError" in host_checks_module._problem(check, host)
    finally:
        exec(compile(text, "right.py", "exec"), vars(host.module))


def test_the_gradient_is_checked_with_the_arguments_that_the_op_takes(
    folder: Path, executor: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with those that it takes by name, as outputs of the caller would be."""
    host, _ = host_of("product", folder, executor)
    given: list[object] = []
    monkeypatch.setattr(op_gradients.op_calls, "arranged", lambda spec, tensors, scalars: (("a",), {"y": "b"}))
    monkeypatch.setattr(op_gradients, "opcheck", lambda op, *arguments: given.append(arguments[:2]))
    with executor.known(host.module, host.spec):
        op_gradients._Trial(host, list(host.plan.gradients))._utilities()
    assert given and all(arguments == (("a",), {"y": "b"}) for arguments in given)
