"""A module whose import takes longer than it takes to ask for a worker."""

from __future__ import annotations

import time

time.sleep(3.0)
