"""Rules about outputs: whether they go through shared memory to be stored by tensor maps, and in what pieces; and about
what the epilogue reads there.
"""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.families.gemm.wgmma.product import (
    ALIGN,
    GRANULE,
    PASSING_BITS,
    in_turn,
    is_sound,
    own_columns,
    passing,
    product_of,
    read_beside,
    sources,
    split_of,
    stands_anywhere,
)
from cutegen.families.gemm.wgmma.schedule import Spec
from cutegen.language.model import Tensor
from cutegen.lint.rule import Say


def passed(spec: Spec, say: Say) -> None:
    """An output goes through shared memory in whole pieces of the tile, whose rows are whole swizzles, and as tensor
    maps take it.
    """
    copies = spec.schedule.copies
    if not is_sound(spec) or any(t.name not in copies for t in spec.outputs):
        return
    if in_turn(spec) and not passing(spec):
        message = "warpgroups that store in turn share the buffers of outputs, and no output goes through shared memory"
        say(message, "schedule", "warps", "turns", help="write `turns: products`, or leave it out")
        return
    beside = [t for t in read_beside(spec) if not t.writes and t.name in copies]
    sources_only = [t for t in sources(spec) if not t.writes]
    if _unlike(spec, passing(spec), ("columns", "stages"), say) or _unlike(spec, sources_only, ("stages",), say):
        return
    for tensor in (*spec.outputs, *beside):
        copy, where = copies[tensor.name], ("schedule", "copies", tensor.name)
        if (copy.atom == "tma") != (copy.through == "smem"):
            verb = "stored" if tensor.writes else "brought"
            message = f"`{tensor.name}` is {verb} by tensor maps if and only if it goes through shared memory"
            say(message, *where, help="write `{atom: tma, through: smem}`, or `{atom: universal}`")
            return
        if not tensor.writes:
            wrong = _beside(spec, tensor, say) if tensor in sources(spec) else _loaded(spec, tensor, say)
        elif tensor in passing(spec):
            wrong = _of_another_type(tensor, say) or _turned(spec, tensor, say)
            wrong = wrong or _in_pieces(spec, tensor, say) or _misaligned(spec, tensor, say)
        else:
            wrong = _without(spec, tensor, say)
        if wrong:
            return


def _unlike(spec: Spec, tensors: Sequence[Tensor], words: Sequence[str], say: Say) -> bool:
    """Reports tensors that go through shared memory together with different numbers of columns or stages."""
    copies = spec.schedule.copies
    for word in words:
        told = [(t.name, value) for t in tensors if (value := getattr(copies[t.name], word)) is not None]
        for name, value in told[1:]:
            first, wanted = told[0]
            if value != wanted:
                message = f"`{name}` has {value} {word} and `{first}` {wanted}, and their pieces move together"
                help = f"write `{word}: {wanted}`, or leave it out"
                say(message, "schedule", "copies", name, word, help=help)
                return True
    return False


def _loaded(spec: Spec, tensor: Tensor, say: Say) -> bool:
    """Says that what is loaded to registers has a word of what comes to shared memory."""
    copy = spec.schedule.copies[tensor.name]
    for word in ("stages", "misaligned"):
        if getattr(copy, word) is not None:
            bits = tensor.dtype.bits not in PASSING_BITS
            what = f"it is {tensor.dtype.value}, and only 16 or 32 bits go through shared memory"
            notes = (what,) if bits else () if passing(spec) else ("no output goes through shared memory",)
            message = f"`{tensor.name}` is loaded to registers at any alignment: `{word}` does not apply"
            say(message, "schedule", "copies", tensor.name, word, notes=notes, help="leave it out")
            return True
    return False


def _beside(spec: Spec, tensor: Tensor, say: Say) -> bool:
    """Says that tensors that the epilogue reads cannot come to shared memory, in pieces like those of outputs."""
    if not passing(spec):
        message = f"`{tensor.name}` goes through shared memory in pieces like those of outputs, and no output does"
        help = "write `atom: universal`, or `{atom: tma, through: smem}` for an output"
        say(message, "schedule", "copies", tensor.name, "atom", help=help)
        return True
    return _of_another_type(tensor, say) or _turned(spec, tensor, say) or _misaligned(spec, tensor, say)


