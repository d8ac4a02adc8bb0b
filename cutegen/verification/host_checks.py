"""Wrong calls, which the module must refuse on the host with a ValueError or TypeError that names the argument."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.errors import plain
from cutegen.language.model import KernelSpec, Tensor
from cutegen.verification.bounds import evaluate
from cutegen.verification.cases import WELL_ALIGNED, Case, strides_for
from cutegen.verification.compare import compare
from cutegen.verification.data import data_for
from cutegen.verification.executor import CannotRun, Executor
from cutegen.verification.report import HostCheck
from cutegen.verification.scalars import scalar_values
from cutegen.verification.tensors import Guarded, guarded, make_tensors

if TYPE_CHECKING:
    import torch

# Another type of the same width: the mistake that a check of sizes and strides alone does not see.
_OTHER_DTYPE = {
    Dtype.f64: "int64",
    Dtype.f32: "int32",
    Dtype.f16: "bfloat16",
    Dtype.bf16: "float16",
    Dtype.i32: "float32",
    Dtype.i8: "uint8",
    Dtype.u8: "int8",
    Dtype.bool: "uint8",
}


@dataclass(frozen=True)
class _Call:
    """A call with something wrong, or with nothing wrong if `accepted`; `views` are its tensors by name."""

    argument: str
    what: str
    views: Mapping[str, torch.Tensor]
    names: tuple[str, ...]  # arguments, one of which the message must name
    accepted: bool = False


def host_checks(
    spec: KernelSpec, module: ModuleType, executor: Executor, started: Callable[[str], None] = lambda name: None
) -> Iterator[HostCheck]:
    """Makes every wrong call and yields its result; `started` is told each call's name before.

    Arguments must be as they were after each call. Once the device does not answer, the rest is not run. Raises
    CannotRun.
    """
    case = Case("host checks", "wrong calls", _sizes(spec), "padded", "integers")
    tensors = make_tensors(spec, case, executor.device)
    scalars = scalar_values(spec, case)
    lost = False
    for call in _calls(spec, case, tensors, executor):
        if lost:
            why = "the device stopped answering in a check before"
            yield HostCheck(call.argument, call.what, "not run", why, "device lost")
            continue
        started(f"{call.argument}: {call.what}")
        args: list[object] = [*(call.views[t.name] for t in spec.tensors), *scalars.values()]
        if call.accepted:
            problem = _must_work(spec, module, executor, call, args, scalars)
        else:
            problem = _must_fail(spec, module, executor, call, args)
        yield HostCheck(call.argument, call.what, "failed" if problem else "passed", problem)
        lost = bool(problem) and not executor.alive()


def _must_fail(
    spec: KernelSpec,
    module: ModuleType,
    executor: Executor,
    call: _Call,
    args: Sequence[object],
) -> str:
    import torch

    here = {name: view for name, view in call.views.items() if view.device.type == torch.device(executor.device).type}
    before = {name: _bits(view) for name, view in here.items()}
    try:
        executor.run(module, spec, args, 1)
        executor.synchronize()
    except CannotRun:
        raise
    except (ValueError, TypeError) as error:
        message = str(error)
        if not any(names_argument(message, name) for name in call.names):
            return f"the error does not name {' or '.join(call.names)}: {message[:300]}"
    except Exception as error:
        return f"must be a ValueError or TypeError, was {type(error).__name__}: {plain(str(error))[:300]}"
    else:
        return "was accepted"
    changed = [name for name, view in here.items() if not torch.equal(_bits(view), before[name])]
    return f"was refused, but only after {changed[0]} was written" if changed else ""


def _bits(view: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor's elements, copied, so that different NaNs and the two zeros compare as different."""
    import torch

    return view.clone(memory_format=torch.contiguous_format).view(torch.uint8)


def _must_work(
    spec: KernelSpec,
    module: ModuleType,
    executor: Executor,
    call: _Call,
    args: Sequence[object],
    scalars: Mapping[str, int | float | bool],
) -> str:
    expected = evaluate(spec, call.views, scalars)
    wrong: list[str] = []

    def judge(by: str) -> None:
        executor.synchronize()
        for name, wanted in expected.items():
            result = compare(call.views[name], *wanted)
            if not result.ok:
                which = f" in {name}" * (len(expected) > 1)
                wrong.append(f"{by or 'it'} gives a wrong result{which}: {result.reason}")

    try:
        executor.run(module, spec, args, 1, judge)
    except CannotRun:
        raise
    except Exception as error:
        return f"was refused: {type(error).__name__}: {plain(str(error))[:300]}"
    return "; ".join(wrong)


def names_argument(message: str, name: str) -> bool:
    """Whether a message names an argument. The argument `a` is not the article: `a tensor` names nothing."""
    follows = r"(?!\s+(?!must|has|have|is|are|and|or|shares|overlaps|needs|does|should|may|was|with|at|on)\w)"
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w){follows if name == 'a' else ''}", message) is not None


