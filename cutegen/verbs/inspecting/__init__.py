"""`cutegen inspect`: what kernels compile to, and what changed since an older build of them."""

from __future__ import annotations
