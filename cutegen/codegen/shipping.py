"""A kernel as it is shipped: the texts around its compiled code. Pure functions, as `render` is.

The loader is the module without its kernel: the same function with the same checks, which calls what a library has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cutegen.codegen.asked import family_of
from cutegen.codegen.environment import environment
from cutegen.codegen.formatting import call, python_tuple
from cutegen.codegen.generate import Module
from cutegen.codegen.host import host_context
from cutegen.codegen.padding import constants
from cutegen.codegen.parts import Constant
from cutegen.codegen.regions import separate
from cutegen.codegen.render import MULTIPROCESSORS, docstring, launch_parameters
from cutegen.codegen.torch_op import op_context
from cutegen.language.model import LANGUAGE
from cutegen.version import __version__

AT_RUN_TIME = "multiprocessors: cutlass.Int32"  # the parameter of `launch` that is known only at a call
MARK = "Exported by cutegen"  # what every exported text begins with, behind the sign of a comment


def loader_text(module: Module, spec_path: str, library: str, targets: Sequence[str]) -> str:
    """The Python that loads a kernel from `library`, a file beside it, which has its code for `targets`.

    `spec_path` is where its spec is, as its first line names it.
    """
    plan = module.plan
    spec = plan.spec
    parts = family_of(spec).kernel_parts(plan)
    context = host_context(plan, parts, compiles=False) | op_context(spec.by_argument, module.gradients)
    context |= {
        "docstring": docstring(spec),
        "library": library,
        "targets": python_tuple(tuple(f'"{target}"' for target in targets)),
        "told_targets": told(targets),
        "kernel": spec.kernel,
        "plan": plan,
        "output": spec.output,
        "constants": (),
    }
    template = environment(family_of(spec)).get_template("module/shipped/loader.py.j2")
    bare = template.render(context | dict(parts.context))
    used = _used(constants(parts), bare)
    body, _ = separate(template.render(context | dict(parts.context) | {"constants": used}))
    return f"# {mark(spec_path)}\n{body}"


def object_text(module: Module) -> str:
    """The module that an object is compiled from: one whose compiled function takes the multiprocessors of the GPU as
    its last argument, where they are known only then and have a say.
    """
    plan = module.plan
    parts = family_of(plan.spec).kernel_parts(plan)
    if not parts.multiprocessors:
        return module.text
    parameters = launch_parameters(plan.spec, parts)
    at_once = ", ".join(parameter.split(":")[0] for parameter in parameters)
    parameters = [AT_RUN_TIME if parameter == MULTIPROCESSORS else parameter for parameter in parameters]
    head, body = call("def launch(", parameters, "):", 0), call("_launch(", [at_once], ")", 4)
    return f"{module.text}\n\n_launch = launch\n\n\n@cute.jit\n{head}\n    {body}\n"


def mark(spec_path: str) -> str:
    """The line that every exported text begins with, behind the sign of a comment."""
    return f"{MARK} {__version__} (language {LANGUAGE}) from {spec_path}: edit that, not this."


def told(targets: Sequence[str]) -> str:
    """Targets in words: `sm_80 and sm_90a`."""
    return " and ".join([", ".join(targets[:-1]), targets[-1]] if targets[1:] else targets)


def _used(known: Sequence[Constant], text: str) -> list[Constant]:
    """The constants that a text or others of these use."""
    found: list[Constant] = []
    for constant in reversed(known):
        if re.search(rf"\b{re.escape(constant.name)}\b", text):
            found.insert(0, constant)
            text += f"\n{constant.value}"
    return found
