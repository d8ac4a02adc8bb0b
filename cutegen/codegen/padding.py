"""Text for tensors at any alignment: their rows are copied to or from memory that is aligned for the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cutegen.codegen.formatting import python_tuple
from cutegen.codegen.parts import Constant, KernelParts
from cutegen.codegen.variables import Variables
from cutegen.language.model import KernelSpec


@dataclass(frozen=True)
class Moved:
    """A tensor whose rows may be copied: the names of its parameter of `launch`, of that as it was given, and of the
    address of memory for its like.
    """

    argument: str
    tensor: str
    given: str
    spare: str
    unit: int  # elements of a word of aligned rows
    reads: bool
    writes: bool

    @property
    def near(self) -> str:
        """The tensor, or its like where the kernel takes that: an expression of what was given."""
        return self._near(self.tensor)

    @property
    def near_given(self) -> str:
        """The same once the tensor's name has another meaning."""
        return self._near(self.given)

    def _near(self, name: str) -> str:
        return f'_standing({name}, "{self.argument}", {self.spare})'


def moved(spec: KernelSpec, parts: KernelParts) -> list[Moved]:
    """The tensors whose rows may be copied, in the order of the spec."""
    variables, copies = Variables(spec), parts.row_copies
    if copies is None:
        return []
    return [
        Moved(
            t.argument,
            f"m{t.name}",
            variables.free(f"given_{t.name}"),
            variables.free(f"spare_{t.name}"),
            copies.unit(t),
            t.reads,
            t.writes,
        )
        for t in spec.tensors
        if t.name in parts.padded
    ]


def padding_context(spec: KernelSpec, parts: KernelParts, copied: Sequence[Moved]) -> dict[str, Any]:
    """The template context of the tensors whose rows may be copied, `copied`, and of the kernel that copies them."""
    names = tuple(f'"{t.argument}"' for t in spec.tensors if t.name in parts.padded)
    return {
        "padded": python_tuple(names) if names else "",
        "padded_path": next((x.path for x in parts.padded.values()), ""),
        "padded_outputs": any(t.name in parts.padded for t in spec.outputs),
        "copied": copied,
        "spares": [one.spare for one in copied],
        "rows_kernel": f"{spec.kernel}_workspace_rows_kernel",
    }


def ends(spec: KernelSpec, parts: KernelParts) -> list[str]:
    """The conditions under which what is written of a row of an output ends behind the row."""
    found = []
    for tensor in spec.outputs:
        if tensor.name in parts.padded and tensor.major is not None:
            unit, mode = parts.padded[tensor.name].align // tensor.dtype.bytes, tensor.major
            if spec.static.get(mode, spec.divisible.get(mode, 1)) % unit:
                found.append(f"{tensor.argument}.shape[{tensor.shape.index(mode)}] % {unit}")
    return found


def constants(parts: KernelParts) -> tuple[Constant, ...]:
    """The constants of a module: its kernel's own, and those of the kernel that copies rows, where it has one."""
    return *parts.constants, *_of_copies(parts)


def _of_copies(parts: KernelParts) -> Iterator[Constant]:
    copies = parts.row_copies
    if copies is None or not parts.refuses:
        return
    path = next(one.path for one in parts.padded.values())
    yield Constant("COPY_THREADS", str(copies.threads), "of a block that copies rows", path)
    yield Constant("COPY_WORDS", str(copies.words), "of each of its rows that a thread has", path)
    yield Constant("COPY_ROWS", str(copies.rows), "that a thread has", path)
    yield Constant("COPY_BAND", "COPY_THREADS // 32 * COPY_ROWS", "rows of a block", path)
    yield Constant("COPY_LINE", str(copies.line), "bytes: copies of longer rows are padded to whole ones", path)
