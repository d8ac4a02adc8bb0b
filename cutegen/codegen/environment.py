"""The Jinja environment of the templates. Undefined names are errors: a template defaults nothing."""

from __future__ import annotations

from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from cutegen.codegen import formatting
from cutegen.codegen.regions import RegionTag
from cutegen.planning.layouts import show


@lru_cache(maxsize=1)
def environment() -> Environment:
    env = Environment(
        loader=PackageLoader("cutegen.codegen", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        extensions=[RegionTag],
    )
    env.globals.update(
        call=formatting.call,
        launch=formatting.launch,
        chain=formatting.chain,
        layout=formatting.make_layout,
        text=formatting.comment_layout,
        show=show,
    )
    return env
