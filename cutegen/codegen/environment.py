"""The Jinja environment of a family's templates. Undefined names are errors: a template defaults nothing."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, FunctionLoader, PrefixLoader, StrictUndefined

from cutegen.codegen import formatting
from cutegen.codegen.asked import Family
from cutegen.codegen.compiled_templates import CompiledTemplates
from cutegen.codegen.printing import printed
from cutegen.codegen.regions import RegionTag
from cutegen.layouts import show

if TYPE_CHECKING:
    from importlib.abc import Traversable


@lru_cache(maxsize=64)
def environment(family: Family) -> Environment:
    """The Jinja environment in which a family's templates are rendered.

    `module/...` are the templates of what all modules have, `parts/...` those of statements; the family says which
    others there are.
    """
    own = {"module": files("cutegen.codegen") / "templates", "parts": files("cutegen.parts") / "templates"}
    folders = {**family.templates, **own}
    env = Environment(
        loader=PrefixLoader({prefix: _loader(folder) for prefix, folder in folders.items()}),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        extensions=[RegionTag],
        bytecode_cache=CompiledTemplates(),
    )
    env.globals.update(
        call=formatting.call,
        launch=formatting.launch,
        chain=formatting.chain,
        product=formatting.product,
        layout=formatting.make_layout,
        assign_layout=formatting.assign_layout,
        text=formatting.comment_layout,
        show=show,
        printed=printed,
    )
    return env


def _loader(folder: Traversable) -> FunctionLoader:
    """Finds the files of a folder, which may be inside of a package that is not unpacked."""

    def read(name: str) -> tuple[str, str, None] | None:
        file = folder / name
        return (file.read_text(encoding="utf-8"), str(file), None) if file.is_file() else None

    return FunctionLoader(read)
