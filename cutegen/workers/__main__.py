"""`python -m cutegen.workers MODULE` runs the function `main` of that module, which serves jobs."""

from __future__ import annotations

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module(sys.argv[1]).main()
