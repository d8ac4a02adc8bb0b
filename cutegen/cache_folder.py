"""Where cutegen keeps on disk what it can make again."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER_VARIABLE = "CUTEGEN_CACHE_DIR"


def cache_folder() -> Path:
    """The folder of caches: `$CUTEGEN_CACHE_DIR`, else cutegen's folder where this system keeps them."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_dir("cutegen"))


def is_trusted(path: Path) -> bool:
    """Whether nobody but this user and root can have written a file, nor can put another in its place in its folder.

    What is executed, and not only read, is taken from caches under this condition.
    """
    if not hasattr(os, "geteuid"):
        return path.exists()
    try:
        found = [path.stat(), path.parent.stat()]
    except OSError:
        return False
    return all(one.st_uid in (0, os.geteuid()) and not one.st_mode & 0o022 for one in found)
