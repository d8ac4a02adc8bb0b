"""The hook of mkdocs: adds generated pages, and redirects links to files of the repository to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from making.links import to_site
from making.site import files_of_site
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
    """Changes the links that lead out of the folder of the documentation."""
    return to_site(markdown, page.file.src_uri, files.src_uris)
