"""Text for kernels that also take calls that their accesses do not fit: which launch a call gets, and its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tensor_layouts import Layout

from cutegen.codegen.formatting import Item, python_tuple
from cutegen.families.common.pointwise import WORD, Operand
from cutegen.language.model import KernelSpec
from cutegen.planning.promises import known_divisor


@dataclass(frozen=True)
class Narrowing:
    """A kernel's launches. `layout` is the (thread, value) layout of the narrow one, if it has another."""

    spec: KernelSpec
    operands: tuple[Operand, ...]
    vector: int
    mode: str  # along which accesses are
    path: str  # the key of the spec that decides the (thread, value) layout
    layout: Layout | None = None
    cluster: str = ""  # the text of how many thread blocks a cluster has; empty without clusters
    block: str = "THREADS, 1, 1"  # its sides
    options: tuple[str, ...] = ()  # more of each launch
    empty: bool = False  # whether empty rows have the wide launch, at any address
    word: int = 0  # elements of an access of the launch between the two; 0: there is none

    @property
    def applies(self) -> bool:
        """Whether there are two launches; else nothing of this is printed."""
        return bool(self.spec.schedule.narrows)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Those of the kernel that differ from one launch to the other, besides its tensors."""
        return ("width: cutlass.Constexpr[int]",) if self.applies else ()

    @property
    def wide(self) -> dict[str, str]:
        """Launch arguments where the kernel's accesses fit, by parameter."""
        if not self.applies:
            return {}
        return {"width": "VECTOR", **self._aligned(self._constant)}

    @property
    def words(self) -> dict[str, str]:
        """The same of the launch between the two, whose accesses are of words."""
        return {"width": "WORD", **self._aligned(self._word)} if self.word else {}

    @property
    def narrow(self) -> dict[str, str]:
        """The same where they do not."""
        return {"width": "1", **({"tv_layout": "narrow_layout"} if self.layout is not None else {})}

    def documentation(self, path: str) -> tuple[tuple[str, str], ...]:
        """Notes for callers on the widths of accesses; `path` is the key of the copies in the spec."""
        bits = max((o.bits for o in self.operands), default=0)
        others = f"{WORD} bits or one element" if self.word else "one element"
        said = f"Accesses have {bits} bits where sizes, strides and addresses allow, else {others}."
        return ((path, said),) if self.applies else ()

    @property
    def context(self) -> dict[str, Any]:
        """Template variables of `common/launches.j2`."""
        return {
            "narrowing": self.applies,
            "has_blocks": any(o.tensor.blocks for o in self._moved()),
            "empty_fits": self._length if self.empty else "",
            "fitting": self._terms(self.vector, "VECTOR", self._constant),
            "words_fitting": self._terms(self.word, "WORD", self._word) if self.word else [],
            "narrow_layout": self.layout,
            "widest": self._widest,
            "most_accessed": python_tuple([most or "1" for most in self._widest]),
            "launched_same": self._same,
            "layout_path": self.path,
            "launch_grid": f"grid * {self.cluster}, 1, 1" if self.cluster else "grid, 1, 1",
            "launch_options": [*([f"cluster=[{self.cluster}, 1, 1]"] if self.cluster else []), *self.options],
            "block": self.block,
        }

    @property
    def _length(self) -> str:
        """The text of the size of the mode along which accesses are."""
        lead = self.spec.lead
        return f"m{lead.name}.shape[{lead.shape.index(self.mode)}]"

    def _terms(self, vector: int, name: str, constant: Callable[[Operand], str]) -> list[str]:
        """The texts of what holds where accesses of `vector` elements, which the module calls `name`, fit."""
        whole = self.mode in self.spec.static or known_divisor(self.spec, self.mode) % vector == 0
        moved: dict[str, list[str]] = {}
        for o in self._moved():
            moved.setdefault(constant(o), []).append(f"m{o.tensor.name}")
        terms = [f"_fits({', '.join([most, *names])})" for most, names in moved.items()]
        rows = f"{self._length} % {name} == 0"
        return terms if whole else [f"({rows})" if terms else rows, *terms]

    @property
    def _widest(self) -> list[str]:
        """Of each tensor the most elements of one access: "" of those that are accessed by the element."""
        widest = {o.tensor.name: self._constant(o) for o in self._moved()}
        return [widest.get(tensor.name, "") for tensor in self.spec.tensors]

    def _same(self, arguments: Sequence[str]) -> list[Item]:
        """Launch arguments that several launches share: of all `arguments` of the kernel the tensors, and those after
        the width; then grid, block and stream.
        """
        tensors = [f"m{tensor.name}" for tensor in self.spec.tensors]
        others = arguments[len(tensors) + self.applies :]
        grid = f"grid * {self.cluster}, 1, 1" if self.cluster else "grid, 1, 1"
        return [_tuple(tensors), _tuple(others), f"[{grid}]", f"[{self.block}]", "stream"]

    def _aligned(self, constant: Callable[[Operand], str]) -> dict[str, str]:
        return {f"m{o.tensor.name}": f"_aligned(m{o.tensor.name}, {constant(o)})" for o in self._moved()}

    def _moved(self) -> Iterable[Operand]:
        """The operands that wide accesses move."""
        return (o for o in self.operands if o.vector > 1)

    def _constant(self, o: Operand) -> str:
        return "VECTOR" if o.vector == self.vector else str(o.vector)

    def _word(self, o: Operand) -> str:
        return "WORD" if o.vector >= self.word else str(o.vector)


def _tuple(items: Sequence[str]) -> Item:
    return ("(", items, ",)" if len(items) == 1 else ")")
