"""Rules about the mma: its threads, its permutations, and the type that it sums in."""

from __future__ import annotations

from tensor_layouts import size

from cutegen import layouts
from cutegen.dtypes import Dtype
from cutegen.families.common.rules.candidates import in_tiler
from cutegen.families.gemm.fma.rules.dealing import MMA_THREADS, along_m_and_n
from cutegen.families.gemm.staged import product as gemm
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.words import tile_of
from cutegen.layouts import format_layout
from cutegen.lint.rule import Say
from cutegen.lint.trial import changed, first_that_works, is_written, say_layout

MMA = ("schedule", "mma")


def k_threads(spec: Spec, say: Say) -> None:
    """All threads of the mma stand along m and n: `thread_layout` has size 1 along k."""
    layout = spec.schedule.mma.thread_layout
    assert layout is not None
    sizes = layouts.mode_sizes(layout)
    if len(sizes) == 3 and sizes[2] != 1:
        k = gemm.product_of(spec).k
        say(
            f"{sizes[2]} threads along {k}, and the sums over {k} are not shared",
            *MMA_THREADS,
            notes=(f"{format_layout(layout)} has the sizes {layouts.show(sizes)}",),
            help=say_layout("thread_layout", along_m_and_n(layout)),
        )


def permutation_threads(spec: Spec, say: Say) -> None:
    """A permutation reorders a whole number of elements for every thread along its mode."""
    schedule = spec.schedule
    assert schedule.mma.thread_layout is not None
    _, _, m, n, _ = gemm.product_of(spec)
    for mode, threads in zip((m, n), layouts.mode_sizes(schedule.mma.thread_layout), strict=False):
        layout = schedule.mma.permutation[mode]
        if int(size(layout)) % threads == 0:
            continue

        def text(resolved: Spec, mode: str = mode) -> str:
            return say_layout(mode, resolved.schedule.mma.permutation[mode])

        def help(mode: str = mode) -> str | None:
            rest = {m: x for m, x in schedule.mma.permutation.items() if m != mode}
            return first_that_works(say.code, [(text, changed(spec, {"mma.permutation": rest}))])

        say(
            f"the permutation of {mode} has {size(layout)} places for {threads} threads",
            *(*MMA, "permutation", mode),
            notes=(f"{size(layout)} = {int(size(layout)) // threads} * {threads} + {int(size(layout)) % threads}",),
            help=help,
        )


def mma_divides(spec: Spec, say: Say) -> None:
    """The tile is a whole number of permutations, hence of threads, along m and n."""
    schedule = spec.schedule
    _, _, m, n, _ = gemm.product_of(spec)
    assert schedule.mma.thread_layout is not None
    for mode, threads in zip((m, n), layouts.mode_sizes(schedule.mma.thread_layout), strict=False):
        extent, step = tile_of(schedule, mode), int(size(schedule.mma.permutation[mode]))
        if extent % step == 0 or step % threads:  # of the latter, the permutation itself is reported
            continue

        def help(mode: str = mode, extent: int = extent, step: int = step) -> str | None:
            near = sorted((c * step for c in range(1, extent // step + 18)), key=lambda c: (abs(c - extent), c))[:40]
            return first_that_works(say.code, (in_tiler(spec, mode, c) for c in near))

        of = "threads" if step == threads else "places of its permutation"
        say(
            f"the mma does not divide the tiler's {extent} along {mode}",
            *("schedule", "tiler", mode),
            notes=(f"{extent} = {extent // step} * {step} + {extent % step}, with {step} {of}",),
            help=help,
        )


def k_permutation(spec: Spec, say: Say) -> None:
    """Only m and n can be permuted: the order in which k is summed is that of memory."""
    k = gemm.product_of(spec).k
    if k in spec.schedule.mma.permutation:
        message = f"`{k}` is summed over, and its order cannot be permuted"
        say(message, *MMA, "permutation", k, help=f"remove `{k}` from the permutation")


def accumulator(spec: Spec, say: Say) -> None:
    """Products are summed in a type that holds the operands: f64 operands need an f64 accumulator."""
    a, found = gemm.product_of(spec)[0], spec.schedule.mma.accumulator
    if a.dtype is Dtype.f64 and found is not Dtype.f64:
        assert found is not None
        notes = (f"{a.dtype.bits} bits > {found.bits} bits",)
        message = f"{a.dtype.value} operands cannot be summed in {found.value}"
        say(message, *MMA, "accumulator", notes=notes, help="write `accumulator: f64`")


def multiplied(spec: Spec, say: Say) -> None:
    """A and B are no floats of 8 bits, which only tensor cores multiply."""
    factors = gemm.product_of(spec)[:2]
    other = "; or `mma_sync`, from sm_89 on" if factors[0].dtype is factors[1].dtype else ""
    for tensor in factors:
        if tensor.dtype.is_f8:
            say(
                f"`{tensor.name}` is {tensor.dtype.value}, and the CUDA cores (`fma`) multiply f64, f32, f16 or bf16",
                *("tensors", tensor.name, "dtype"),
                help=f"write `mma: {{atom: wgmma}}`, and nothing else in the schedule, for `targets: [sm_90a]`{other}",
            )


def tensor_cores(spec: Spec, say: Say) -> None:
    """Tensor cores multiply 16-bit types, and f32 where fewer bits of it do; a spec that names `fma` gets no note on
    f32.
    """
    a, b, *_ = gemm.product_of(spec)
    where = ("tensors", a.name, "dtype")
    if {a.dtype, b.dtype} <= {Dtype.f16, Dtype.bf16}:
        names = " and ".join(dict.fromkeys((a.dtype.value, b.dtype.value)))
        say(
            f"{names} on the CUDA cores: tensor cores are 15 times faster",
            *where,
            notes=(
                "an H200 does 67 TFLOP/s in f32 on its CUDA cores, and 989 in f16 or bf16 on its tensor cores",
                "cutegen's atoms for tensor cores are mma_sync, from sm_80 on, and wgmma, of sm_90a",
            ),
            help="leave the schedule out: each target then has the fastest of them that takes the spec",
        )
    elif not is_written(spec, *MMA, "atom") and a.dtype is Dtype.f32:
        say(
            "f32 on the CUDA cores, with all of its bits: tensor cores are 7 times faster with 11 of them",
            *where,
            notes=("an H200 does 67 TFLOP/s in f32 on its CUDA cores, and 494 in tf32 on its tensor cores",),
            help="write `mma: {operands: tf32}`, and nothing else in the schedule, if those bits suffice",
        )
    elif not is_written(spec, *MMA, "atom") and a.dtype is Dtype.f64:
        say(
            "f64 on the CUDA cores: cutegen has no atom of tensor cores for it",
            *where,
            notes=("an H200 does 34 TFLOP/s in f64 on its CUDA cores, and 494 in tf32 on its tensor cores",),
            help="write `dtype: f32` and `mma: {operands: tf32}`, or `dtype: bf16`, if so few bits suffice",
        )
