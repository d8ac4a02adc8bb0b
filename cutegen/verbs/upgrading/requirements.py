"""The requirements of `--with`: written as pip takes them, each with how precisely it determines a package."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from cutegen.errors import CutegenError

_NAMED = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*([^;]*)(?:;.*)?")
_EXACT = re.compile(r"={2,3}\s*([^,*\s]+)\s*")
_LOWEST = re.compile(r">=\s*([^,;\s]+)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|git\+|[^@]+@\s*[A-Za-z]")


class RequirementError(CutegenError):
    """Says that a text is no requirement that pip could install."""


@dataclass(frozen=True)
class Requirement:
    """One requirement. `text` is what the installer gets, with an absolute path of what is on this disk.

    `name` is the package's, normalised, empty where only an installer could tell; `content` is what makes another
    environment of the same text necessary, None where that cannot be known: a range, a folder, what a URL leads to.
    """

    text: str
    name: str
    content: str | None

    @property
    def is_direct(self) -> bool:
        """Whether it says where the package is, which may then be another one of a version that is here."""
        return "/" in self.text


def read_requirements(texts: Sequence[str]) -> tuple[Requirement, ...]:
    """Reads requirements: `NAME==VERSION` and the like, a URL such as `git+https://...`, a wheel, a folder.

    Raises RequirementError for an option of pip, for a file that is not there and for what is nothing of these.
    """
    return tuple(_read(text.strip()) for text in texts)


def _read(text: str) -> Requirement:
    """Reads one requirement. Raises RequirementError."""
    if not text or text.startswith("-"):
        help = "name a package as pip does, such as nvidia-cutlass-dsl==4.8.1; for pip's own options there is pip.conf"
        raise RequirementError(f"`{text}` is not a requirement", help)
    path = Path(text).expanduser()
    if text.endswith((".whl", ".tar.gz", ".zip")) and not _URL.match(text):
        return _archive(text, path)
    if path.is_dir() and ("/" in text or text.startswith(".")):
        return Requirement(str(path.absolute()), "", None)
    if "/" in text and not _URL.match(text):
        raise RequirementError(f"{text} does not exist", "name a wheel, a folder, a URL, or a package as pip does")
    if _URL.match(text):
        name = text.partition("@")[0].strip() if re.match(r"[\w.-]+\s*@", text) else ""
        return Requirement(text, normalised(name), None)
    named = _NAMED.fullmatch(text)
    if named is None or (named[2].strip() and named[2].lstrip()[0] not in "=<>!~"):
        raise RequirementError(
            f"`{text}` is not a requirement", "write it as pip does: NAME, NAME==VERSION, NAME>=VERSION"
        )
    return Requirement(
        re.sub(r"\s+", "", text) if ";" not in text else text,
        normalised(named[1]),
        "" if _EXACT.fullmatch(named[2].strip()) else None,
    )


def _archive(text: str, path: Path) -> Requirement:
    """The requirement of a file to install. Raises RequirementError where it is not there."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise RequirementError(f"{text} cannot be read: {error.strerror or error}") from None
    name = normalised(path.name.partition("-")[0]) if path.suffix == ".whl" else ""
    return Requirement(str(path.absolute()), name, digest)


def normalised(name: str) -> str:
    """The name of a package as indexes compare it: `nvidia-cutlass-dsl`, however it was written."""
    return re.sub(r"[-_.]+", "-", name).lower()


def too_old(versions: Mapping[str, str]) -> list[str]:
    """A sentence for each package whose version is lower than the lowest that cutegen asks for itself.

    Empty, too, where cutegen is not installed and so says nowhere what it asks for.
    """
    try:
        wanted = metadata.requires("cutegen") or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for text in wanted:
        named, lowest = _NAMED.fullmatch(text), _LOWEST.search(text.partition(";")[0])
        if named is None or lowest is None or "extra ==" in text:
            continue
        name, version = normalised(named[1]), versions.get(normalised(named[1]))
        if version is not None and _release(version) < _release(lowest[1]):
            found.append(
                f"{name} {version} is older than what cutegen is for, which is {lowest[1]} and later: "
                "what fails there says nothing about your kernels"
            )
    return found


def _release(version: str) -> list[int]:
    """The numbers of a version up to what marks it as early, late or local, without zeros at the end."""
    numbers = re.match(r"(?:\d+!)?(\d+(?:\.\d+)*)", version)
    parts = [int(part) for part in numbers[1].split(".")] if numbers else []
    while parts and parts[-1] == 0:
        parts.pop()
    return parts
