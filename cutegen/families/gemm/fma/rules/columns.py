"""Rules about layouts that put the elements of a column of shared memory elsewhere than in their order."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tensor_layouts import Layout, LayoutError, compose, size

from cutegen import layouts
from cutegen.families.gemm.fma.planning import plan as make_plan
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.partitions import positions, tiled_write
from cutegen.families.gemm.staged.rules.copies import with_copy
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.words import MAX_EXTENT, tile_of, vector_of
from cutegen.language.model import Tensor
from cutegen.layouts import format_layout, pair
from cutegen.lint.rule import Candidate, Say
from cutegen.lint.trial import changed, first_that_works, written


def columns(spec: Spec, say: Say) -> None:
    """A layout of shared memory has as many places as the tile is long, and keeps accesses whole."""
    schedule, (a, b, m, n, _) = spec.schedule, gemm.product_of(spec)
    for tensor, mode in ((a, m), (b, n)):
        column, block = gemm.column_of(schedule, tensor.name), tile_of(schedule, mode)
        if column is None or block > MAX_EXTENT:  # the latter never fits shared memory, which is said already
            continue
        path, shown = ("schedule", "smem", tensor.name, "layout"), format_layout(column)
        if int(size(column)) != block:
            say(
                f"{shown} has {int(size(column))} coordinates, and the tile of {tensor.name} is {block} long",
                *path,
                notes=(f"it maps coordinates along {mode} to places in a column of shared memory",),
                help=partial(_other_column, spec, tensor, block, say.code),
            )
        elif (
            tensor.major == mode
            and (copy := schedule.copies.get(tensor.name))
            and copy.bits
            and copy.atom == "cp_async"
        ):
            vector = vector_of(copy, tensor)
            if not layouts.keeps_runs(column, vector):
                say(
                    f"cp.async writes {vector} neighbours along {mode} at once, and {shown} separates them",
                    *path,
                    notes=(f"places of 0 to {vector - 1}: {', '.join(map(str, layouts.offsets(column)[:vector]))}",),
                    help=partial(_whole_in_column, spec, tensor, say.code),
                )


def _whole_in_column(spec: Spec, tensor: Tensor, code: str) -> str | None:
    """A help that keeps a column's accesses whole: a narrower cp.async, or else a way through registers."""
    copies = f"copies: {{{tensor.name}: {{%s}}}}"
    trials: list[Candidate] = [
        (written(f"write `{copies % f'bits: {bits}'}`"), with_copy(spec, tensor, bits=bits)) for bits in (64, 32)
    ]
    universal = with_copy(spec, tensor, atom="universal")
    return first_that_works(code, [*trials, (written(f"write `{copies % 'atom: universal'}`"), universal)])


def _other_column(spec: Spec, tensor: Tensor, block: int, code: str) -> str | None:
    """A help with the same column repeated along the tile, where it is too short; None where there
    is no such column.
    """
    column, trials = gemm.column_of(spec.schedule, tensor.name), []
    assert column is not None
    places = int(size(column))
    if places < block and block % places == 0:
        modes = (*layouts.modes_of(column), Layout(block // places, places))
        longer = Layout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))
        repeated = changed(spec, {f"smem.{tensor.name}.layout": longer})
        trials.append((written(f'write `layout: "{format_layout(longer)}"`'), repeated))
    return first_that_works(code, [*trials, _without_column(spec, tensor)])


def _without_column(spec: Spec, tensor: Tensor) -> Candidate:
    return written(f"remove `layout` of {tensor.name}"), changed(spec, {f"smem.{tensor.name}.layout": None})


def dealt_columns(spec: Spec, say: Say) -> None:
    """The places of a column that a thread writes and reads must form a layout: threads and modes divide each other."""
    schedule = spec.schedule
    if say.report.failed or all(column.layout is None for column in schedule.smem.values()):
        return  # without a plan nobody knows what threads have
    plain = {name: replace(column, layout=None) for name, column in schedule.smem.items()}
    plan = make_plan(replace(spec, schedule=replace(schedule, smem=plain)))
    for side, x in enumerate((plan.a, plan.b)):
        column, name = gemm.column_of(schedule, x.tensor.name), x.tensor.name
        if column is None:
            continue
        read = pair(*positions(plan, side, (1, 0) if side == 0 else (0, 1)))
        wording = "reads"
        try:
            compose(column, read)
            wording = "writes"
            tiled_write(replace(x, smem_layout=column), plan.tile[plan.k])
        except LayoutError as error:
            say(
                f"no layout describes what a thread {wording} of {name} in columns of {format_layout(column)}",
                *("schedule", "smem", name, "layout"),
                notes=(str(error).removeprefix("compose: "),),
                help=partial(first_that_works, say.code, [_without_column(spec, x.tensor)]),
            )
