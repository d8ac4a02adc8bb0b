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
