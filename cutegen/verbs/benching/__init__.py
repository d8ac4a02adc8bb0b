"""`cutegen bench`: kernels are measured at shapes, side by side with peers, and shown in tables and pictures.

`run_bench` measures, `keep_receipts` keeps what was found; `output` and `charts` say and draw it.
"""

from __future__ import annotations
