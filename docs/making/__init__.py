"""Generates the documentation pages that follow from the code, and the pictures of the README.

It is not part of the package: `mkdocs build` runs it by `docs/hook.py`. Every function here returns texts and touches
no file, except `pictures`, which is run by hand.
"""

from __future__ import annotations
