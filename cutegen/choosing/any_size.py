"""Calls of any size, at any address: what a schedule without an mma atom gets a second case for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cutegen.choosing.choice import Choice, having, tried
from cutegen.language.cases import SizeIs
from cutegen.language.diagnostics import Span
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec, Source

Narrowed = tuple[Mapping[str, int], Mapping[str, int]]  # the divisors of modes, and the alignments of tensors


def split(spec: KernelSpec, choices: Sequence[Choice]) -> tuple[KernelSpec, list[Choice]]:
    """The choices, with a second one behind each that says nothing but what multiplies, and would narrow by inference
    which sizes and addresses are taken: for all others. The spec promises nothing of those any more.
    """
    found: list[Choice] = []
    freed: list[Narrowed] = []
    for choice in choices:
        both = _both(spec, choice) if _says_nothing(choice) else None
        found += [choice] if both is None else both[0]
        freed += [] if both is None else [both[1]]
    for one in freed:
        spec = _free(spec, one)
    return spec, found


def _says_nothing(choice: Choice) -> bool:
    """Whether a schedule has no words but those on what multiplies. One with others is its author's, and stays one."""
    written = choice.schedule.as_data()
    return set(written) <= {"mma"} and set(written.get("mma", ())) <= {"atom", "operands"}


def _both(spec: KernelSpec, choice: Choice) -> tuple[list[Choice], Narrowed] | None:
    """The choice for what its accesses fit, and that for the rest, with what they differ in; None where one takes all,
    or no other way was found.
    """
    one = having(spec, choice.schedule, choice.targets)
    resolved, error = tried(one)
    narrowed = _narrowed(one, resolved)
    if error is not None or not any(narrowed):
        return None
    free = _free(one, narrowed)
    rest, error = tried(free)
    if error is not None or any(_narrowed(free, rest)):
        return None
    steps, aligns = narrowed
    own, align = choice.conditions, max([1, *aligns.values()])
    conditions = replace(own, sizes={mode: (SizeIs("%", step),) for mode, step in steps.items()}, align=align)
    promises = [f"`align: {align}`"] * bool(aligns)
    promises += [f"`divisible: {{{', '.join(f'{mode}: {step}' for mode, step in steps.items())}}}`"] * bool(steps)
    why = f"as before it, with narrow accesses: {' and '.join(promises)}, written, leave this case out"
    return [replace(choice, conditions=conditions), replace(choice, why=why)], narrowed


def _narrowed(spec: KernelSpec, resolved: KernelSpec) -> Narrowed:
    """The divisors of sizes and the alignments that inference requires where the spec does not state them."""
    written = spec.source.values
    steps = {
        mode: step
        for mode, step in resolved.divisible.items()
        if step > spec.divisible.get(mode, 1) and ("divisible", mode) not in written
    }
    aligns = {
        tensor.name: tensor.align
        for given, tensor in zip(spec.tensors, resolved.tensors, strict=True)
        if given.align is None and tensor.align is not None and tensor.align > tensor.dtype.bytes
    }
    return steps, aligns


def _free(spec: KernelSpec, narrowed: Narrowed) -> KernelSpec:
    """The spec that takes all such sizes and addresses."""
    steps, aligns = narrowed
    tensors = tuple(replace(t, align=t.dtype.bytes) if t.name in aligns else t for t in spec.tensors)
    paths: list[Path] = [("divisible", mode) for mode in steps] + [("tensors", name, "align") for name in aligns]
    places: dict[Path, Span] = {path: spec.source.at(*path) for path in paths}
    source = Source(spec.source.path, spec.source.keys, {**spec.source.values, **places})
    divisible = {**spec.divisible, **dict.fromkeys(steps, 1)}
    return replace(spec, tensors=tensors, divisible=divisible, source=source)
