"""What holds for every test."""

from __future__ import annotations

import os

# Tests run side by side, a process a core: threads of torch would only wait for each other there.
os.environ.setdefault("OMP_NUM_THREADS", "1")