def _without(spec: Spec, tensor: Tensor, say: Say) -> bool:
    """Says that an output from registers has a word of those that go through shared memory."""
    copy, n = spec.schedule.copies[tensor.name], product_of(spec).n
    for word in ("columns", "stages", "misaligned"):
        if getattr(copy, word) is not None:
            message = f"`{tensor.name}` is stored from registers, and has no `{word}` in shared memory"
            if word == "misaligned":
                message = f"`{tensor.name}` is stored from registers at any alignment: `misaligned` does not apply"
            help, tile = "write `atom: tma`, or leave it out", own_columns(spec)
            notes: tuple[str, ...] = ()
            if tensor.dtype.bits not in PASSING_BITS:
                help = "leave it out"
                notes = (f"it is {tensor.dtype.value}, and only 16 or 32 bits go through shared memory",)
            elif tile % GRANULE:
                help = f"write `{n}: {_larger(spec)}` in the tiler, or leave it out"
                notes = (f"{GRANULE} columns go through shared memory together, and a block stores {tile}",)
            help = "leave it out" if word == "misaligned" else help
            say(message, "schedule", "copies", tensor.name, word, notes=notes, help=help)
            return True
    return False


def _larger(spec: Spec) -> int:
    """The next larger tile along n from which every block stores whole pieces."""
    return -(-own_columns(spec) // GRANULE) * GRANULE * split_of(spec)


def _of_another_type(tensor: Tensor, say: Say) -> bool:
    """Says that an output is of a type that does not go through shared memory."""
    if tensor.dtype.bits not in PASSING_BITS:
        message = f"`{tensor.name}` is {tensor.dtype.value}, and only 16 or 32 bits go through shared memory"
        say(message, "schedule", "copies", tensor.name, "atom", help="write `atom: universal`")
        return True
    return False


def _turned(spec: Spec, tensor: Tensor, say: Say) -> bool:
    """Reports an output that is not contiguous within its matrices, which tensor maps need."""
    if tensor.major is None or tensor.major != product_of(spec).batch:
        return False
    message = f"`{tensor.name}` is contiguous along {tensor.major}, the batch, and tensor maps store matrices"
    say(message, "tensors", tensor.name, "major", help="leave `major` out, or write `atom: universal`")
    return True


def _misaligned(spec: Spec, tensor: Tensor, say: Say) -> bool:
    """Says that an output does not stand as tensor maps take it."""
    if tensor.align is not None and tensor.align % ALIGN and not stands_anywhere(spec, tensor):
        message = f"`{tensor.name}` is aligned to {tensor.align} bytes, and tensor maps need {ALIGN}"
        help = f"write `align: {ALIGN}`, `misaligned: workspace` or `atom: universal`"
        say(message, "tensors", tensor.name, "align", help=help)
        return True
    return False


def _in_pieces(spec: Spec, tensor: Tensor, say: Say) -> bool:
    """Says that the tile is no whole number of pieces."""
    copy, n, where = spec.schedule.copies[tensor.name], product_of(spec).n, ("schedule", "copies", tensor.name)
    tile, split = own_columns(spec), split_of(spec)
    if copy.columns is not None and copy.columns % GRANULE == 0 and tile % copy.columns == 0:
        return False
    found = f"{copy.columns} columns" if copy.columns else f"no multiple of {GRANULE} columns"
    whole = f"the {tile} that a block stores" if split > 1 else f"a tile of {tile}"
    fitting = [columns for columns in (64, 48, 32, 16) if tile % columns == 0]
    say(
        f"{found} of {whole} are stored at a time, and pieces of the tile are multiples of {GRANULE}",
        *where,
        "columns" if copy.columns else "atom",
        help=f"write `columns: {fitting[0]}`" if fitting else f"write `{n}: {_larger(spec)}` in the tiler",
    )
    return True
