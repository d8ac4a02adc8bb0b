"""`python -m cutegen`."""

from __future__ import annotations

from cutegen.cli import main

if __name__ == "__main__":
    main()
