"""The texts that a C++ program needs to call a shipped kernel: a header, an example, and CMake files that find both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from cutegen.codegen.asked import family_of
from cutegen.codegen.environment import environment
from cutegen.codegen.generate import Module
from cutegen.codegen.host import alignment, default_size, document_tensor, summary
from cutegen.codegen.padding import moved
from cutegen.codegen.parts import KernelParts, Workspace, WorkspaceMode
from cutegen.codegen.shipping import mark, told
from cutegen.dtypes import Dtype
from cutegen.expressions.places import ONE, parts_of
from cutegen.language.kinds import MAX_INT
from cutegen.language.model import KernelSpec, Tensor
from cutegen.views.extents import extent, is_computed

# Names of the language that C++, its headers and the texts here have for something else
_KEYWORDS = """
    alignas alignof asm auto bool break case catch char class concept const const_cast constexpr continue co_await
    co_return co_yield decltype default delete do double dynamic_cast else enum explicit export extern false float
    for friend goto if inline int long mutable namespace new noexcept not nullptr operator or and private protected
    public register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename union unsigned using virtual void
    volatile wchar_t while xor stream main std kernels self current error before device
    Buffer EOF HUGE_VAL INFINITY NAN NULL Stream errno int64_t linux unix
"""
_CODES = {
    Dtype.bf16: "kDLBfloat",
    Dtype.f8e4m3: "kDLFloat8_e4m3fn",
    Dtype.f8e5m2: "kDLFloat8_e5m2",
    Dtype.bool: "kDLBool",
}


def header_text(module: Module, spec_path: str) -> str:
    """The C++ header of a kernel: a function that takes tensors, numbers and workspaces, and a stream."""
    return _render("header.h.j2", module, spec_path)


def example_text(module: Module, spec_path: str) -> str:
    """A C++ program that calls a kernel on memory of its own. It includes the header, and one of `shared_texts`."""
    return _render("example.cpp.j2", module, spec_path)


def entry_text(module: Module, targets: Sequence[str]) -> str:
    """The C code of a kernel's entry in a library, which chooses its code for the GPU by the targets that it has."""
    choices = sorted(map(_Choice.of, targets), key=lambda one: (-one.exact, -one.major, -one.minor))
    spec, parts = module.spec, family_of(module.spec).kernel_parts(module.plan)
    spaces = parts.workspaces.each if parts.workspaces else ()
    own = len(spec.tensors) + len(spec.scalars) + len(spaces)
    taken = own + len(moved(spec, parts)) + (parts.chooser is not None)
    context = {
        "kernel": spec.kernel,
        "choices": choices,
        "told_targets": told(targets),
        "taken": taken if parts.multiprocessors else 0,
        "chooses_by_gpu": parts.chooser is not None and parts.chooser.multiprocessors,
    }
    template = environment(family_of(module.spec)).get_template("module/shipped/entry.c.j2")
    return template.render(context)


def cmake_text(module: Module, library: str, spec_path: str) -> str:
    """The CMake file of a kernel: a target for its library, which is in the parent folder, and one for its example."""
    template = environment(family_of(module.spec)).get_template("module/shipped/kernel.cmake.j2")
    return template.render({"mark": f"# {mark(spec_path)}", "kernel": module.spec.kernel, "library": library})


def shared_texts() -> dict[str, str]:
    """The texts that are the same for all kernels, by the file that each goes to."""
    return {"CMakeLists.txt": _file("CMakeLists.txt"), "examples/buffer.h": _file("buffer.h")}


def library_sources() -> dict[str, str]:
    """The files that every library is linked from besides its kernels: their texts, by file name."""
    return {name: _file(name) for name in ("runtime.c", "library.map")}


