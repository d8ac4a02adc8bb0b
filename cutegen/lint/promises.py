"""Rules about sizes that were promised, and sizes to verify on and to measure at."""

from __future__ import annotations

from cutegen.language.model import KernelSpec
from cutegen.lint.asked import family_of
from cutegen.lint.rule import Say


def listed_shapes(spec: KernelSpec, say: Say) -> None:
    """The shapes to verify on and to measure at are shapes that the kernel accepts."""
    listed = [("verify", i, shape) for i, shape in enumerate(spec.verify.shapes)]
    listed += [("bench", i, shape) for i, shape in enumerate(spec.bench.shapes)]
    for key, i, shape in listed:
        for mode, extent in shape.items():
            step = spec.divisible.get(mode, 1)
            if mode in spec.static or extent % step == 0:
                continue
            why = say.inferred.get(("divisible", mode))
            say(
                f"{mode} is {extent}, and the kernel accepts multiples of {step}",
                *(key, "shapes", i, mode),
                notes=(f"{extent} = {extent // step} * {step} + {extent % step}", *((why,) if why else ())),
                help=f"write `{mode}: {-(-extent // step) * step}`",
            )
        if all(extent % spec.divisible.get(mode, 1) == 0 for mode, extent in shape.items()):
            _taken_together(spec, say, key, i, {**shape, **spec.static})


def _taken_together(spec: KernelSpec, say: Say, key: str, i: int, sizes: dict[str, int]) -> None:
    """The sizes of a shape that are right for each mode alone are also right together."""
    refused = family_of(spec).refused(spec, sizes)
    if refused is None:
        return
    accepted = family_of(spec).accepted(spec, sizes)
    wanted = accepted and ", ".join(f"{mode}: {size}" for mode, size in accepted.items() if size != sizes[mode])
    say(
        f"the kernel does not accept this shape: {refused}",
        *(key, "shapes", i),
        help=f"write `{wanted}`" if wanted else None,
    )
