"""Why a call takes as long as it does, as far as a model of the kernel knows: one short phrase."""

from __future__ import annotations

from cutegen.analysis.roofline import roofline
from cutegen.measuring import Machine, Measured
from cutegen.measuring.machine import ARCHITECTURES
from cutegen.measuring.model import time_text
from cutegen.planning.estimate import IDLE, tiles_text
from cutegen.planning.plan import Plan

START_US = 4.0  # that any kernel takes besides its work, about: without an estimate, what is below it is that
OFF = 0.15  # of the estimate: a time that is farther from it is said to be


def kernel_of(plan: Plan, measured: Measured, machine: Machine | None) -> str:
    """Which kernel of a module of several a call took: the number of its case, and its tile. Empty for a module of one
    kernel.
    """
    kernels = plan.kernels
    if len(kernels) < 2:
        return ""
    taken = plan.taken(measured.shape, _target(plan, machine), _sms(machine))
    number = next(number for number, kernel in enumerate(kernels, 1) if kernel is taken)
    tile = " x ".join(str(taken.tile[mode]) for mode in plan.spec.modes if mode in taken.tile)
    return f"{number}: {tile}" if tile else str(number)


def reason(plan: Plan, measured: Measured, machine: Machine | None) -> str:
    """Says what a call waits for: by the estimate of its kernel, or else by its blocks and the machine's limits."""
    estimate = plan.estimate(measured.shape, _sms(machine))
    if estimate is not None:
        return f"{estimate.waits_for}; {_compared(estimate.us, measured.timing.us)}"
    return "; ".join(_of_limits(plan, measured, machine)) or "no model"


def _sms(machine: Machine | None) -> int | None:
    """The multiprocessors of a machine, if it is known."""
    return None if machine is None else machine.sms


def _compared(estimated: float, us: float) -> str:
    """An estimate beside the time that was measured."""
    off = us / estimated - 1
    said = f"estimated at {time_text(estimated)}"
    return f"{said}, takes {abs(off):.0%} {'more' if off > 0 else 'less'}" if abs(off) > OFF else said


def _of_limits(plan: Plan, measured: Measured, machine: Machine | None) -> list[str]:
    """Phrases that say what a call waits for, by its blocks and the machine's limits."""
    target, found, bound = _target(plan, machine), [], ""
    if target is not None:
        roof = roofline(plan, target, measured.shape)
        bound = roof.bound
        sms = roof.sms if machine is None else machine.sms
        if roof.tiled is not None and roof.tiled.busy < 1 - IDLE:
            waves = roof.tiled
            found.append(
                f"{waves.count} waves of {tiles_text(waves.at_once)}, the last one {waves.last:.0%} full"
                if waves.count > 1
                else f"{tiles_text(waves.tiles)} for {waves.at_once} multiprocessors or clusters of them"
            )
        elif roof.blocks < sms:
            found.append(f"{roof.blocks} block{'s' * (roof.blocks != 1)} for {sms} multiprocessors")
    if measured.limit_us is not None and measured.of_limit is not None:
        over = measured.timing.us - measured.limit_us
        if measured.of_limit < 1 - IDLE and over <= START_US:
            found.append(f"the start and the end of the kernel, {over:.1f} us beside the limit of {bound or 'the GPU'}")
            return found
        what = {"memory": "memory", "arithmetic": "arithmetic"}.get(bound, "memory or arithmetic")
        found.append(f"{what}, {measured.of_limit:.0%} of what the GPU can do")
    return found


def _target(plan: Plan, machine: Machine | None) -> str | None:
    """The target that the machine compiles a kernel for; None where it is none of the spec's."""
    target = None if machine is None else ARCHITECTURES.get(machine.capability)
    return target if target in plan.spec.targets else None
