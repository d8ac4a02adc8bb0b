"""`cutegen export`: kernels as shared libraries, with what calls them from Python and from C++, and no compiler."""

from __future__ import annotations
