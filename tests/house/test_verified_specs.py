"""`make test` verifies a kernel of each kind that is in `specs/`; what it leaves out is for `make sweep`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from specs_kit import ROOT, SPECS, modules_of

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
LISTS = re.search(r"^LISTS := \$\(patsubst %,specs/%\.yaml,([^)]*)\)$", MAKEFILE, re.MULTILINE)


def left_out() -> set[str]:
    """The specs that only `make sweep` verifies, by the names of their files."""
    assert LISTS is not None
    return set(LISTS[1].replace("\\", " ").split())


def kinds(specs: Iterable[str]) -> set[tuple[str, str]]:
    """The plans of these specs' modules and kernels, by their classes and the instructions that multiply."""
    modules = [module.plan for name in specs for module in modules_of(name).values()]
    plans = [plan for module in modules for plan in (module, *module.kernels)]
    return {(type(plan).__name__, str(getattr(getattr(plan.spec.schedule, "mma", None), "atom", ""))) for plan in plans}


def recipe(target: str) -> str:
    """The commands of a target of the Makefile."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found is not None
    return found[1]


def test_every_spec_is_verified() -> None:
    assert left_out() < {path.stem for path in SPECS}, "each is the name of a spec"
    assert "cutegen verify $(filter-out $(LISTS),$(wildcard specs/*.yaml)) --on cpu" in recipe("verified")
    assert re.search(r"\$\(MAKE\) .*\bverified\b", recipe("test"))
    assert "cutegen verify $(LISTS) --on cpu" in recipe("sweep")


def test_a_kernel_of_each_kind_is_verified_in_each_run_of_the_tests() -> None:
    specs = {path.stem for path in SPECS}
    assert kinds(specs - left_out()) == kinds(specs)
