"""`python -m cutegen.emulator.native` compiles the C core of the emulator if it is not there, and says where it is."""

from __future__ import annotations

from cutegen.emulator.native.building import SWITCH, core_folder, is_off
from cutegen.emulator.native.library import Core, load


def main() -> None:
    """Prints where the core is, or why numpy does what it would do."""
    found = load(core_folder())
    if not isinstance(found, Core):
        print(f"no C core, numpy runs all instructions: {found}")
    elif is_off():
        print(f"the C core is there, and turned off by {SWITCH}=0: {found.path}")
    else:
        print(f"{len(found.operations)} operations of the C core are used: {found.path}")


if __name__ == "__main__":
    main()
