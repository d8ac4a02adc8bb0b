"""Why an access is as wide as it is."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen import layouts
from cutegen.analysis.access import Access
from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.language.model import KernelSpec
from cutegen.planning.promises import fitting_elements, whole_accesses


@dataclass(frozen=True)
class Width:
    """The width of an access in elements: what it moves, and what each reason alone would let it move."""

    vector: int
    run: int  # neighbours in memory that a thread has in a row
    aligned: int  # by the tensor's alignment
    fixed: int  # by a size that the spec fixes
    widest: int  # 128 bits
    values: int  # of a thread
    told: str = ""  # why no access is wider, where the access itself says so

    @property
    def possible(self) -> int:
        return min(self.run, self.allowed)

    @property
    def allowed(self) -> int:
        """The widest access that alignment, fixed strides and the hardware allow, however few elements a thread has in
        a row.
        """
        return min(self.aligned, self.fixed, self.widest)

    @property
    def why(self) -> str:
        """The reason that keeps an access from being wider."""
        if self.told:
            return self.told
        if self.vector < self.possible:
            return f"`bits` asks for no more of the {self.possible} that are possible"
        if self.vector == self.widest:
            return "128 bits are the most"
        if self.values == 1:
            return "a thread has one value"
        if self.vector == self.run:
            return (
                "no more neighbours of a thread lie in a row"
                if self.run > 1
                else "a thread's values do not lie in a row"
            )
        if self.vector == self.aligned:
            return "the alignment allows no more"
        return "the size that is fixed or promised allows no more"


def width(spec: KernelSpec, access: Access) -> Width:
    """How wide an access to global memory is, and why."""
    tensor = access.memory(spec)
    return Width(
        vector=access.vector,
        run=layouts.unit_stride_run(layouts.offsets(layouts.modes_of(access.layout)[1])),
        aligned=fitting_elements(spec, tensor),
        fixed=whole_accesses(spec, tensor.major) if access.workspace is None else MAX_VECTOR_BITS,
        widest=MAX_VECTOR_BITS // tensor.dtype.bits,
        values=access.values,
        told=access.narrow_because,
    )
