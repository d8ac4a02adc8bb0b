"""Names of variables that generated code may take: no other name in a kernel or in its host side is the same."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import chain, count

from cutegen.codegen.asked import op_of
from cutegen.language.model import KernelSpec
from cutegen.language.names import COMPILERS_OWN, RESERVED_ARGUMENTS, derived_from

_TEMPORARY = re.compile(r"x\d+")  # what printers call parts of an expression


class Variables:
    """Gives out names that are free in the functions of one module, and none of those that are `taken` besides."""

    def __init__(self, spec: KernelSpec, taken: Collection[str] = ()) -> None:
        tensors = {t.name: t.argument for t in (*spec.tensors, *spec.arguments)}
        named = [*tensors, *spec.modes]
        self._spec = {spec.kernel, *named, *tensors.values(), *(s.name for s in spec.scalars)}
        self._spec |= {*op_of(spec).reserved, *taken}
        self._others = {spec.kernel, *named}
        self._taken: set[str] = set()
        self._tensors, self._products = spec.tensors, spec.compute.products

    @property
    def taken(self) -> frozenset[str]:
        """The names that were given out."""
        return frozenset(self._taken)

    def free(self, *wanted: str) -> str:
        """The first of `wanted` that nothing else is called; else the last with a number behind it."""
        numbered = (f"{wanted[-1]}_{number}" for number in count(1))
        name = next(name for name in chain(wanted, numbered) if self._is_free(name))
        self._taken.add(name)
        return name

    def products(self) -> dict[str, str]:
        """The variable of each matrix product `A @ B.T` by the name of its B: `product`, where there is one product."""
        names = [node.b for node in self._products]
        if len(names) == 1:
            return {names[0]: "product"}
        arguments = {t.name: t.argument for t in self._tensors}
        return {name: self.free(f"product_{arguments[name]}") for name in names}

    def _is_free(self, name: str) -> bool:
        if name in self._spec or name in self._taken or name in RESERVED_ARGUMENTS or _TEMPORARY.fullmatch(name):
            return False
        return derived_from(name, self._others) is None and not COMPILERS_OWN.fullmatch(name)
