"""The rule on the tensors that a contraction multiplies and stores row by row, for every skeleton."""

from __future__ import annotations

from cutegen.families.attention.operands import ACCESS, MOST_DEPTH, UNIT, moved_in_tiles
from cutegen.language.model import KernelSpec
from cutegen.lint.rule import Say
from cutegen.ops.contract import walked_of


def rows(spec: KernelSpec, say: Say) -> None:
    """Rows of the tensors that are multiplied, and of the output, are contiguous, of a fixed size that products divide,
    and aligned as copies of 16 bytes are."""
    found = walked_of(spec)
    for name, mode in moved_in_tiles(spec, found).items():
        tensor = spec.tensor(name)
        if tensor.major not in (None, mode):
            message = f"`{tensor.name}` is contiguous along {tensor.major}, and its rows along {mode} are copied whole"
            say(message, "tensors", tensor.name, "major", help=f"write `major: {mode}`")
        if tensor.align is not None and tensor.align % ACCESS:
            message = f"copies move {ACCESS} bytes, and `{tensor.name}` is aligned to {tensor.align}"
            say(message, "tensors", tensor.name, "align", help=f"write `align: {ACCESS}`")
    for mode in found.depths:
        size = spec.static.get(mode)
        if size is None:
            message = f"the size of {mode} is not fixed, and registers hold whole rows along it"
            say(message, "static", mode, help=f"write `static: {{{mode}: 128}}`, or what it is")
        elif size % UNIT or not 2 * UNIT <= size <= MOST_DEPTH:
            near = min(max(-(-size // UNIT) * UNIT, 2 * UNIT), MOST_DEPTH)
            message = f"{mode} is {size}, and products take multiples of {UNIT} from {2 * UNIT} to {MOST_DEPTH}"
            say(message, "static", mode, help=f"{near} would work, if you pad the rows with zeros")
