"""Which shapes a kernel is measured at. Pure functions of a resolved spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen.errors import CutegenError
from cutegen.language.model import KernelSpec
from cutegen.measuring.asked import family_of, op_of

LARGEST = 2**31 - 1


class ShapeError(CutegenError, ValueError):
    """Says that what was asked for is no shape of this kernel."""


class RefusedShape(ShapeError):
    """Says that the sizes are those of the kernel's modes, and that its host refuses them."""


@dataclass(frozen=True)
class Sweep:
    """Sizes that some modes take together, one after the other."""

    modes: tuple[str, ...]
    sizes: tuple[int, ...]


def shapes_of(spec: KernelSpec) -> tuple[dict[str, int], ...]:
    """The shapes to measure a kernel at: the spec's own, else those of its op.

    Those of the op are changed to what the spec fixes, and as little as possible to what it promises.
    """
    if spec.bench.shapes:
        return tuple({mode: {**shape, **spec.static}[mode] for mode in spec.modes} for shape in spec.bench.shapes)
    found = [_allowed(spec, sizes) for sizes in op_of(spec).bench_shapes(spec)]
    return tuple(sizes for i, sizes in enumerate(found) if sizes not in found[:i])


def _allowed(spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes with those that are fixed, and the others enlarged to what the host accepts."""
    rounded = {}
    for mode in spec.modes:
        step = spec.divisible.get(mode, 1)
        rounded[mode] = spec.static.get(mode, -(-sizes[mode] // step) * step)
    return family_of(spec).accepted(spec.by_view, rounded) or rounded


def parse_sizes(text: str, spec: KernelSpec) -> dict[str, int]:
    """Reads `M=4096,N=4096` as the size of every mode; the spec's fixed sizes may be left out. Raises ShapeError."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        mode, equals, number = (x.strip() for x in part.partition("="))
        size = whole_number(number)
        if not equals or size is None:
            raise ShapeError(
                f"`{part[:40]}` is not a mode and a size, as in {spec.modes[0]}=4096",
                f"the modes are {', '.join(spec.modes)}",
            )
        if mode in sizes:
            raise ShapeError(f"{mode} is given twice", "give each shape an option of its own")
        sizes[mode] = size
    return complete(sizes, spec)


def complete(sizes: Mapping[str, int], spec: KernelSpec) -> dict[str, int]:
    """The sizes with the fixed ones filled in.

    Raises ShapeError for a mode without a size, and RefusedShape for what the kernel refuses.
    """
    for mode, size in sizes.items():
        if mode not in spec.modes:
            raise ShapeError(f"{spec.kernel} has no mode `{mode}`", f"its modes are {', '.join(spec.modes)}")
        if not 0 < size <= LARGEST:
            raise ShapeError(f"{mode} cannot be {size}", f"sizes are 1 to {LARGEST}")
        fixed, step = spec.static.get(mode), spec.divisible.get(mode, 1)
        if fixed not in (None, size):
            raise RefusedShape(f"{mode} is {fixed} in {spec.kernel}", f"leave {mode} out")
        if size % step:
            near = max(step, size // step * step)
            raise RefusedShape(f"{mode} must be a multiple of {step}, not {size}", f"{near} would work")
    whole = {**spec.static, **sizes}
    missing = [mode for mode in spec.modes if mode not in whole]
    if missing:
        example = ",".join(f"{mode}=4096" for mode in missing)
        raise ShapeError(f"{', '.join(missing)} missing for {spec.kernel}", f"add {example}")
    found = {mode: whole[mode] for mode in spec.modes}
    if (why := family_of(spec).refused(spec.by_view, found)) is not None:
        accepted = family_of(spec).accepted(spec.by_view, dict(found)) or found
        changed = [f"{mode}={size}" for mode, size in accepted.items() if size != found[mode]]
        raise RefusedShape(f"{spec.kernel} refuses it: {why}", f"{', '.join(changed)} would work" if changed else None)
    return found


def parse_sweep(text: str) -> Sweep:
    """Reads a sweep: `M=1024..16384` (powers of two), `M=1024..16384:1024` (steps) or `M=N=K=1024..8192` (modes
    together).

    Raises ShapeError for any other text.
    """
    form = "write it as M=1024..16384, M=1024..16384:1024 or M=N=K=1024..8192"
    *modes, rest = (part.strip() for part in text.split("="))
    span, colon, step_text = rest.partition(":")
    first_text, dots, last_text = span.partition("..")
    first, last, step = (whole_number(part.strip()) for part in (first_text, last_text, step_text))
    if not modes or not all(modes) or not dots or first is None or last is None or (colon and step is None):
        raise ShapeError(f"`{text[:60]}` is not a sweep", form)
    if len(set(modes)) != len(modes):
        raise ShapeError(f"`{text[:60]}` names a mode twice", form)
    sizes = tuple(range(first, last + 1, step) if step is not None else _doubled(first, last))
    if not 1 < len(sizes) <= 256:
        raise ShapeError(f"`{text[:60]}` has {len(sizes)} sizes", "a curve takes 2 to 256 of them")
    return Sweep(tuple(modes), sizes)


def sweep_shapes(sweep: Sweep, spec: KernelSpec) -> tuple[dict[str, int], ...]:
    """A shape for each size of a sweep, other modes as in the first of `shapes_of`. Raises ShapeError."""
    others = {m: s for m, s in shapes_of(spec)[0].items() if m not in sweep.modes}
    return tuple(complete({**others, **dict.fromkeys(sweep.modes, size)}, spec) for size in sweep.sizes)


def _doubled(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 2


def whole_number(text: str) -> int | None:
    """A size from its decimal digits; None for any other text."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 0 < int(text) <= LARGEST):
        return None
    return int(text)


def shape_text(shape: Mapping[str, int], spec_modes: Sequence[str] = ()) -> str:
    """A shape in words: `8192 x 8192`, in the order of the modes; `4096 cubed` where a gemm's three are one."""
    sizes = [shape[mode] for mode in (spec_modes or shape)]
    if len(sizes) == 3 and len(set(sizes)) == 1:
        return f"{sizes[0]} cubed"
    return " x ".join(map(str, sizes))
