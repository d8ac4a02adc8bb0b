"""A module in whose process nothing can be forked, as where there are too many processes."""

import errno
import os
from typing import NoReturn


def fork() -> NoReturn:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


os.fork = fork
