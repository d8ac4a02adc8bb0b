"""Verifies whole kernels: the cases of each and the checks of its host code, in processes of their own.

`verify_all` verifies several kernels; in a process, `kernel.verify_kernel` verifies one of them.
"""

from __future__ import annotations
