"""What makes the pages of the documentation that follow from the code, and the pictures that the README shows.

It is no part of the package: `mkdocs build` runs it by `docs/hook.py`. Every function here gives texts and touches no
file, but `pictures`, which is run by hand.
"""

from __future__ import annotations
