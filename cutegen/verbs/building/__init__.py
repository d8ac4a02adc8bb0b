"""`cutegen build` and `cutegen verify`: modules are compiled, verified, and written, all of them or none."""

from __future__ import annotations