def _file(name: str) -> str:
    return (files("cutegen.codegen") / "templates" / "shipped" / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class _Choice:
    """The code for one target: which GPUs it runs on, by the numbers of their compute capability."""

    name: str
    major: int
    minor: int
    exact: int  # 1 where it runs on no GPU of a higher minor number

    @classmethod
    def of(cls, target: str) -> _Choice:
        digits = "".join(filter(str.isdigit, target))
        return cls(target, int(digits[:-1]), int(digits[-1]), int(not target[-1].isdigit()))


def _render(template: str, module: Module, spec_path: str) -> str:
    spec = module.plan.spec.by_argument
    parts = family_of(spec).kernel_parts(module.plan)
    spaces = parts.workspaces.each if parts.workspaces else ()
    arguments = [_name(t.argument) for t in spec.tensors] + [_name(s.argument) for s in spec.scalars]
    inputs, named = ([_name(t.argument) for t in tensors] for tensors in (spec.inputs, spec.named))
    parameters = [f"tvm::ffi::TensorView {name}" for name in inputs]
    parameters += [f"{'double' if s.dtype.is_float else 'int64_t'} {_name(s.argument)}" for s in spec.scalars]
    parameters += [f"tvm::ffi::TensorView {name}" for name in named]
    values = ["0.5" if s.dtype.is_float else "2" for s in spec.scalars]
    spare = [_name(x.parameter) for x in spaces]
    workspaces = [_workspace(spec, x, spare) for x in spaces]
    context = {
        "mark": f"// {mark(spec_path)}",
        "kernel": spec.kernel,
        "function": _name(spec.kernel),
        "summary": summary(spec).split("\n")[0],
        "documentation": _documentation(spec, parts, workspaces),
        "output": _name(spec.output.argument),
        "parameters": [*parameters, *(f"tvm::ffi::TensorView {name}" for name in spare)],
        # No memory is given for what does not stand as the kernel takes it: that is refused
        "arguments": [*arguments, *spare, *["int64_t{0}"] * len(parts.padded), *_chosen(spec, parts)],
        "chooser": parts.chooser,
        "chooser_header": f"{family_of(spec).name}/{parts.chooser.header}" if parts.chooser else "",
        "example_arguments": [*inputs, *values, *named, *spare],
        "workspaces": workspaces,
        "exact": [(_name(t.argument), _type(t.dtype), t.dtype.torch) for t in spec.tensors if not t.dtype.is_float],
        "sizes": [
            (_mode(spec, mode, spare), spec.static[mode] if mode in spec.static else default_size(spec, mode))
            for mode in spec.modes
            if mode != ONE
        ],
        "buffers": [_buffer(spec, t, parts, spare) for t in spec.tensors],
        "outputs": [_name(t.argument) for t in spec.outputs],
    }
    context |= parts.chooser.context if parts.chooser else {}
    return environment(family_of(spec)).get_template(f"module/shipped/{template}").render(context)


def _chosen(spec: KernelSpec, parts: KernelParts) -> list[str]:
    """The number of the kernel that a call takes, where that follows from its sizes."""
    if parts.chooser is None:
        return []
    sizes = [f"{_name(argument)}.size({place})" for argument, place in parts.chooser.sizes]
    if parts.chooser.multiprocessors:
        first = _name(parts.chooser.sizes[0][0])
        sizes.append(f"__tvm_ffi__multiprocessors_{spec.kernel}({first}.device().device_id)")
    return [f"{_name(spec.kernel)}_kernel({', '.join(sizes)})"]


def _name(name: str) -> str:
    """A name of the language as C++ takes it; no two have the same."""
    return f"{name}_" if name.rstrip("_") in _KEYWORDS.split() else name


def _documentation(spec: KernelSpec, parts: KernelParts, workspaces: Sequence[dict[str, Any]]) -> list[str]:
    tensors = (*spec.inputs, *spec.named)
    told = {t.argument: document_tensor(spec, t, parts, for_kernel=True) for t in tensors}
    lines = [f"{_name(argument)}{line.removeprefix(argument)}" for argument, line in told.items()]
    function = _name(spec.kernel)
    whole = [_name(t.argument) for t in spec.outputs if t.name in parts.padded]
    return [
        *lines,
        *(f"{name}: rows are written in whole 16 bytes, over what stands behind a row up to there." for name in whole),
        *(f"{x['name']}: memory that the call needs, as `{function}_{x['name']}` says." for x in workspaces),
    ]


def _type(dtype: Dtype) -> str:
    """A DLPack type in C++."""
    kind = "kDLFloat" if dtype.is_float else "kDLUInt" if dtype.is_unsigned else "kDLInt"
    return f"{{{_CODES.get(dtype, kind)}, {dtype.bits}, 1}}"


def _mode(spec: KernelSpec, mode: str, spare: Sequence[str]) -> str:
    """The variable of the example that has the size of a mode, beside tensors and those `spare` workspaces; a 1 has
    none.
    """
    taken = {
        *(_name(t.argument) for t in spec.tensors),
        *spare,
        *(f"{name}_sizes" for name in spare),
        *_KEYWORDS.split(),
    }
    taken |= {*_KEYWORDS.split()}
    names = (mode, *(f"{'size_' * several}{mode}" for several in range(1, 2 + len(spec.modes) + len(taken))))
    return next(name for name in names if name not in taken and (name == mode or name not in spec.modes))


def _extent(spec: KernelSpec, tensor: Tensor, item: str, spare: Sequence[str]) -> str:
    """The size of a tensor's mode in C++, of the variables of the modes that it is computed of: that of the mode, the
    number of blocks of one, or a computed size.
    """
    block = next((block for block in tensor.blocks if block.mode == item), None)
    if block is not None:
        return f"({_mode(spec, block.of, spare)} + {block.size - 1}) / {block.size}"
    if not is_computed(item):
        return _mode(spec, item, spare)
    return extent(item).text({mode: _mode(spec, mode, spare) for mode in extent(item).modes})


def _buffer(spec: KernelSpec, tensor: Tensor, parts: KernelParts, spare: Sequence[str]) -> dict[str, Any]:
    """An argument of the example: its memory as it is made."""
    return {
        "name": _name(tensor.argument),
        "type": _type(tensor.dtype),
        "shape": [_extent(spec, tensor, item, spare) for item in tensor.shape],
        "major": tensor.shape.index(tensor.contiguous) if tensor.shape else 0,
        "align": alignment(tensor, parts),
        "dense": f", {len(tensor.dense)}" if tensor.dense else "",
    }


def _workspace(spec: KernelSpec, space: Workspace, spare: Sequence[str]) -> dict[str, Any]:
    """A workspace: its sizes in C++, and the mode sizes that they depend on."""
    named = [part for mode in space.modes if isinstance(mode.size, str) for part in parts_of(mode.size)]
    needed = list(dict.fromkeys(mode for mode in named if mode not in spec.static))
    name = _name(space.parameter)
    return {
        "name": name,
        "dtype": space.dtype.torch,
        "type": _type(space.dtype),
        "major": space.major,
        "align": 16,
        "parameters": [f"int64_t {_name(mode)}" for mode in needed],
        "given": [_mode(spec, mode, spare) for mode in needed],
        "sizes": [_size(spec, mode) for mode in space.modes],
        "places": [f"{name}_sizes[{place}]" for place in range(len(space.modes))],
    }


def _size(spec: KernelSpec, mode: WorkspaceMode) -> str:
    """The size of a mode of a workspace, in C++."""
    known = mode.size if isinstance(mode.size, int) else spec.static.get(mode.size)
    if known is not None:
        return str(mode.rounded(known))
    parts = [str(spec.static[part]) if part in spec.static else _name(part) for part in parts_of(str(mode.size))]
    size = " * ".join(parts)
    low, high = mode.within
    bounds = [f"{size} >= {low}" if low > 0 else f"{size} > 0", *([f"{size} <= {high}"] if high < MAX_INT else [])]
    counted = f"({' && '.join(bounds)} ? {size} : 1)"
    return size if mode.unit == 1 else f"({counted} + {mode.unit - 1}) / {mode.unit} * {mode.unit}"
