"""What mkdocs runs: it adds the pages that are made, and fills in the parts of others that are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from making.site import PARTS, files_of_site
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds every page and file that is made."""
    for name, content in files_of_site().items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Puts the parts that are made where a page has their marks."""
    for mark, make in PARTS.items():
        if mark in markdown:
            markdown = markdown.replace(mark, make())
    return markdown