def _sizes(spec: KernelSpec) -> dict[str, int]:
    """Small sizes, all above 1 where the spec lets them, and different; the first row longer than any alignment."""
    widest = max(-(-2 * max(t.align or 1, 16) // t.dtype.bytes) for t in spec.tensors)
    sizes = {}
    for i, mode in enumerate(spec.modes):
        step = max(1, spec.divisible.get(mode, 1))
        sizes[mode] = spec.static.get(mode, -(-(widest + 1) // step) * step + i * step)
    return spec.family.accepted(spec, sizes) or sizes


def _calls(spec: KernelSpec, case: Case, tensors: Sequence[Guarded], executor: Executor) -> Iterator[_Call]:
    views = {t.tensor.name: t.view for t in tensors}

    def one(tensor: Tensor, what: str, view: torch.Tensor) -> _Call:
        return _Call(tensor.argument, what, {**views, tensor.name: view}, (tensor.argument,))

    for number, item in enumerate(tensors):
        yield from _wrong_tensor(case, item, number, executor, one)
    yield from _wrong_sizes(spec, case, views, executor)
    yield from _aliases(spec, case, views, executor)
    yield _neighbours(spec, case, executor)
    yield from _meaningless_stride(spec, case, executor)


def _wrong_tensor(
    case: Case,
    item: Guarded,
    number: int,
    executor: Executor,
    one: Callable[[Tensor, str, torch.Tensor], _Call],
) -> Iterator[_Call]:
    import torch

    tensor, view = item.tensor, item.view
    shape, strides = tuple(view.shape), view.stride()
    major = tensor.major or tensor.shape[-1]

    def fresh(shape: tuple[int, ...], strides: tuple[int, ...], shift: int = 0) -> torch.Tensor:
        data = data_for(tensor, shape, "integers", 7)
        return guarded(tensor, shape, strides, executor.device, data=data, number=number, shift=shift).view

    other = _OTHER_DTYPE[tensor.dtype]
    yield one(tensor, f"wrong dtype ({other})", view.view(getattr(torch, other)))
    elsewhere = torch.empty_strided(shape, strides, dtype=view.dtype, device=executor.other_device)
    yield one(tensor, f"wrong device ({executor.other_device})", elsewhere)
    yield one(tensor, "one mode too many", view.unsqueeze(-1))
    if len(shape) > 1:
        yield one(tensor, "one mode too few", view[0])
    for mode in tensor.shape:
        if mode != major and case.sizes[mode] > 1 and case.sizes[major] > 1:
            transposed = strides_for(replace(tensor, major=mode), case.sizes, "padded")
            yield one(tensor, f"{mode}-major instead of {major}-major", fresh(shape, transposed))
    if case.sizes[major] > 1:
        yield one(tensor, "every other element", fresh(shape, tuple(2 * s for s in strides)))
    for position, mode in enumerate(tensor.shape):
        if tensor.writes and mode != major and case.sizes[mode] > 1:
            same = tuple(0 if i == position else s for i, s in enumerate(strides))
            yield one(tensor, f"stride 0 along {mode}: elements that share memory", view.as_strided(shape, same))
    size, align = tensor.dtype.bytes, tensor.align or tensor.dtype.bytes
    if align > size:
        yield one(tensor, f"base address aligned to {align // 2} bytes only", fresh(shape, strides, align // 2))
        for position, mode in enumerate(tensor.shape):
            if mode != major and case.sizes[mode] > 1:
                # modes further out move along, so that this stride is what is wrong first
                odd = tuple(s + 1 if i == position else s for i, s in enumerate(strides))
                yield one(tensor, f"stride of {mode} breaks {align}-byte alignment", fresh(shape, odd))


def _wrong_sizes(
    spec: KernelSpec, case: Case, views: Mapping[str, torch.Tensor], executor: Executor
) -> Iterator[_Call]:
    def resized(names: Iterable[str], sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        made = {}
        for name in names:
            tensor = spec.tensor(name)
            shape = tuple(sizes[m] for m in tensor.shape)
            strides = strides_for(tensor, sizes, "padded")
            made[name] = guarded(
                tensor, shape, strides, executor.device, data=data_for(tensor, shape, "integers", 3)
            ).view
        return {**views, **made}

    for mode in spec.modes:
        having = [t for t in spec.tensors if mode in t.shape]
        arguments = tuple(t.argument for t in having)
        step = max(1, spec.divisible.get(mode, 1))
        larger = {**case.sizes, mode: case.sizes[mode] + step}
        if len(having) > 1:
            for tensor in having:
                what = f"{mode} is {larger[mode]}, elsewhere {case.sizes[mode]}"
                yield _Call(tensor.argument, what, resized([tensor.name], larger), arguments)
        names = [t.name for t in having]
        if mode in spec.static:
            what = f"{mode} is {larger[mode]}, fixed at {spec.static[mode]}"
            yield _Call(arguments[0], what, resized(names, larger), arguments)
        elif step > 1:
            odd = {**case.sizes, mode: case.sizes[mode] + 1}
            what = f"{mode} is {odd[mode]}, which {step} does not divide"
            yield _Call(arguments[0], what, resized(names, odd), arguments)
    for mode in (m for m in spec.output.shape if m not in spec.static):
        more = {**case.sizes, mode: case.sizes[mode] + max(1, spec.divisible.get(mode, 1))}
        refused = spec.family.refused(spec, more)
        if refused is not None:
            argument, names = spec.output.argument, [t.name for t in spec.tensors if mode in t.shape]
            yield _Call(argument, refused, resized(names, more), (argument,))
            break


def _aliases(spec: KernelSpec, case: Case, views: Mapping[str, torch.Tensor], executor: Executor) -> Iterator[_Call]:
    """Calls with each output over each other tensor: at the same address, and each of the two starting inside the
    other.
    """
    for out, other in _pairs(spec):
        step = math.lcm(out.align or out.dtype.bytes, other.align or other.dtype.bytes)
        names = (out.argument, other.argument)
        for what, at in (
            ("at the same address", {out.name: 0, other.name: 0}),
            ("starting inside", {out.name: step, other.name: 0}),
            ("starting before the end of", {out.name: 0, other.name: step}),
        ):
            first = other if at[out.name] else out  # the one in which the second starts
            run = case.sizes[first.major or first.shape[-1]] * first.dtype.bytes
            if max(at.values()) >= run:
                continue  # the second one would start in a gap
            made = _slices(spec, case, at, executor.device)
            yield _Call(out.argument, f"overlaps {other.argument}, {what}", {**views, **made}, names)


def _pairs(spec: KernelSpec) -> Iterator[tuple[Tensor, Tensor]]:
    """All pairs of an output and another tensor; two outputs are paired once."""
    done: list[str] = []
    for out in spec.outputs:
        done.append(out.name)
        yield from ((out, other) for other in spec.tensors if other.name not in done)


def _neighbours(spec: KernelSpec, case: Case, executor: Executor) -> _Call:
    """A call that must be accepted: all tensors side by side in one allocation, with no element in common."""
    at, end = {}, 0
    for tensor in spec.tensors:
        align = math.lcm(tensor.align or 1, tensor.dtype.bytes)
        at[tensor.name] = start = -(-end // align) * align
        end = start + _bytes(tensor, case)
    made = _slices(spec, case, at, executor.device)
    names = tuple(t.argument for t in spec.tensors)
    return _Call(spec.output.argument, "accepts slices of one allocation, side by side", made, names, accepted=True)


def _meaningless_stride(spec: KernelSpec, case: Case, executor: Executor) -> Iterator[_Call]:
    """A call that must be accepted: a mode of size 1, whose stride nobody steps along and torch lets be anything."""
    for mode in spec.modes:
        sizes = {**case.sizes, mode: 1}
        having = [t for t in spec.tensors if mode in t.shape and mode != t.major]
        fixed = mode in spec.static or spec.divisible.get(mode, 1) > 1
        if fixed or not having or spec.family.refused(spec, sizes) is not None:
            continue
        views = {}
        for tensor in spec.tensors:
            shape, strides = tuple(sizes[m] for m in tensor.shape), strides_for(tensor, sizes, "padded")
            if tensor in having:
                strides = tuple(1 if m == mode else s for m, s in zip(tensor.shape, strides, strict=True))
            data = data_for(tensor, shape, "integers", 5)
            views[tensor.name] = guarded(tensor, shape, strides, executor.device, data=data).view
        what = f"accepts any stride along {mode} where that is 1"
        yield _Call(having[0].argument, what, views, tuple(t.argument for t in having), accepted=True)
        return


def _bytes(tensor: Tensor, case: Case) -> int:
    strides = strides_for(tensor, case.sizes, "padded")
    return tensor.dtype.bytes * (1 + sum((case.sizes[m] - 1) * s for m, s in zip(tensor.shape, strides, strict=True)))


def _slices(spec: KernelSpec, case: Case, at: Mapping[str, int], device: str) -> dict[str, torch.Tensor]:
    """Views of the tensors into one buffer, each at its byte position in `at`, which keeps its alignment."""
    import torch

    room = max(start + _bytes(spec.tensor(name), case) for name, start in at.items())
    buffer = torch.zeros(-(-room // 8) * 8 + 2 * WELL_ALIGNED, dtype=torch.uint8, device=device)
    base = -buffer.data_ptr() % WELL_ALIGNED
    made = {}
    for name, start in at.items():
        tensor = spec.tensor(name)
        shape = tuple(case.sizes[m] for m in tensor.shape)
        typed = buffer.view(getattr(torch, tensor.dtype.torch))
        view = typed.as_strided(shape, strides_for(tensor, case.sizes, "padded"), (base + start) // tensor.dtype.bytes)
        if tensor.reads:
            view.copy_(data_for(tensor, shape, "integers", 11))
        made[name] = view
    return made
