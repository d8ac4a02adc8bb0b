"""Rules about what a target can do."""

from __future__ import annotations

from cutegen.atoms.targets import F8_CONVERSIONS, F8_TARGETS, TARGETS
from cutegen.language.model import KernelSpec
from cutegen.lint.rule import Say
from cutegen.planning.conversions import f8_conversion


def f8_conversions(spec: KernelSpec, say: Say) -> None:
    """Where floats of 8 bits are converted, every target has an instruction for it."""
    old = [target for target in spec.targets if target in TARGETS and TARGETS[target].number < F8_CONVERSIONS]
    found = f8_conversion(spec) if old else None
    if found is None:
        return
    what, number, _ = found
    kept = [target for target in spec.targets if target not in old] or list(F8_TARGETS)
    say(
        f"{old[0]} has no instruction that converts {what}",
        "targets",
        spec.targets.index(old[0]),
        notes=(
            f"statement {number + 1}, `{spec.compute.statements[number].text}`, converts {what}",
            f"8-bit floats are converted from sm_{F8_CONVERSIONS} on, and moved as they are by any target",
        ),
        help=f"write `targets: [{', '.join(kept)}]`",
    )
