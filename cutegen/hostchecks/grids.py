"""Checks of how many blocks are launched where these walk all tiles, which results seldom tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import NamedTuple

from cutegen.contract import choosing
from cutegen.hostchecks.asked import family_of
from cutegen.hostchecks.judging import Check, Host
from cutegen.hostchecks.sizes import never_touched
from cutegen.planning.plan import Plan
from cutegen.verification.asked import op_of
from cutegen.verification.case_requests import tiles_of
from cutegen.verification.executor import CannotRun

_MANY = 1 << 13  # tiles: more than the blocks that any kernel has at once


def checks(host: Host) -> Iterator[Check]:
    """A check for each kernel whose blocks walk all tiles: calls of each way launch as many as the plan says."""
    if not host.executor.chooses_blocks:
        return
    for kernel in host.plan.kernels:
        calls = [call for call in _calls(host, kernel) if host.executor.has_code_for(call.targets)]
        if calls:
            of = f", {kernel.case}" if kernel.case else ""
            usual = replace(host, chosen=host.plan.chosen_as(kernel))
            what = f"launches as many blocks as walk all tiles{of}"
            yield Check(host.spec.output.argument, what, partial(_wrong, usual, kernel, calls))


class _Call(NamedTuple):
    """The sizes of a call with more tiles than blocks walk, how many blocks these are, and the targets on which the
    call takes the kernel.
    """

    sizes: Mapping[str, int]
    blocks: int
    targets: tuple[str, ...]


def _calls(host: Host, kernel: Plan) -> Iterator[_Call]:
    """The calls of each way in which a kernel runs."""
    seen: list[dict[str, int]] = []
    for way in kernel.ways:
        tiles, family = tiles_of(way), family_of(way.spec)
        fixed = {*way.spec.static, *op_of(way.spec).reduced_together(way.spec)}
        for mode in (m for m in way.spec.lead.shape if m not in fixed):
            most = family.blocks(way, {**tiles, mode: tiles[mode] * _MANY})
            sizes = {**tiles, mode: tiles[mode] * 2 * most}
            stay = most < _MANY and family.blocks(way, sizes) == most and not family.refused(way.spec, sizes)
            fitting = family_of(host.spec).accepted(host.spec.by_view, dict(sizes))
            stay = stay and kernel.spec.takes(sizes)  # else the call takes another kernel
            if stay and fitting == sizes == host.plan.own_sizes(kernel, dict(sizes)) and sizes not in seen:
                seen.append(sizes)
                yield _Call(sizes, most, host.plan.targets_of(kernel, sizes))


def _wrong(host: Host, kernel: Plan, calls: Sequence[_Call]) -> str:
    """Makes calls of which nothing runs; returns what is wrong, empty if nothing is. Raises CannotRun."""
    for sizes, meant, targets in calls:
        if kernel is not host.plan:
            host = replace(host, executor=host.executor.for_targets(targets))
        made = never_touched(host, sizes)
        said = ", ".join(f"{mode} = {size}" for mode, size in sizes.items())
        try:
            with choosing(host.module, host.chosen):
                launches = host.executor.launched(host.module, host.spec, host.arguments(made))
        except CannotRun:
            raise
        except Exception as error:
            host.look_at_memory(error, made.values(), sizes)
            return f"{said}: {type(error).__name__}: {str(error)[:300]}"
        for launched in (prod(own[0].grid) for own in launches if own):
            if launched != meant:
                return f"{said}: {launched} blocks are launched, and not {meant}"
    return ""
