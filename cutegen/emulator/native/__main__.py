"""`python -m cutegen.emulator.native` says whether the C core of the emulator is there, and why not if it is not."""

from __future__ import annotations

from cutegen.cache_folder import cache_folder
from cutegen.emulator.native.library import SWITCH, Core, is_off, load


def main() -> None:
    """Prints where the core is, or why numpy does what it would do."""
    found = load(cache_folder())
    if not isinstance(found, Core):
        print(f"no C core, numpy runs all instructions: {found}")
    elif is_off():
        print(f"the C core is there, and turned off by {SWITCH}=0: {found.path}")
    else:
        print(f"{len(found.operations)} operations of the C core are used: {found.path}")


if __name__ == "__main__":
    main()
