"""Text of the host for rows that are cut into segments, and for modes with lengths."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from cutegen.language.lengths import lengths_of
from cutegen.language.model import KernelSpec, Tensor

LENGTHS = "lengths"
"""The variable of a reference with the number of rows of each segment."""


def rows_of_segments(
    spec: KernelSpec,
    names: Collection[str],
    lengths: str,
    *,
    cut: bool = True,
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[str]:
    """The statements of a reference that cut the tensors of these names to the rows that belong to segments, and repeat
    those with one row for each segment for each row of it; `lengths` is the name of a variable. Where they are not
    `cut`, segments have all rows, and nothing waits for the GPU. `renamed` has other names for what is cut, by the
    names of tensors.
    """
    segments = spec.segments
    assert segments is not None
    ends = spec.tensor(segments.ends).argument
    yield f"{lengths} = {ends}.diff(prepend={ends}.new_zeros(1))"
    for tensor in (t for t in spec.tensors if t.name in names):
        if tensor.segments and not cut:
            continue
        if tensor.segments:
            axis = tensor.shape.index(segments.mode)
            rows = f"{', '.join([':'] * axis + [f': {ends}[-1]'])}" if axis else f": {ends}[-1]"
            yield f"{renamed.get(tensor.name, tensor.argument)} = {tensor.argument}[{rows}]"
        elif segments.of in tensor.shape and tensor.name not in spec.factors:
            axis = tensor.shape.index(segments.of)
            size = ""
            if not cut:
                having = next(t for t in spec.tensors if t.segments and t.reads)
                size = f", output_size={having.argument}.shape[{having.shape.index(segments.mode)}]"
            yield f"{tensor.argument} = {tensor.argument}.repeat_interleave({lengths}, {axis}{size})"


def put_in_rows(tensor: Tensor, values: str, *, inplace: bool = False) -> str:
    """The torch expression for an output with `values` in its first rows: a new tensor, or the output itself if
    `inplace`. The rows that belong to no segment come last.
    """
    rest = f"{tensor.argument}[len({values}) :]"
    return f"{tensor.argument}[: len({values})].copy_({values})" if inplace else f"torch.cat([{values}, {rest}])"


def ends_modes(spec: KernelSpec) -> dict[str, str]:
    """By argument, of the ends of segments the mode that they cut."""
    segments = spec.segments
    return {} if segments is None else {spec.tensor(segments.ends).argument: f'"{segments.mode}"'}


def lengths_mode(spec: KernelSpec) -> tuple[str, str] | None:
    """The argument with lengths, and the mode that has them; None where there is none."""
    lengths = lengths_of(spec.tensors)
    return lengths and (spec.tensor(lengths.used).argument, lengths.mode)


def said_of_ends(spec: KernelSpec, tensor: Tensor) -> str:
    """Notes what the ends of segments are, or lengths, which is not checked, and what lies behind the last one."""
    if (lengths := lengths_of(spec.tensors)) is not None:
        if tensor.name == lengths.used:
            return f"; elements of {lengths.mode} that exist, for each place along {lengths.of}: not checked"
        partly = lengths.mode in tensor.shape and lengths.of in tensor.shape
        return f"; what lies behind a length along {lengths.mode} may be anything, and is no part of a result" * partly
    if spec.segments is None:
        return ""
    if tensor.name == spec.segments.ends:
        return f"; ends of segments along {spec.segments.mode}, ascending, at most {spec.segments.mode}: not checked"
    return "; rows behind the last segment keep their values" if tensor.segments and tensor.writes else ""
