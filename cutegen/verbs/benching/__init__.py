"""`cutegen bench`: kernels are measured at shapes, side by side with peers, and shown in tables and pictures.

`run_bench` measures, and keeps what it found of a kernel in a receipt; `output` and `charts` say and draw it.
"""

from __future__ import annotations
